"""Actors that hold something heavy, a model or an index, and the work that goes to whoever of them is free."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import ray

_LOG = logging.getLogger(__name__)

_IN_HAND = 2
"""Items with an actor at once: the next one is there when one is done."""

_TRIES = 5
"""So often is an item given out, and an actor of the crew started without a result between, before that is an error."""


@dataclass(slots=True)
class _Work:
    """What an actor has in hand: an item, given out `tries` times by now; at 0 the actor is only coming up."""

    actor: Any
    item: Any = None
    tries: int = 0


class Crew:
    """`size` actors of one class, with half a CPU each so that they never hold all of them, and a GPU `on_gpus`.

    One that dies, with its process or its machine, leaves. A new one takes its place once there is room for it; what
    the dead one had in hand is meanwhile done by the others.
    """

    def __init__(self, holder: type, arguments: tuple[Any, ...], size: int, *, on_gpus: bool) -> None:
        actor: Any = ray.remote(holder)
        self._made, self._arguments = actor.options(num_cpus=0.5, num_gpus=1 if on_gpus else 0), arguments
        self._size, self._losses = size, 0
        self._flying: dict[Any, _Work] = {}
        self._free: deque[Any] = deque()
        self._again: deque[_Work] = deque()

    def each(self, method: str, items: Iterable[Any]) -> Iterator[Any]:
        """What the method returns of each item, in the order in which they are done; items are taken as needed.

        Raises what the method or the actor's making raised, as Ray wraps it, and RayActorError for an item that
        takes down whoever has it.
        """
        waiting = iter(items)
        for _ in range(self._size):
            self._hire()
        while self._hand_out(method, waiting):
            [ready], _ = ray.wait(list(self._flying), num_returns=1)
            work = self._flying.pop(ready)
            try:
                value = ray.get(ready)
            except ray.exceptions.RayActorError as error:
                self._lost(work, error)
                continue
            self._free.extend([work.actor] * (1 if work.tries else _IN_HAND))
            if work.tries:
                self._losses = 0
                yield value

    def _hire(self) -> None:
        actor = self._made.remote(*self._arguments)
        self._flying[actor.__ray_ready__.remote()] = _Work(actor)

    def _hand_out(self, method: str, waiting: Iterator[Any]) -> bool:
        """Give free actors work; False when none is left, here or in hand."""
        while self._free and (work := self._next(waiting)):
            work.actor, work.tries = self._free.popleft(), work.tries + 1
            self._flying[getattr(work.actor, method).remote(work.item)] = work
        return not self._free or any(work.tries for work in self._flying.values())

    def _next(self, waiting: Iterator[Any]) -> _Work | None:
        if self._again:
            return self._again.popleft()
        return next((_Work(None, item) for item in waiting), None)

    def _lost(self, work: _Work, error: ray.exceptions.RayActorError) -> None:
        self._losses += 1
        if error.actor_init_failed or work.tries >= _TRIES or self._losses >= _TRIES * self._size * _IN_HAND:
            raise error
        if work.tries:
            self._again.append(work)
        # An actor with two items in hand is lost twice, and replaced once.
        if not any(one.actor is work.actor for one in self._flying.values()):
            _LOG.warning("an actor was lost, another takes its place: %s", str(error).splitlines()[0])
            self._free = deque(one for one in self._free if one is not work.actor)
            self._hire()
