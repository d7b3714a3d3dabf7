"""Benchmarks: each script prints ratios against a peer, a floor or a bound, measured in one run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("FDARX_DATA", REPOSITORY.parent / "shared" / "data"))
"""The real data; see the README."""
PRESCRIPTION_LABELS = DATA / "spl" / "dm_spl_release_human_rx.zip"


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser of a script's options, described by the first line of its docstring."""
    return argparse.ArgumentParser(description=(doc or "").splitlines()[0])
