"""HTTP servers of tests: each in a thread of its own, so that a test may block."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import Any, Protocol

from aiohttp import web
from typing_extensions import Self


class Runner(Protocol):
    """What serves, until it is cleaned up."""

    async def cleanup(self) -> None: ...


class InThread(ABC):
    """Serves from `with` to its end, or to `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    @abstractmethod
    async def start(self) -> Runner:
        """Serves in the running loop until the runner is cleaned up."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """From now on nobody is there; the second time, nothing happens."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self.start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()


async def listening(app: web.Application, port: int = 0, **site: Any) -> web.AppRunner:
    """The runner of an application on 127.0.0.1; its address is `runner.addresses[0]`. Whoever leaves is cancelled."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, **site).start()
    return runner
