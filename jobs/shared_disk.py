"""On a cluster, files must lie where every machine sees them: on S3, or on a disk that all of them share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray

from fdarx_core.storage import Location

_ANSWER_WITHIN_S = 60.0


class NotShared(Exception):
    """A machine of the cluster lacks a local path, or this program; the message names what, and the remedy."""


def check_shared(written: Sequence[Location], read: Sequence[Location]) -> None:
    """Have the cluster's other machines look for local folders to write into, and for local files to read.

    Raises NotShared. A machine that does not answer in time is passed over: it may be on its way up, or down.
    """
    others = [node["NodeID"] for node in _nodes() if node["Alive"] and node["NodeID"] != _own_node()]
    folders = [place for place in written if not place.is_remote]
    files = [place.address for place in read if not place.is_remote and place.exists()]
    if not others or not (folders or files):
        return
    with _marks(folders) as marks:
        for host, missing in _look(others, [*marks, *files]):
            for path in missing:
                raise NotShared(_told(marks.get(path, path), host, "--out" if path in marks else ""))


def _nodes() -> list[dict[str, Any]]:
    return list(ray.nodes())  # type: ignore[no-untyped-call]


def _own_node() -> str:
    return str(ray.get_runtime_context().get_node_id())


def _told(path: str, host: str, option: str) -> str:
    what = f"{option} {path} is on a disk" if option else f"{path} is on a disk"
    return f"{what} that machine {host} of the cluster does not see; give s3://, or a folder that all machines mount"


@contextmanager
def _marks(folders: Sequence[Location]) -> Iterator[dict[str, str]]:
    """A file in each folder for the others to see, and its folder: the folder itself may stand on every machine."""
    marks = {f"{folder}/.seen-{uuid4().hex}": str(folder) for folder in folders}
    try:
        for mark in marks:
            Path(mark).touch()
        yield marks
    finally:
        for mark in marks:
            Path(mark).unlink(missing_ok=True)


def _look(nodes: Sequence[str], paths: Sequence[str]) -> list[tuple[str, list[str]]]:
    """What each machine, by its host name, misses."""
    look: Any = ray.remote(_missing)
    asked = [look.options(num_cpus=0, label_selector={"ray.io/node-id": node}).remote(paths) for node in nodes]
    ready, _ = ray.wait(asked, num_returns=len(asked), timeout=_ANSWER_WITHIN_S)
    found: list[tuple[str, list[str]]] = []
    for one in ready:
        try:
            found.append(ray.get(one))
        except ray.exceptions.RayTaskError as error:
            said = str(error).splitlines()[-1]
            raise NotShared(
                f"a machine of the cluster can't run this job: {said}; is the same fdarx installed there?"
            ) from None
        except ray.exceptions.RayError:
            continue  # it went down meanwhile
    return found


def _missing(paths: Sequence[str]) -> tuple[str, list[str]]:
    host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    return host, [path for path in paths if not Path(path).exists()]
