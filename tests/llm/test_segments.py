"""What is answered is on disk soon, whoever else goes on asking."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fdarx_core.llm import ResponseStore
from fdarx_core.llm.segments import SegmentWriter
from fdarx_core.records import Response
from fdarx_core.storage import Location, StorageError


def response(number: int) -> Response:
    return Response(f"{number:032x}", "spell", 1, "m", f"text {number}")


def test_flushing_waits_only_for_what_was_added_before(tmp_path: Path) -> None:
    async def run() -> int:
        store = ResponseStore(Location(tmp_path))
        writer = SegmentWriter(store)
        await writer.open()

        async def add_for_ever() -> None:
            for number in range(10**9):
                writer.add(response(number))
                await asyncio.sleep(0.001)

        adding = asyncio.create_task(add_for_ever())
        await asyncio.sleep(0.01)
        for _ in range(3):
            last = len(store.index())
            await asyncio.wait_for(writer.flush(), 30)
            assert len(store.index()) > last
        adding.cancel()
        await writer.flush()
        writer.close()
        return len(store.index())

    assert asyncio.run(run()) == len(ResponseStore(Location(tmp_path)).index())


def test_all_is_readable_before_it_is_written_and_written_without_flushing(tmp_path: Path) -> None:
    async def run() -> None:
        store = ResponseStore(Location(tmp_path))
        writer = SegmentWriter(store)
        await writer.open()
        for number in range(300):
            writer.add(response(number))
        assert all(writer.holds(response(number).key) for number in range(300))
        assert await writer.read([response(299).key]) == {response(299).key: response(299)}
        while len(store.index()) < 300:
            await asyncio.sleep(0.01)
        assert await writer.read([response(299).key]) == {response(299).key: response(299)}
        writer.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_failed_write_is_heard_of(tmp_path: Path) -> None:
    (tmp_path / "spell").write_text("a file where a folder is to be")

    async def run() -> None:
        writer = SegmentWriter(ResponseStore(Location(tmp_path)))
        await writer.open()
        with pytest.raises(StorageError):
            for number in range(3000):
                writer.add(response(number))
                await asyncio.sleep(0.01)
        with pytest.raises(StorageError):
            await writer.flush()
        writer.close()

    asyncio.run(run())
