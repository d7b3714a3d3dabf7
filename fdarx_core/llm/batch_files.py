"""Batches as files: requests that are written for any program that answers OpenAI's batch format, without a server."""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict
from typing import ClassVar

import orjson

from fdarx_core.llm.attempts import PendingRequest, chat_span
from fdarx_core.llm.batch_formats import OPENAI_BATCHES, custom_id_of, most_cost
from fdarx_core.llm.failures import SHAPE_ERRORS, Failure, ReplyPending
from fdarx_core.llm.http_endpoint import HttpEndpoint
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.wire_formats import Completion, Messages, ServerFeatures
from fdarx_core.storage import Location
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.tables import read_json_lines

_LOG = logging.getLogger(__name__)
_FILE = re.compile(r"(?P<name>(?P<number>\d{3,})-(?P<model>.+?))(?P<output>\.output.*)?\.jsonl")
_KEY_DIGITS = 32


class BatchFileEndpoint(HttpEndpoint):
    """Writes the requests to one model into files, and reads the replies that another program has written beside them.

    A file `NUMBER-MODEL.jsonl` has requests, and all files `NUMBER-MODEL.output*.jsonl` have replies, in the formats of
    OpenAI's Batch API, whichever file of the model asks for them. A request without a reply raises ReplyPending; it is
    written into the next file, unless one that has no output yet asks it already. Files are written when they are full
    and by `close`. No server is contacted, and no key is read.

    Args:
        config: the model.
        folder: the folder of the files.
        stored: returns those of some keys of requests that have a response; their results are not kept in memory.
    """

    batched: ClassVar[bool] = True

    def __init__(
        self,
        config: ModelConfig,
        folder: Location,
        stored: Callable[[Iterable[str]], Collection[str]] = lambda keys: (),
    ) -> None:
        # How often a request is asked is up to who runs the command again.
        super().__init__(config.model_copy(update={"max_tries": sys.maxsize, "max_wait_s": sys.float_info.max}))
        self._folder, self._stored = folder, stored
        self._features_file = folder / f"features-{config.name}.json"
        self._reading = asyncio.Lock()
        self._number = 0  # of the next file; 0 before the folder is read
        self._asked: Counter[str] = Counter()  # how many files ask a request, by its custom id
        self._pending: set[str] = set()  # requests of files without an output, and of the next file
        self._results: dict[str, list[bytes | Failure]] = {}
        self._learned_before: dict[str, ServerFeatures] = {}  # when the files were written
        self._items: list[bytes] = []
        self._size = 0

    async def acquire(self, tokens: int, *, retry: bool) -> float:
        return await self.limits.acquire(tokens, retry)

    def delay_after(self, pending: PendingRequest, failure: Failure) -> float:
        super().delay_after(pending, failure)
        return 0.0

    def explain(self, failure: Failure) -> str:
        return (
            f"{super().explain(failure)}; to ask the requests again, delete the outputs in {self._folder} that say so"
        )

    async def close(self) -> None:
        await self._write()

    async def _exchange(self, pending: PendingRequest, messages: Messages) -> Completion:
        async with self._reading:
            if not self._number:
                await asyncio.to_thread(self._read_folder)
        custom_id = custom_id_of(pending.request, messages)
        results = self._results.pop(custom_id, [])
        reply = next((result for result in results if isinstance(result, bytes)), None)
        if reply is not None or (results and custom_id not in self._pending and len(results) >= self._asked[custom_id]):
            pending.sent, pending.sent_at = self._asked[custom_id], time.monotonic()
            pending.features = self.features(pending.request, self._learned_before)
            with chat_span(self.config, pending.request) as span:
                if reply is None:
                    assert isinstance(results[-1], Failure)
                    raise results[-1]
                return self._read(reply, span)
        if custom_id not in self._pending:
            self._pending.add(custom_id)
            item = OPENAI_BATCHES.item(custom_id, self._body(pending, messages))
            if len(self._items) >= OPENAI_BATCHES.max_requests or self._size + len(item) > OPENAI_BATCHES.max_bytes:
                await self._write()
            self._items.append(item)
            self._size += len(item)
            self.counters.reserved += most_cost(self.config, messages)
        raise ReplyPending(f"requests to {self.name} wait in {self._folder} for their replies")

    def _read_folder(self) -> None:
        """Read which requests are asked and which have results. Raises StorageError."""
        number, inputs, outputs = 0, dict[str, Location](), list[tuple[str, Location]]()
        for place, file in _batch_files(self._folder):
            if file["model"] == self.config.name:
                number = max(number, int(file["number"]))
                if file["output"]:
                    outputs.append((file["name"], place))
                else:
                    inputs[file["name"]] = place
        answered = {name for name, _ in outputs}
        for name, place in inputs.items():
            custom_ids = {str(line.row.get("custom_id")) for line in read_json_lines(place)}
            self._asked.update(custom_ids)
            self._pending |= set() if name in answered else custom_ids
        for _, place in outputs:
            self._read_output(place)
        if self._features_file.exists():
            features = orjson.loads(self._features_file.read_bytes())
            self._learned_before = {task: ServerFeatures(**fields) for task, fields in features.items()}
            self._learned |= self._learned_before
        self._number = number + 1

    def _read_output(self, place: Location) -> None:
        """Add the results of an output, except those of stored requests, and say which of its lines are of no use."""
        found: list[tuple[str, bytes | Failure]] = []
        useless: Counter[str] = Counter()
        for line in read_json_lines(place):
            try:
                custom_id, result = OPENAI_BATCHES.result(line.checked_row())
            except (*SHAPE_ERRORS, InputError):  # also the last line of a program that was stopped
                useless["cannot be read"] += 1
                continue
            if custom_id in self._asked:
                found.append((custom_id, result))
            else:
                useless["are of requests that no file there asks"] += 1
        if any(isinstance(result, bytes) for _, result in found):
            self._transport.answered_at = time.monotonic()
        repeated = len(found) - len({custom_id for custom_id, _ in found})
        if repeated:
            useless["are of requests that other lines answer"] = repeated
        if useless:
            _LOG.warning("%s: %s", place, "; ".join(f"{count:,} lines {what}" for what, count in useless.items()))
        stored = self._stored({custom_id[:_KEY_DIGITS] for custom_id, _ in found})
        for custom_id, result in found:
            if custom_id[:_KEY_DIGITS] not in stored:
                self._results.setdefault(custom_id, []).append(result)

    async def _write(self) -> None:
        """Write the requests that wait into the next file, and what is known of the server."""
        if self._items:
            place = self._folder / f"{self._number:03d}-{self.config.name}.jsonl"
            content, self._items, self._size = b"".join(self._items), [], 0
            self._number += 1
            if self._learned:
                features = {task: asdict(features) for task, features in self._learned.items()}
                await asyncio.to_thread(self._features_file.write_bytes, orjson.dumps(features))
            await asyncio.to_thread(place.write_bytes, content)


def _batch_files(folder: Location) -> Iterator[tuple[Location, re.Match[str]]]:
    for place in folder.list():
        if file := _FILE.fullmatch(place.name):
            yield place, file


def unanswered_files(folder: Location) -> list[str]:
    """Return a line for each file of requests that has no output: what answers it, and where the output belongs."""
    files = [(place, file["name"], bool(file["output"])) for place, file in _batch_files(folder)]
    answered = {name for _, name, is_output in files if is_output}
    lines = []
    for place, name, is_output in files:
        if name in answered or is_output:
            continue
        rows = [line.row for line in read_json_lines(place)]
        model = str(rows[0]["body"]["model"]) if rows else ""
        output = f"{folder}/{name}.output.jsonl"
        run = shlex.join(["vllm", "run-batch", "-i", str(place), "-o", output, "--model", model])
        lines.append(f"{place} has {len(rows):,} requests to {model}; answer them into {output}, such as with: {run}")
    return lines
