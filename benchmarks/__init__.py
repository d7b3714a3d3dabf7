"""Benchmarks: each script prints ratios against a peer, a floor or a bound, measured in one run."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("FDARX_DATA", REPOSITORY.parent / "shared" / "data"))
"""The real data; see the README."""
PRESCRIPTION_LABELS = DATA / "spl" / "dm_spl_release_human_rx.zip"


def command_line(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser of a script's options, described by the first line of its docstring."""
    return argparse.ArgumentParser(description=(doc or "").splitlines()[0])


def read_documents(paths: Sequence[str] = ()) -> list[bytes]:
    """Read all documents under the paths, by default the real prescription labels."""
    from fdarx_core.labels import find_sources, read_source
    from fdarx_core.records import Reject

    sources = find_sources(list(paths) or [str(PRESCRIPTION_LABELS)]).sources
    found = (document for source in sources for document in read_source(source))
    return [document[1] for document in found if not isinstance(document, Reject)]


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def cpu_seconds(call: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start
