"""A model to ask from Python: tasks in, parsed replies out, with the limits, retries and response store of the jobs."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import weakref
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from fdarx_core.llm.asker import Asker
from fdarx_core.llm.attempts import Counters
from fdarx_core.llm.baseline import Baseline
from fdarx_core.llm.failures import EndpointStopped
from fdarx_core.llm.model_config import ModelConfig, ModelsError, model_config
from fdarx_core.llm.response_store import ResponseStore
from fdarx_core.llm.task import ReplyT, Task, Unparsable, find_task
from fdarx_core.records import Request, Response
from fdarx_core.storage import Location

T = TypeVar("T")
Slots = Mapping[str, Any]

BASELINE = "baseline"


class Model:
    """A model that answers tasks: one on a server, or the built-in rules of each task (`Model("baseline")`).

        model = Model("gpt-5-mini", base_url="https://api.openai.com/v1", api_key=key)
        reply = model.ask("hypothetical_answer", {"question": …})
        replies = model.ask_many(task, [slots, …])
        reply = await model.ask_async(task, slots)

    Requests run concurrently in a thread of the model's own, within its limits, whichever thread or event loop asks. So
    it also works in a notebook. Close it (or use `with`) to close its connections.

    Args:
        model: the model's id on its server, or "baseline", or a `ModelConfig`, as `load_models` returns them.
        base_url: address of the server's API, such as http://localhost:8000/v1.
        api_key: the key. It is kept in this process's environment (see `config.key_env`) and written nowhere.
        store: a folder (local or s3://) that keeps the responses: equal requests are read back, in later runs as well.
        max_requests: the most requests that may be sent; then BudgetReached is raised.
        max_cost: the most US dollars that may be spent; needs the option `prices`.
        options: the other fields of `ModelConfig`: kind, key_env, sampling, max_tokens, max_in_flight, prices …

    Raises ModelsError for wrong options.
    """

    def __init__(
        self,
        model: str | ModelConfig,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        store: str | os.PathLike[str] | None = None,
        max_requests: int | None = None,
        max_cost: float | None = None,
        **options: Any,
    ) -> None:
        server = {name: value for name, value in (("base_url", base_url), ("api_key", api_key)) if value is not None}
        self.config: ModelConfig | None = None
        if model != BASELINE:
            self.config = _config(model, options | server)
        elif options or server:
            raise ModelsError(f"baseline takes no options, but was given {', '.join(sorted(options | server))}")
        if max_cost is not None and (self.config is None or self.config.prices is None):
            raise ModelsError("max_cost needs the model's prices, such as prices={'input': 0.5, 'output': 2}")
        self.name = self.config.name if self.config else BASELINE
        self.store = Location(store) if store else None
        self.max_requests, self.max_cost = max_requests, max_cost
        self._counters, self._sent = Counters(), 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._askers: list[Asker] = []  # none or one; it belongs to the loop's thread

    def __repr__(self) -> str:
        return f"Model({self.name!r})"

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def usage(self) -> Counters:
        """The usage so far: requests, retries, tokens, and the cost in US dollars if `prices` are known."""
        return replace(self._counters)

    def ask(self, task: Task[ReplyT] | str, slots: Slots) -> ReplyT:
        """Return the model's reply to a task, parsed.

        Args:
            task: a Task, or the name of one in `prompts/`.
            slots: the task's inputs, just those that its prompt declares.

        Raises Unparsable for a failed request or an unusable reply, ValueError for wrong slots, EndpointStopped where
        the server can answer no request (key, address, model id), BudgetReached, and StorageError.
        """
        return self.ask_many(task, [slots])[0]

    def ask_many(
        self, task: Task[ReplyT] | str, rows: Iterable[Slots], *, return_exceptions: bool = False
    ) -> list[ReplyT]:
        """Return the replies to a task for many slots, in their order; they are asked concurrently.

        With `return_exceptions`, a row without a usable reply has its Unparsable error in the list; otherwise the first
        of them is raised, once all rows are answered. Other errors are raised as by `ask`.
        """
        task, requests = self._requests(task, rows)
        if self.config is None:
            return _parsed(task, self._by_rules([task], requests), return_exceptions)
        try:
            responses = self._submit(self._responses(requests)).result()
        except KeyboardInterrupt:
            self.close()
            raise
        return _parsed(task, responses, return_exceptions)

    async def ask_async(self, task: Task[ReplyT] | str, slots: Slots) -> ReplyT:
        """Like `ask`, as a coroutine."""
        return (await self.ask_many_async(task, [slots]))[0]

    async def ask_many_async(
        self, task: Task[ReplyT] | str, rows: Iterable[Slots], *, return_exceptions: bool = False
    ) -> list[ReplyT]:
        """Like `ask_many`, as a coroutine. A cancelled call leaves its requests running; `close` ends them."""
        task, requests = self._requests(task, rows)
        return _parsed(task, await self._respond([task], requests), return_exceptions)

    async def respond_async(self, calls: Iterable[tuple[Task[Any], Slots]]) -> list[Response]:
        """Return the responses to calls of tasks, in order, as they came; `Task.parse` reads them."""
        calls = list(calls)
        requests = [request for task, slots in calls for request in self._requests(task, [slots])[1]]
        return await self._respond([task for task, _ in calls], requests)

    def close(self) -> None:
        """Let requests in flight finish, and close the connections. A later `ask` opens them again."""
        with self._lock:
            if self._loop is not None:
                self._loop = None
                self._shut_down()

    def _requests(self, task: Task[ReplyT] | str, rows: Iterable[Slots]) -> tuple[Task[ReplyT], list[Request]]:
        task = find_task(task) if isinstance(task, str) else task
        sampling = self.config.request_parameters if self.config else {"rules": ""}
        return task, [task.request(slots, endpoint=self.name, sampling=sampling) for slots in rows]

    async def _respond(self, tasks: Iterable[Task[Any]], requests: list[Request]) -> list[Response]:
        if self.config is None:
            return await asyncio.to_thread(self._by_rules, tasks, requests)
        return await asyncio.wrap_future(self._submit(self._responses(requests)))

    def _by_rules(self, tasks: Iterable[Task[Any]], requests: list[Request]) -> list[Response]:
        """Return the baseline's responses. They are not stored, because they cost nothing and the rules may change."""
        return Baseline({task.name: task for task in tasks}, rules="").answer(requests)

    async def _responses(self, requests: list[Request]) -> list[Response]:
        """Return the responses of the server, in the thread of the model."""
        if not self._askers:  # the first call, or the server could not be asked before
            from fdarx_core.llm.http_endpoint import HttpEndpoint

            assert self.config is not None
            endpoint, store = HttpEndpoint(self.config), ResponseStore(self.store) if self.store else None
            endpoint.counters = self._counters
            self._askers.append(
                Asker(
                    {self.name: endpoint},
                    store,
                    max_requests=self.max_requests,
                    max_cost=self.max_cost,
                    sent=self._sent,
                )
            )
        [asker] = self._askers
        try:
            responses = await asker.ask(requests)
            await asker.flush()
        except EndpointStopped:  # the next call tries the server again
            if asker in self._askers:
                self._askers.remove(asker)
                await asker.close()
            raise
        finally:
            self._sent = max(self._sent, asker.sent)
        return responses

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._loop is None:
                self._loop = loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run, args=(loop,), name=f"model {self.name}", daemon=True)
                thread.start()
                self._shut_down = weakref.finalize(self, _shut_down, loop, thread, self._askers)
            return asyncio.run_coroutine_threadsafe(work, self._loop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


def _shut_down(loop: asyncio.AbstractEventLoop, thread: threading.Thread, askers: list[Asker]) -> None:
    """Close the asker and end the thread. Also called when the model is garbage-collected, in whichever thread."""

    async def close() -> None:
        try:
            while askers:
                await askers.pop().close()
        finally:
            loop.stop()

    asyncio.run_coroutine_threadsafe(close(), loop)
    if threading.current_thread() is not thread:
        thread.join()


def _parsed(task: Task[Any], responses: Iterable[Response], return_exceptions: bool) -> list[Any]:
    replies: list[Any] = []
    for response in responses:
        try:
            replies.append(task.parse(response))
        except Unparsable as error:
            if not return_exceptions:
                raise
            replies.append(error)
    return replies


def _config(model: str | ModelConfig, options: dict[str, Any]) -> ModelConfig:
    """Return the configuration of a model. Its key goes into an environment variable, of which it holds the name."""
    if isinstance(model, ModelConfig):
        if options:
            raise ModelsError(f"model {model.name}: set {', '.join(options)} in its ModelConfig, not beside it")
        return model
    fields = {"name": re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-._") or "model", "model": model} | options
    api_key = fields.pop("api_key", None)
    if api_key is not None:
        if "key_env" in fields:
            raise ModelsError(f"model {model}: give api_key or key_env, not both")
        # Equal names with other keys get other variables, so that no key goes to another model's server. Workers on
        # this machine inherit them.
        stem = "FDARX_KEY_" + re.sub(r"[^A-Z0-9]+", "_", str(fields["name"]).upper())[:40]
        variables = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
        fields["key_env"] = next(name for name in variables if os.environ.get(name, api_key) == api_key)
        os.environ[fields["key_env"]] = api_key
    if "base_url" not in fields:
        raise ModelsError(f"model {model}: give base_url, the address of its server, such as http://localhost:8000/v1")
    return model_config(fields, f"model {model}")
