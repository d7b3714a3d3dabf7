"""What a job asks a cluster for, whatever machines are there; and pools of actors, which grow with calls."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fdarx_core.pipeline.control import ActorPool
from fdarx_core.pipeline.executor import Demand
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.pipeline.steps import Resource
from jobs.ray_session import ray_session


class Slow:
    """Something heavy."""

    def where(self, seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()


@pytest.fixture(scope="module")
def session(own_ray_environment: None) -> Iterator[None]:
    with ray_session(2):
        yield


@pytest.mark.parametrize(
    ("gpus", "each", "kinds", "items", "size", "share"),
    [
        (8, None, 1, None, 8, 1.0),
        (8, None, 1, 3, 3, 1.0),
        (8, 0.25, 1, None, 32, 0.25),
        (2, None, 3, None, 2, 0.33),
        (2, 0.5, 3, None, 1, 0.5),
        (3, 0.6, 1, None, 3, 0.6),  # what is left of a GPU has no room for another
    ],
)
def test_actors_ask_for_gpus_that_are_not_there(
    gpus: int, each: float | None, kinds: int, items: int | None, size: int, share: float
) -> None:
    executor = RayExecutor(Demand(gpus=gpus, gpus_per_actor=each, on_cluster=True))
    resource = executor.models_resource(Slow, items=items, kinds=kinds)
    assert (resource.size, resource.gpus) == (size, share)
    assert kinds * resource.size <= gpus * int(1 / share)


def test_kinds_that_do_not_fit_on_the_gpus_are_refused() -> None:
    executor = RayExecutor(Demand(gpus=1, gpus_per_actor=0.5, on_cluster=True))
    with pytest.raises(ValueError, match=r"3 kinds of models with 0\.5 GPUs each do not fit on 1 GPU"):
        executor.models_resource(Slow, kinds=3)


def test_the_tasks_that_wait_are_those_that_are_asked_for() -> None:
    assert RayExecutor(Demand(cpus=100, on_cluster=True)).backlog == 100


@pytest.mark.slow
def test_this_machine_is_not_waited_for(session: None) -> None:
    here = RayExecutor(Demand(cpus=64, gpus=8))
    assert (here.gpus, here.cpus, here.backlog) == (0, 2, 4)
    assert RayExecutor(Demand(on_cluster=True)).backlog > 4


@pytest.mark.slow
def test_a_pool_has_as_many_actors_as_calls(session: None) -> None:
    async def used(pool: ActorPool, calls: int) -> set[int]:
        return set(await asyncio.gather(*(pool.call("where", 0.2) for _ in range(calls))))

    async def run() -> None:
        pool = ActorPool(Resource(Slow, size=3))
        [first] = await used(pool, 1)
        many = set[int]()
        while len(many) < 3:  # the first actor does all while the others start
            many = await used(pool, 12)
        assert first in many
        pool.close()
        while alive(many):
            await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(run(), 120))


def alive(processes: set[int]) -> set[int]:
    return {pid for pid in processes if Path(f"/proc/{pid}").exists()}
