"""Requests that share a call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from serving.batching import DynamicBatcher


class Work:
    """Doubles numbers, once it may; remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.may = threading.Semaphore(0)
        self.begun = threading.Event()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.calls.append(list(items))
        self.begun.set()
        assert self.may.acquire(timeout=10)
        if 13 in items:
            raise ValueError("unlucky")
        return [2 * item for item in items]


async def first_and_then(
    together: DynamicBatcher[int, int], work: Work, items: Sequence[int], leaves: int | None = None
) -> list[int | BaseException]:
    """The first is being worked on when the others come; `leaves` gives up before its turn."""
    first = asyncio.create_task(together(0))
    await asyncio.to_thread(work.begun.wait, 10)
    others = [asyncio.create_task(together(item)) for item in items]
    await asyncio.sleep(0)
    for task, item in zip(others, items, strict=True):
        if item == leaves:
            task.cancel()
    work.may.release(100)
    return await asyncio.gather(first, *others, return_exceptions=True)


def test_those_who_come_meanwhile_share_the_next_call() -> None:
    work = Work()
    assert asyncio.run(first_and_then(DynamicBatcher(work, 10), work, [1, 2, 3])) == [0, 2, 4, 6]
    assert work.calls == [[0], [1, 2, 3]]


def test_a_call_takes_no_more_than_it_may() -> None:
    work = Work()
    together = DynamicBatcher(work, 5, size=lambda item: item)
    assert asyncio.run(first_and_then(together, work, [2, 3, 9, 1])) == [0, 4, 6, 18, 2]
    assert work.calls == [[0], [2, 3], [9], [1]]


def test_whoever_left_is_not_worked_for() -> None:
    work = Work()
    [_, one, gone] = asyncio.run(first_and_then(DynamicBatcher(work, 10), work, [1, 2], leaves=2))
    assert one == 2
    assert isinstance(gone, asyncio.CancelledError)
    assert work.calls == [[0], [1]]


def test_an_error_is_told_to_its_own_call_alone() -> None:
    work = Work()
    found = asyncio.run(first_and_then(DynamicBatcher(work, 1), work, [13, 2]))
    assert (found[0], found[2]) == (0, 4)
    assert isinstance(found[1], ValueError)


def test_it_goes_on_after_a_rest() -> None:
    work = Work()
    work.may.release(100)
    together = DynamicBatcher(work, 10)

    async def twice() -> list[int]:
        return [await together(1), await together(2)]

    assert asyncio.run(twice()) == [2, 4]
    with pytest.raises(ValueError, match="unlucky"):
        asyncio.run(DynamicBatcher(work, 10)(13))
