"""What the steps of a review are given without a flag: the run or review first, then files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile


def flagged(arguments: Sequence[str], first: str, rest: str = "") -> list[str]:
    """The arguments with flags before those that lead without one: `RUN --n 5` as `--first RUN --n 5`.

    Those after the first go under `--rest`; without a name for them they stay, to be refused as unknown.
    """
    leading = list(takewhile(lambda word: not word.startswith("-"), arguments))
    flags = [f"--{first}", leading[0]] if leading else []
    more = leading[1:]
    return [*flags, *([f"--{rest}"] if rest and more else []), *more, *arguments[len(leading) :]]
