"""Ray actors that hold something heavy, and the work that goes to whoever of them is free."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import ray

_IN_HAND = 2
"""Calls that an actor has at once: the next one is there when one is done."""


class Pool:
    """Actors of one class, to be called from one event loop; none where none is needed, which makes it false.

    By their names, since an actor that is given a handle can't be started again without it.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = names
        self._free: asyncio.Queue[str] = asyncio.Queue()
        for name in [*names] * _IN_HAND:
            self._free.put_nowait(name)

    def __reduce__(self) -> tuple[type[Pool], tuple[Sequence[str]]]:
        """Whoever gets it has a loop of its own."""
        return Pool, (self._names,)

    def __bool__(self) -> bool:
        return bool(self._names)

    async def __call__(self, method: str, *arguments: Any) -> Any:
        """What the method returns; raises what it raises."""
        name = await self._free.get()
        try:
            return await getattr(ray.get_actor(name), method).remote(*arguments)
        finally:
            self._free.put_nowait(name)


@dataclass(slots=True)
class Hired:
    """The driver's handles: the actors last as long as these do."""

    actors: list[Any] = field(default_factory=list)

    def pool(self, holder: type, arguments: tuple[Any, ...], size: int = 1, *, gpus: float = 0) -> Pool:
        """So many actors, each with that share of a GPU; one that dies is started again, and asked again.

        They take hardly any CPU of the count: none stands idle for them while tasks wait.
        """
        actor: Any = ray.remote(holder)
        names = [f"fdarx-{holder.__name__}-{uuid4().hex}" for _ in range(size)]
        for name in names:
            made = actor.options(name=name, max_restarts=4, max_task_retries=4, num_cpus=0.1, num_gpus=gpus)
            self.actors.append(made.remote(*arguments))
        return Pool(names)
