"""The jobs of the command line, one module per job, their exit codes, and the messages of errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import NoReturn

WRONG_ARGUMENT = 2
"""The exit code for everything that is wrong before work starts."""

STOPPED = 3
"""The exit code where something was left open that the same command may finish, or no reply of a model was usable."""

BELOW_THRESHOLD = 4
"""The exit code where a finished run misses a threshold of --fail-under or --fail-over."""

INTERRUPTED = 130


def _show_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print one line for Ctrl-C while modules are imported, which takes a second; show other errors as before."""
    if issubclass(kind, KeyboardInterrupt):
        print("\ninterrupted", file=sys.stderr)
    else:
        _BEFORE(kind, error, trace)


_BEFORE, sys.excepthook = sys.excepthook, _show_uncaught


@contextmanager
def wrong_arguments() -> Iterator[None]:
    """End the program with one line for a ValueError of the block, in which what the options name is opened.

    It also decorates a function. Outside of such blocks, a ValueError is a fault of the program, and shown as one.
    """
    try:
        yield
    except ValueError as error:
        stop(str(getattr(error, "cause", error)))  # Ray wraps what a worker raised


def exit_code(job: Callable[[], object]) -> int:
    """Return the job's exit code: its own, 2 after one line for wrong arguments, 3 where it was stopped while asking,
    130 where it was interrupted."""
    try:
        code = job()
    except KeyboardInterrupt:
        print("\ninterrupted; the same command resumes the job with what is done", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        from fdarx_core.llm import AskingStopped, ModelsError  # importing these takes longer than showing help may
        from fdarx_core.plugins import PluginError
        from fdarx_core.retrieval.models import ModelMissing
        from fdarx_core.storage import StorageError

        if isinstance(error, AskingStopped):
            print(f"stopped: {error}", file=sys.stderr)
            return STOPPED
        if isinstance(error, (StorageError, ModelsError, ModelMissing, PluginError)):
            stop(str(getattr(error, "cause", error)))  # Ray wraps what a worker raised
        from fdarx_core.extras import remedy

        cause = getattr(error, "cause", error)
        if isinstance(cause, ModuleNotFoundError) and (line := remedy(cause)):
            stop(line)
        raise
    return code if isinstance(code, int) else 0


def stop(message: str) -> NoReturn:
    """Print one line on standard error and end the program with WRONG_ARGUMENT."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(WRONG_ARGUMENT)
