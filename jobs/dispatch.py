"""One command for several: the first word names which, the rest is for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from jobs.exits import INTERRUPTED

Commands = Mapping[str, tuple[str, str]]
"""The module of each, which has `main(arguments) -> int`, and what it does."""


def dispatch(commands: Commands, given: Sequence[str], *, prog: str, noun: str) -> int:
    """Hand over to the named command; returns its exit code, 2 where there is none of that name.

    `prog` is what stands before the name on the command line, `noun` what the commands are called.
    """
    if given and given[0] in commands:
        try:
            main: Callable[[Sequence[str]], int] = import_module(commands[given[0]][0]).main
            return main(given[1:])
        except KeyboardInterrupt:  # before or after what the command itself calls its work
            return INTERRUPTED
    asked_for_help = list(given) in (["--help"], ["-h"])
    lines = [f"usage: {prog} {noun.upper()} [OPTIONS]", "", f"{noun}s:"]
    lines += [f"  {name:<12} {what}" for name, (_, what) in commands.items()]
    lines += ["", f"`{prog} {noun.upper()} --help` lists a {noun}'s options."]
    if given and not asked_for_help:
        lines.insert(0, f"error: there is no {noun} {given[0]!r}")
    print("\n".join(lines), file=sys.stdout if asked_for_help else sys.stderr)
    return 0 if asked_for_help else 2
