"""Reads one file as chunks in a process with limits: `python -m fdarx_core.documents.parsing_process`.

Uploaded files are read here: a file that keeps its parser busy, fills the memory or breaks the parser ends
this process alone. The request is a line of JSON on the standard input, the arguments of `read_file_chunks` and the
limits. The result, on the standard output, is one JSON line per document (its chunks) or Reject, and a last line that
says how it ended.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator

import orjson

from fdarx_core.documents.chunks import chunk_document, find_documents, may_hold_labels, read_documents
from fdarx_core.documents.labels import find_labels, read_label_file
from fdarx_core.labels import Selection, select
from fdarx_core.records import Chunk, Reject
from fdarx_core.storage.sources import Inputs

_NICE_AFTER_CPU_S, _NICENESS = 0.5, 15
"""Seconds of CPU time after which the process gives way to others (nice), so that a long file delays neither short
files nor questions."""
COMPLETE, OUT_OF_MEMORY = "complete", "out_of_memory"
"""The last line of a complete result, and of one stopped by the memory limit."""


def main() -> int:
    """Read the file that the standard input names, and end this process."""
    result = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not enter the result
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    arguments, cpu_s, memory_bytes = orjson.loads(line)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGPROF, lambda *_: os.nice(_NICENESS))
    signal.setitimer(signal.ITIMER_PROF, _NICE_AFTER_CPU_S)
    _limit(cpu_s, memory_bytes)
    try:
        for item in read_file_chunks(**arguments):
            result.write(orjson.dumps(item) + b"\n")
        result.write(orjson.dumps(COMPLETE) + b"\n")
    except MemoryError:
        result.write(orjson.dumps(OUT_OF_MEMORY) + b"\n")
    result.flush()
    os._exit(0)  # skips Python's shutdown, which takes 0.1 s


def read_file_chunks(file: str, max_characters: int, overlap: int, max_pages: int) -> Iterator[list[Chunk] | Reject]:
    """Yield the chunks of each document of a file, as `fdarx index` reads them, and rejects.

    Args:
        file: its path.
        max_characters: the most characters of a chunk.
        overlap: the characters that a chunk shares with the one before.
        max_pages: the most pages of a PDF.
    """
    inputs = find_documents([file])
    files = find_labels([source for source in inputs.sources if may_hold_labels(source)])
    labels, unselected = select(files.labels, Selection(document_types=(), excluded_routes=()))
    yield from files.rejects
    yield from unselected
    yield from map(read_label_file, labels)
    others = [*(source for source in inputs.sources if not may_hold_labels(source)), *files.others]
    for document in read_documents(Inputs(others, inputs.rejects), max_pages):
        if isinstance(document, Reject):
            yield document
        else:
            yield chunk_document(document, max_characters, overlap)


def _limit(cpu_s: int, memory_bytes: int) -> None:
    """Let the system end this process after so many further seconds of CPU time, and bound its address space."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + cpu_s
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_with_parent() -> None:
    """End this process when the parent process, which keeps the standard input open, has ended."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
