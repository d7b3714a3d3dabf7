"""A model whose requests go through the batch API of its server, at a lower price and with results within a day."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from fdarx_core.llm.asker import BudgetReached
from fdarx_core.llm.attempts import PendingRequest, chat_span
from fdarx_core.llm.batch_client import GONE, BatchClient, BatchRecord, BatchRecords
from fdarx_core.llm.batch_formats import BATCH_FORMATS, BatchStatus, custom_id_of, most_cost
from fdarx_core.llm.failures import TRANSIENT, AskingStopped, EndpointStopped, Failure
from fdarx_core.llm.http_endpoint import HttpEndpoint
from fdarx_core.llm.limits import resolve
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.llm.wire_formats import Completion, Messages

_QUIET_STEPS, _STEP_S = 10, 0.1
_BUSY_SHARE = 0.5
"""The share of a step's time for which a loop that computes is not idle."""
_REPLIED = "replied"


class BatchedRequests:
    """The requests of a run that wait for results of batches, whichever model they are for.

    A request that the budget does not admit waits until results say what the others cost.
    """

    def __init__(self) -> None:
        self.count = 0
        self._watching: list[asyncio.Future[None]] = []

    def next_results(self) -> asyncio.Future[None]:
        """Return a future that is done when results of a batch were read next."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.append(future)
        return future

    def notify(self) -> None:
        """Note that results were read."""
        watching, self._watching = self._watching, []
        for future in watching:
            resolve(future, None)


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch that is filled, or that a server has.

    `waiting` are the outcomes of its requests that are awaited. `full` ends its filling, `submitted` its submission;
    a batch of an earlier process has neither.
    """

    record: BatchRecord
    items: list[bytes] = field(default_factory=list)
    size: int = 0
    waiting: dict[str, asyncio.Future[bytes]] = field(default_factory=dict)
    status: BatchStatus | None = None
    task: asyncio.Task[None] | None = None
    full: asyncio.Event | None = None
    submitted: asyncio.Future[None] | None = None

    @property
    def state(self) -> str:
        if self.status is None:
            return "submitting" if self.submitted else "looking for results"
        return f"{self.status.state} {self.status.done:,} of {self.status.total or len(self.record.custom_ids):,}"


class BatchEndpoint(HttpEndpoint):
    """Sends requests to one model in batches. Attempts, repairs, features and counts are those of `HttpEndpoint`.

    A request waits until no other has come for a second in which the event loop was idle, or until a batch is full;
    so the requests of one step of all parts in progress make one batch. Of requests that wait to be sent, at most two
    batches are in memory, one that is filled and one that is uploaded.

    Each batch is recorded before it is submitted. A later process joins requests to the batches of earlier ones by
    their ids, and sends none of them again. It belongs to one event loop.

    Args:
        config: the model.
        records: the batches of the run.
        requests: what the endpoints of a run share; one of its own without it.
    """

    batched: ClassVar[bool] = True

    def __init__(self, config: ModelConfig, records: BatchRecords, requests: BatchedRequests | None = None) -> None:
        super().__init__(config)
        self._api = BATCH_FORMATS[config.kind]
        self._client = BatchClient(config, self._api, self._transport, self.counters)
        self._records, self._requests = records, requests or BatchedRequests()
        self._earlier: dict[str, _Batch] = {}  # of earlier processes, by custom id
        self._filling: _Batch | None = None
        self._running: dict[asyncio.Task[None], _Batch] = {}
        self._arrivals = 0
        self._opening: asyncio.Task[None] | None = None
        self._adding = asyncio.Lock()

    @property
    def batches(self) -> list[str]:
        return [batch.state for batch in self._running.values() if batch is not self._filling]

    def explain(self, failure: Failure) -> str:
        if failure.status not in GONE:
            return super().explain(failure)
        return (
            f"{self.where}: its server has no batch API: {self._credentials.redacted(failure.detail)}; leave out "
            "--batch, or set batch_api: false for the model; if the server should have one, check base_url"
        )

    async def missing_api(self) -> str:
        """Ask the server once, before anything is submitted, for its batch API.

        Returns:
            The error if the server says that it has none; "" otherwise, also if the server cannot be asked, which is
            left to the requests.
        """
        with suppress(EndpointStopped):
            try:
                await self._client.check(once=True)
            except Failure as failure:
                return self.explain(failure) if failure.status in GONE else ""
        return ""

    async def close(self) -> None:
        tasks = [*self._running, *([self._opening] if self._opening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().close()

    async def _exchange(self, pending: PendingRequest, messages: Messages) -> Completion:
        if self._opening is None:
            self._opening = asyncio.create_task(self._read_records())
        await self.limits.wait_for(asyncio.shield(self._opening))
        custom_id = custom_id_of(pending.request, messages)
        reserved = most_cost(self.config, messages)
        self.counters.reserved += reserved
        try:
            outcome = self._join(pending, custom_id)
            if outcome is None:
                outcome = await self._add(custom_id, await self._admitted_body(pending, messages, reserved))
            self._requests.count += 1
            try:
                with chat_span(self.config, pending.request) as span:
                    return self._read(await self.limits.wait_for(outcome), span)
            finally:
                self._requests.count -= 1
        finally:
            self.counters.reserved -= reserved

    async def _read_records(self) -> None:
        """Read the records of earlier batches, and ask the server whether it has this API and takes the key."""
        for record in await asyncio.to_thread(self._records.load):
            self._client.note(record)
            if record.model == self.config.name:
                self._learned |= record.learned()
                self._earlier |= dict.fromkeys(record.custom_ids, _Batch(record))
        try:
            await self._client.check()
        except Failure as failure:
            raise self.stopped(failure) from None

    def _join(self, pending: PendingRequest, custom_id: str) -> asyncio.Future[bytes] | None:
        """Return the outcome of a request that an earlier process has submitted; None for a new one."""
        batch = self._earlier.pop(custom_id, None)
        if batch is None:
            return None
        self._arrivals += 1
        pending.sent, pending.sent_at = pending.sent + 1, time.monotonic()
        pending.features = self._features(pending.request)
        outcome: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        batch.waiting[custom_id] = outcome
        if batch.task is None or batch.task.done():
            self._start(batch)
        return outcome

    async def _admitted_body(self, pending: PendingRequest, messages: Messages, reserved: float) -> bytes:
        """Return the body of a request once the budget admits it. Raises BudgetReached where it never will."""
        while True:
            try:
                return self._body(pending, messages)
            except BudgetReached:
                if not self._requests.count:
                    raise
            self.counters.reserved -= reserved
            try:
                await self.limits.wait_for(self._requests.next_results())
            finally:
                self.counters.reserved += reserved

    async def _add(self, custom_id: str, body: bytes) -> asyncio.Future[bytes]:
        """Put a request into the batch that is filled, and return its outcome. Waits while a full one is uploaded."""
        item = self._api.item(custom_id, body)
        async with self._adding:
            batch = self._filling
            if batch and (len(batch.items) >= self._api.max_requests or batch.size + len(item) > self._api.max_bytes):
                assert batch.full and batch.submitted
                self._filling = None
                batch.full.set()
                await self.limits.wait_for(batch.submitted)  # so that no more than two are in memory
                batch = None
            if batch is None:
                record = BatchRecord(self.config.name, self.config.base_url)
                submitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                batch = self._filling = _Batch(record, full=asyncio.Event(), submitted=submitted)
                self._start(batch)
            self._arrivals += 1
            batch.items.append(item)
            batch.size += len(item)
            batch.record.custom_ids.append(custom_id)
            outcome: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            batch.waiting[custom_id] = outcome
        return outcome

    def _start(self, batch: _Batch) -> None:
        batch.task = task = asyncio.create_task(self._run(batch))
        self._running[task] = batch
        task.add_done_callback(self._running.pop)

    async def _run(self, batch: _Batch) -> None:
        """Take a batch to its end. An error reaches all who wait for it."""
        try:
            await self._quiet(batch.full)
            if batch is self._filling:
                self._filling = None
            if batch.submitted is None:  # by an earlier process
                at_server = bool(batch.record.id) or await self._find(batch)
            elif at_server := not all(outcome.done() for outcome in batch.waiting.values()):  # asking was not stopped
                await self._submit(batch)
                resolve(batch.submitted, None)
            if at_server:
                await self._finish(batch)
        except Failure as failure:
            self.stopped(failure)
        except EndpointStopped as error:
            self.limits.stop(error)
        except Exception as error:  # of the storage, above all
            for outcome in batch.waiting.values():
                if not outcome.done():
                    outcome.set_exception(error)
            self.limits.stop(AskingStopped(str(error)))

    async def _quiet(self, full: asyncio.Event | None) -> None:
        """Return once no request has come for a second in which this thread was idle, or once the batch is full."""
        steps = 0
        while steps < _QUIET_STEPS and not (full and full.is_set()):
            arrivals, computed, started = self._arrivals, time.thread_time(), time.monotonic()
            await asyncio.sleep(_STEP_S)
            busy = time.thread_time() - computed > _BUSY_SHARE * (time.monotonic() - started)
            steps = 0 if busy or self._arrivals > arrivals else steps + 1

    async def _submit(self, batch: _Batch) -> None:
        """Record a batch, submit it, and record its id: whenever this process ends, a later one finds the batch."""
        record = batch.record
        record.features = {task: asdict(features) for task, features in self._learned.items()}
        await asyncio.to_thread(self._records.write, record)
        try:
            batch.status = await self._client.submit(record, batch.items)
        except Failure as failure:
            if failure.status in GONE:
                with suppress(Failure):  # nobody is to wait for a batch that the server does not have
                    if await self._client.find(record) is None:
                        await asyncio.to_thread(self._records.delete, record)
            raise
        await self._note_id(batch)

    async def _find(self, batch: _Batch) -> bool:
        """Find a batch by its name whose submission an earlier process did not see end; return whether there is one.

        Otherwise its requests have never reached the server, and each makes another attempt.
        """
        batch.status = await self._client.find(batch.record)
        if batch.status is not None:
            await self._note_id(batch)
            return True
        await asyncio.to_thread(self._records.delete, batch.record)
        for custom_id in batch.record.custom_ids:
            if self._earlier.get(custom_id) is batch:
                del self._earlier[custom_id]
            failure = Failure(f"{TRANSIENT}never_submitted", "an earlier process ended before it was submitted")
            _fail(batch.waiting, custom_id, failure)
        self._requests.notify()
        return False

    async def _note_id(self, batch: _Batch) -> None:
        """Record the id that the server gave a batch, which is another after it was submitted again."""
        if batch.status and batch.status.id != batch.record.id:
            batch.record.id = batch.status.id
            self._client.note(batch.record)
            await asyncio.to_thread(self._records.write, batch.record)

    async def _finish(self, batch: _Batch) -> None:
        """Wait for the end of a batch, and hand its results to who waits for them."""

        async def tell(status: BatchStatus) -> None:
            batch.status = status
            await self._note_id(batch)

        status = await self._client.ended(batch.record, tell)
        if status.fault:
            await asyncio.to_thread(self._records.delete, batch.record)  # a later process submits its requests anew
            raise Failure("refused_batch", f"batch {status.id}: {status.fault}", status=400)
        while batch.waiting:  # of requests that joined meanwhile as well
            waiting, batch.waiting = batch.waiting, {}
            try:
                batch.record.results = await self._deliver(status, waiting)
            except Exception:
                batch.waiting |= waiting
                raise
            for custom_id in list(waiting):
                _fail(waiting, custom_id, Failure(f"{TRANSIENT}missing_result", "the results lack this request"))
            self._requests.notify()
        await asyncio.to_thread(self._records.write, batch.record)

    async def _deliver(self, status: BatchStatus, waiting: dict[str, asyncio.Future[bytes]]) -> dict[str, int]:
        """Remove the requests with a result from those that wait, replies before failures. Return counts of both."""
        failures: dict[str, Failure] = {}
        replied: set[str] = set()
        async with aclosing(self._client.results(status)) as results:
            async for custom_id, result in results:
                if isinstance(result, Failure):
                    failures[custom_id] = result
                    continue
                replied.add(custom_id)
                self._transport.answered_at = time.monotonic()
                if outcome := waiting.pop(custom_id, None):
                    resolve(outcome, result)
                    await asyncio.sleep(0)  # who waited computes now, and not all of them in one turn of the loop
        for custom_id, failure in failures.items():
            _fail(waiting, custom_id, failure)
        return {_REPLIED: len(replied), **Counter(failure.reason for failure in failures.values())}


def _fail(waiting: dict[str, asyncio.Future[bytes]], custom_id: str, failure: Failure) -> None:
    """Let a failure be the outcome of a request that waits, if it does."""
    outcome = waiting.pop(custom_id, None)
    if outcome and not outcome.done():
        outcome.set_exception(failure)
