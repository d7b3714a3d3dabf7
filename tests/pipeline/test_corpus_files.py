"""The corpus of an evaluation is written once, goes on after a kill, and is copied once to a machine from S3."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from fdarx_core.pipeline.corpus_files import PARTS_A_SEGMENT, local_corpus, write_corpus
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.records import Passage
from fdarx_core.retrieval import Collection, passage_search_text
from fdarx_core.retrieval.corpus import open_corpus
from fdarx_core.retrieval.lexical import RankedList
from fdarx_core.storage import Location, RunDirectory
from fdarx_core.storage.node_copies import NodeCopies

QUERIES = ["renal dose of drug7", "storage", "drug3 drug3 tablets"]
PARTS = 2 * PARTS_A_SEGMENT + 3
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.pipeline.test_corpus_files import part_files, write

def kill_at_the_second_postings(event, arguments):
    name = str(arguments[0]) if event == "open" else ""
    if "/corpus/postings/" in name and list(Path(sys.argv[1]).glob("corpus/postings/segment-*")):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill_at_the_second_postings)
write(part_files(sys.argv[1]), int(sys.argv[2]))
"""
HOLDS = """
import sys
from fdarx_core.pipeline.corpus_files import local_corpus
from fdarx_core.storage.node_copies import NodeCopies
from tests.pipeline.test_corpus_files import part_files

parts = part_files(sys.argv[1])
copies = NodeCopies(parts.run.root)
local_corpus(parts, copies, [], range(int(sys.argv[2])))
print("copied", flush=True)
sys.stdin.read()
"""


def part_files(root: object) -> PartFiles:
    return PartFiles(RunDirectory(Location(str(root))), "one")


def write(parts: PartFiles, count: int) -> None:
    write_corpus(LocalExecutor(), parts, [], range(count), lambda done, of: None)


def write_passages(parts: PartFiles, count: int) -> list[Passage]:
    """Write parts of two passages, of which those of every fifth part are equal."""
    rows = []
    for part in range(count):
        for index, text in enumerate((f"renal dose of drug{part % 5}", "store at room temperature")):
            rows.append(Passage(f"set-{part}", index, 0, "", "", "", "", "storage", text))
        parts.write("passages", part, rows[-2:], Passage)
    return rows


def ranked(parts: PartFiles, copies: NodeCopies, count: int) -> list[list[RankedList]]:
    collection, _ = open_corpus(local_corpus(parts, copies, [], range(count)))
    return [index.rank(QUERIES, 12) for index in (collection.bm25, collection.tfidf)]


def ranked_in_memory(rows: Sequence[Passage]) -> list[list[RankedList]]:
    whole = Collection([passage_search_text(row) for row in rows])
    return [index.rank(QUERIES, 12) for index in (whole.bm25, whole.tfidf)]


def test_writing_goes_on_after_a_kill_within_a_segment(tmp_path: Path) -> None:
    parts = part_files(tmp_path)
    rows = write_passages(parts, PARTS)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(PARTS)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "corpus/statistics.arrow").exists()
    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("corpus/*/segment-000000.arrow")}
    assert len(before) == 2 and not (tmp_path / "corpus/postings/segment-000001.arrow").exists()
    write(parts, PARTS)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert len(list(tmp_path.glob("corpus/postings/segment-*.arrow"))) == 3
    copies = NodeCopies(parts.run.root)
    assert ranked(parts, copies, PARTS) == ranked_in_memory(rows)
    copies.close()
    assert len(list(tmp_path.glob("corpus/postings/segment-*.arrow"))) == 3  # only copies are deleted


@pytest.mark.s3
def test_a_machine_copies_the_corpus_from_s3_once_and_deletes_it_last(
    bucket: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    unused = tmp_path / f"fdarx-copies-{os.getuid()}-0"
    unused.mkdir()
    (unused / "lock").touch()  # as a process that was killed leaves it
    parts = part_files(bucket / "run")
    rows = write_passages(parts, 3)
    write(parts, 3)
    copies = NodeCopies(parts.run.root)
    assert ranked(parts, copies, 3) == ranked_in_memory(rows)
    [folder] = tmp_path.iterdir()
    made = {file: file.stat().st_ino for file in folder.iterdir() if file.suffix == ""}
    line = [sys.executable, "-c", HOLDS, f"{bucket}/run", "3"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "copied\n"
        assert {file: file.stat().st_ino for file in folder.iterdir() if file.suffix == ""} == made
        copies.close()
        assert folder.exists()
        other.communicate("")
    assert list(tmp_path.iterdir()) == []
