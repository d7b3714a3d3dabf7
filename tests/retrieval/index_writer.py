"""A process that adds documents to an index one by one: python -m tests.retrieval.index_writer INDEX NAME"""

from __future__ import annotations

import subprocess
import sys

from fdarx_core.retrieval.index import IndexStore
from tests.retrieval.index_chunks import document

_DOCUMENTS = 2


def write(place: str, name: str) -> None:
    store = IndexStore(place)
    for number in range(_DOCUMENTS):
        store.commit([store.write_segment(document(f"{name}{number}", [f"text {number} of {name}"]))])


def run_writers(place: str, writers: int) -> None:
    """Run some at once, and check that the index has the documents of all."""
    names = "abcdefgh"[:writers]
    command = [sys.executable, "-m", __name__, place]
    processes = [subprocess.Popen([*command, name]) for name in names]
    assert [process.wait(120) for process in processes] == [0] * writers
    manifest = IndexStore(place).current()
    assert manifest is not None
    assert sorted(manifest.entries) == [f"{name}{number}" for name in names for number in range(_DOCUMENTS)]
    assert manifest.version.startswith(f"{writers * _DOCUMENTS:04d}-")


if __name__ == "__main__":
    write(*sys.argv[1:])
