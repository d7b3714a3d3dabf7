"""The standard output of a job: text for people, or with `--json` one JSON object for programs and nothing else."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:  # importing it takes longer than listing the jobs may
    from fdarx_core.evaluation.tables import ResultTable
    from fdarx_core.records import Reject

_SHOWN_REJECTS = 5
_JSON_STREAM: ContextVar[TextIO | None] = ContextVar("the stream of the JSON object", default=None)


@contextmanager
def json_alone(job: Callable[[], object]) -> Iterator[None]:
    """Keep standard output for `print_json` while the block runs, if one of the options of the job has `as_json`.

    Whatever else is printed, by libraries and workers too, goes to standard error.
    """
    arguments = (*getattr(job, "args", ()), *getattr(job, "keywords", {}).values())
    if not any(getattr(argument, "as_json", False) for argument in arguments):
        yield
        return
    token = _JSON_STREAM.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _JSON_STREAM.reset(token)


def print_json(value: Any) -> None:
    """Print a result for programs: one JSON object on standard output."""
    import orjson  # importing it takes longer than listing the jobs may

    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_DATACLASS | orjson.OPT_NON_STR_KEYS)
    print(text.decode(), file=_JSON_STREAM.get() or sys.stdout)


def tell_tables(tables: Iterable[ResultTable], *, verbose: bool) -> None:
    """Print the first of the tables that have rows, and with --verbose all of them."""
    from fdarx_core.evaluation.tables import table_text  # importing it takes longer than listing the jobs may

    filled = [table for table in tables if table.rows]
    for table in filled if verbose else filled[:1]:
        print(f"\n{table_text(table)}")


def tell_result(result: str, *pages: str) -> None:
    """Print the result in words, and where its pages are, as the last lines of a job."""
    print("\n" + "\n".join(filter(None, [result, *(page and f"open {page}" for page in pages)])))


def tell_rejects(heading: str, rejects: Sequence[Reject], file: str) -> None:
    """Print on standard error how many rows were rejected, by reason, and the first of them; `file` has all of them."""
    reasons = Counter(reject.reason for reject in rejects)
    counted = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common())
    print(f"{heading}: {counted}; see {file}", file=sys.stderr)
    for reject in rejects[:_SHOWN_REJECTS]:
        print(f"  {printable(reject.id)}: {reject.reason}: {printable(reject.detail)}", file=sys.stderr)


def printable(text: str) -> str:
    """Return a text without control characters for the terminal, for what comes from a server or a file."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
