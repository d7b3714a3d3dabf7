"""One writer at a time, where the place allows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fdarx_core.storage import Location


@contextmanager
def alone(place: Location) -> Iterator[None]:
    """On a disk the block waits until no other process holds the place, as no killed one does; on S3 it just begins."""
    if place.is_remote:
        yield
        return
    import fcntl  # not on every system, and reading needs none

    place.check_writable()
    with (Path(place.address) / ".lock").open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
