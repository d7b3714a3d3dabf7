"""Reads uploaded files, each in a process of its own with limits, see `parsing_process`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pydantic import TypeAdapter

from fdarx_core.documents.parsing_process import COMPLETE, OUT_OF_MEMORY
from fdarx_core.records import Chunk, Reject

PROCESSES = 8
"""Files that are read at the same time; further ones wait."""
MAX_RESULT = 256 * 2**20
"""The most bytes of the chunks of a file, as JSON."""

_NEXT_AFTER_S = 0.1
"""Seconds after which the next process is started, so that it does not slow a short file."""
_MODULE = "fdarx_core.documents.parsing_process"
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "OMP_NUM_THREADS", "LD_LIBRARY_PATH")
"""Variables of the environment that the processes get; others may hold passwords."""
_MIB = 2**20
_RESULT = TypeAdapter(list[Chunk] | Reject | str)


@dataclass(frozen=True, slots=True)
class ParsingLimits:
    """The limits of reading one file: seconds of CPU time, MiB of memory (address space), pages of a PDF."""

    cpu_s: int = 300
    memory_mib: int = 4096
    pages: int = 5000


@dataclass(slots=True)
class ParsingResult:
    """The chunks of each document of a file, and the rejects. Nothing is read of a file that reaches a limit."""

    documents: list[list[Chunk]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


class IsolatedParser:
    """Reads files in processes that end when the file is read, or when its upload is cancelled.

    The next process is started before it is needed, since Python and the parsers take about half a second to load.
    """

    def __init__(self, limits: ParsingLimits) -> None:
        self._limits = limits
        self._places = asyncio.Semaphore(PROCESSES)
        self._shares: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(PROCESSES // 2))
        self._next: subprocess.Popen[bytes] | None = _start()
        self._closed = False

    async def parse(self, file: Path, size: int, overlap: int, client: str = "") -> ParsingResult:
        """Return the chunks of a file, of at most `size` characters that overlap by `overlap`.

        The files of one client take at most half of the processes, so that those of others need not wait for them.
        A file that reaches a limit, or that breaks its parser, gives one Reject: cpu_limit, memory_limit, result_limit
        or parser_failed. Where the task is cancelled, the process is killed.
        """
        limits = self._limits
        arguments = {"file": str(file), "max_characters": size, "overlap": overlap, "max_pages": limits.pages}
        request = orjson.dumps((arguments, limits.cpu_s, limits.memory_mib * _MIB)) + b"\n"
        async with self._shares[client], self._places:
            waiting, self._next = self._next, None
            asyncio.get_running_loop().call_later(_NEXT_AFTER_S, self._prepare)
            process = _start() if waiting is None or waiting.poll() is not None else waiting
            try:
                found = await asyncio.to_thread(_read_result, process, request, limits)
            finally:
                process.kill()
        if isinstance(found, ParsingResult):
            return found
        return ParsingResult(rejects=[Reject(str(file), "read", *found, source=str(file))])

    def close(self) -> None:
        """End the process that waits for the next file."""
        self._closed = True
        if self._next is not None:
            with self._next:
                self._next.kill()
            self._next = None

    def _prepare(self) -> None:
        if self._next is None and not self._closed:
            self._next = _start()


def _start() -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _MODULE],  # -P: no module of the current directory is imported
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _read_result(
    process: subprocess.Popen[bytes], request: bytes, limits: ParsingLimits
) -> ParsingResult | tuple[str, str]:
    """Return the result of a process, or the reason and the detail of a Reject.

    The result is data of a process that may be broken, and is checked as such.
    """
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(request)
        process.stdin.flush()
        data = process.stdout.read(MAX_RESULT + 1)
    except BrokenPipeError:
        data = b""
    code = process.poll() if len(data) > MAX_RESULT else process.wait()
    with process:
        process.kill()
    if len(data) > MAX_RESULT:
        return "result_limit", f"its text has more than {MAX_RESULT // _MIB} MiB; split the file"
    found = ParsingResult()
    try:
        for line in data.splitlines():
            row = _RESULT.validate_json(line, strict=True)
            if isinstance(row, Reject):
                found.rejects.append(row)
            elif isinstance(row, list):
                if len({chunk.document_id for chunk in row}) != 1:
                    raise ValueError("a line has the chunks of one document")
                found.documents.append(row)
            elif row == COMPLETE:
                return found
            elif row == OUT_OF_MEMORY:
                return "memory_limit", f"reading it takes more than {limits.memory_mib} MiB of memory; split the file"
    except ValueError:  # pydantic's is one
        pass
    if code == -signal.SIGXCPU:
        return "cpu_limit", f"reading it takes more than {limits.cpu_s} s of CPU time; split the file"
    return "parser_failed", f"its parser ended with the code {code}; the file may be damaged"
