"""Watches which deployments of an application have a replica, so that calls to the others fail at once.

A handle of Ray Serve queues calls while its deployment has no replica, for as long as a restart takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ray import serve

from serving.http import Unavailable

WATCH_EVERY_S = 1.0
"""Seconds between questions to Serve's controller, and between its health checks of a replica. After the death of the
last replica, calls wait for at most about the sum of both."""

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
        self._waiting: defaultdict[str, set[asyncio.Timeout]] = defaultdict(set)

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            try:
                replicas = await asyncio.to_thread(_replicas, self._application)
            except Exception as error:  # the controller restarts: the last known state remains
                _LOGGER.warning(f"the state of the deployments is not known: {type(error).__name__}")
            else:
                for deployment, (running, stopping) in replicas.items():
                    self._update(deployment, running, stopping)
            await asyncio.sleep(WATCH_EVERY_S)

    def _update(self, deployment: str, running: int, stopping: int) -> None:
        if running:
            self._gone.discard(deployment)
            return
        if deployment not in self._gone:
            _LOGGER.warning(f"{deployment}: {_NO_REPLICA}")
            self._gone.add(deployment)
        if not stopping:
            for waiting in self._waiting.pop(deployment, ()):
                waiting.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def guard(self, deployment: str, part: str) -> AsyncGenerator[None, None]:
        """Raise Unavailable, with the part's name for messages, where the deployment has no replica or loses it."""
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
    """Return how many replicas of each deployment serve, and how many are stopping."""
    found = serve.status().applications.get(application)
    states = {name: one.replica_states for name, one in found.deployments.items()} if found else {}
    counts = {name: {str(getattr(key, "value", key)): n for key, n in one.items()} for name, one in states.items()}
    return {
        name: (sum(one.get(state, 0) for state in _SERVING), one.get("STOPPING", 0)) for name, one in counts.items()
    }
