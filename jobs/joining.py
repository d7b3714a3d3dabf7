"""Joining a cluster, and saying in one line why that can't be."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jobs.options import stop

_ANSWER_WITHIN_S = 10.0
_LOOK_EVERY_S = 5.0
_MISSED = 3
"""So many looks in vain are told of: a head that is started anew, on a cluster that bears it, is back by then."""

_TOKEN = "RAY_AUTH_MODE=token and, in RAY_AUTH_TOKEN or ~/.ray/auth_token, the token that the cluster was started with"


def join_cluster(address: str, **options: Any) -> None:
    """`ray.init` there; the job ends with one line where the cluster can't be reached or does not let it in."""
    import ray

    _check_address(address)
    try:
        ray.init(address=address, **options)
    except ray.exceptions.AuthenticationError:
        stop(f"the cluster at RAY_ADDRESS {address} asks for a token; set {_TOKEN}")
    except (ConnectionError, RuntimeError, ValueError) as error:
        stop(f"RAY_ADDRESS {address}: {_explained(str(error))}")


@contextmanager
def watching_head(address: str) -> Iterator[None]:
    """Say in one line that the cluster's head is gone: Ray ends the process a minute later, and says other things."""
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(address, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()


def _watch(address: str, ended: threading.Event) -> None:
    missed = 0
    while not ended.wait(_LOOK_EVERY_S):
        missed = missed + 1 if _refusal(address) else 0
        if missed == _MISSED:
            print(
                f"the head of the cluster at {address} has not answered for {_MISSED * _LOOK_EVERY_S:.0f} s; unless it "
                "comes back this job ends within a minute, with exit code 1, and the same command goes on from there",
                file=sys.stderr,
                flush=True,
            )


def _check_address(address: str) -> None:
    """Ray itself tries for minutes."""
    if "://" in address:
        stop(
            f"RAY_ADDRESS {address} is for `ray job submit` or Ray Client; submit the job, give the head's HOST:6379, "
            "or unset it to compute here"
        )
    if ":" in address and (why := _refusal(address)):
        stop(
            f"nobody answers at RAY_ADDRESS {address} ({why}); is the head up, and its port open from here? "
            "Unset RAY_ADDRESS to compute on this machine"
        )


def _refusal(address: str) -> str:
    """Why HOST:PORT can't be reached; "" where somebody listens."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_WITHIN_S):
            return ""
    except (OSError, ValueError, OverflowError) as error:
        return str(error)


def _explained(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if lines and lines[0].startswith("Version mismatch"):
        return f"{' '.join(lines)}; run the job in the cluster's image, or submit it with `ray job submit`"
    if "running Ray instance" in said:
        return "no cluster runs on this machine; give the head's HOST:6379, or unset it to compute here"
    if said.startswith("Failed to connect"):  # though somebody listens there
        return f"whoever listens there does not let this job in; give the head's HOST:6379, and set {_TOKEN}"
    return lines[0] if lines else "Ray did not say why it can't be joined"
