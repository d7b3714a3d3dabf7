"""Watches which deployments of an application have a replica, so that calls to the others fail at once.

A handle of Ray Serve queues calls while its deployment has no replica, for as long as a restart takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ray.serve.context import _get_global_client

from serving.http.backend import Unavailable

WATCH_EVERY_S = 1.0
"""Seconds between questions to Serve's controller, and between its health checks of a replica. After the death of the
last replica, calls wait for at most about the sum of both."""

_ASKED_WITHIN_S = 5.0
"""Seconds to wait for Serve's controller. It does not answer while it restarts."""

_LOGGER = logging.getLogger("ray.serve")
_SERVING = ("RUNNING", "PENDING_MIGRATION")
_NO_REPLICA = "no replica is running"


class ReplicaWatch:
    """The deployments of an application without a replica. A deployment counts as running until it is known not to be.

    A replica that is stopping finishes its calls, so that those in progress go on; new calls are refused.
    """

    def __init__(self, application: str) -> None:
        self._application = application
        self._gone: set[str] = set()
        self._asked: asyncio.Task[None] | None = None
        self._waiting: defaultdict[str, set[asyncio.Timeout]] = defaultdict(set)

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            await self._ask()
            await asyncio.sleep(WATCH_EVERY_S)

    async def _ask(self) -> None:
        """Ask Serve's controller for the state of the deployments; callers at the same time share a question."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._ask_controller())
        await asyncio.shield(self._asked)

    async def _ask_controller(self) -> None:
        try:
            replicas = await asyncio.wait_for(asyncio.to_thread(_replicas, self._application), _ASKED_WITHIN_S)
        except Exception as error:  # the controller restarts: the last known state remains
            _LOGGER.warning(f"the state of the deployments is not known: {type(error).__name__}")
        else:
            for deployment, (running, stopping) in replicas.items():
                if running:
                    self._gone.discard(deployment)
                    continue
                if deployment not in self._gone:
                    _LOGGER.warning(f"{deployment}: {_NO_REPLICA}")
                    self._gone.add(deployment)
                for waiting in () if stopping else self._waiting.pop(deployment, ()):
                    waiting.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def guard(self, deployment: str, part: str) -> AsyncGenerator[None, None]:
        """Raise Unavailable, with the part's name for messages, where the deployment has no replica or loses it.

        A deployment that had no replica when the watch last asked may have one by now, at the start of the service
        for example, so the controller is asked again before a call is refused.
        """
        if deployment in self._gone:
            await self._ask()
        if deployment in self._gone:
            raise Unavailable(part, _NO_REPLICA)
        lost = asyncio.timeout(None)
        try:
            async with lost:
                self._waiting[deployment].add(lost)
                yield
        except TimeoutError:
            if lost.expired():
                raise Unavailable(part, "its last replica died") from None
            raise
        finally:
            self._waiting[deployment].discard(lost)


def _replicas(application: str) -> dict[str, tuple[int, int]]:
    """Return how many replicas of each deployment serve, and how many are stopping.

    `serve.status()` would validate the same reply with pydantic and pickle the classes that it names, which takes 20
    times as long, once a second in each process that serves requests.
    """
    client: Any = _get_global_client()
    found = client.get_serve_details()["applications"].get(application, {"deployments": {}})
    states = {
        name: [replica["state"] for replica in deployed["replicas"]] for name, deployed in found["deployments"].items()
    }
    return {name: (sum(map(own.count, _SERVING)), own.count("STOPPING")) for name, own in states.items()}
