"""Benchmarks: each script prints ratios against a peer, a floor or a bound, measured in one run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from cyclopts import App, Parameter

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("FDARX_DATA", REPOSITORY.parent / "shared" / "data"))
"""The real data; see the README."""
PRESCRIPTION_LABELS = DATA / "spl" / "dm_spl_release_human_rx.zip"


def run(main: Callable[..., int]) -> None:
    """Run a script, whose options are the parameters of `main` and whose help is its docstring; exit with its code."""
    parameter = Parameter(consume_multiple=True, negative=())
    app = App(help=sys.modules["__main__"].__doc__, help_format="plaintext", default_parameter=parameter)
    app.default(main)
    app()


def read_documents(paths: Sequence[str] = ()) -> list[bytes]:
    """Read the documents of files, folders and archives, by default the real prescription labels."""
    from fdarx_core.labels import find_sources, read_source
    from fdarx_core.records import Reject

    sources = find_sources(list(paths) or [str(PRESCRIPTION_LABELS)]).sources
    found = (document for source in sources for document in read_source(source))
    return [document[1] for document in found if not isinstance(document, Reject)]


def cpu_timed(call: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call, and its CPU seconds."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


@contextmanager
def server_process(module: str, *arguments: str) -> Iterator[str]:
    """Run a module in its own process in this context; give the first line that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
