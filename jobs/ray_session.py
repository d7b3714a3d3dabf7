"""Ray sessions of jobs: on the cluster of RAY_ADDRESS (which `ray job submit` sets), else on this machine."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from fdarx_core.storage import Location
from fdarx_core.telemetry import worker_variables
from jobs import STOPPED, stop
from jobs.progress import repeated


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block on SIGTERM, with which `ray job stop` and Kubernetes end a job."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


_ANSWER_WITHIN_S = 60.0


def _check_shared(written: Sequence[Location], read: Sequence[str | None]) -> None:
    """Check that the cluster's other machines see the local folders to write and the local files to read.

    A folder may exist on each of them, so a file is written into it that they look for. Ends the job with one line if a
    machine lacks one of them, or this program. A machine that does not answer in time is skipped, because it may be
    starting or stopping.
    """
    import ray

    if not os.environ.get("RAY_ADDRESS"):
        return
    own, nodes = ray.get_runtime_context().get_node_id(), ray.nodes()  # type: ignore[no-untyped-call]
    others = [node["NodeID"] for node in nodes if node["Alive"] and node["NodeID"] != own]
    marks = {f"{folder}/.seen-{uuid4().hex}": f"--out {folder}" for folder in written if not folder.is_remote}
    places = [Location(place) for place in read if place]
    paths = [*marks, *(place.address for place in places if not place.is_remote and place.exists())]
    if not others or not paths:
        return
    look: Any = ray.remote(_missing)
    try:
        for mark in marks:
            Path(mark).touch()
        asked = [look.options(num_cpus=0, label_selector={"ray.io/node-id": node}).remote(paths) for node in others]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=_ANSWER_WITHIN_S)
        for answer in ready:
            try:
                host, missing = ray.get(answer)
            except ray.exceptions.RayTaskError as error:
                reason = str(error).splitlines()[-1]
                stop(f"a machine of the cluster can't run this job: {reason}; is the same fdarx installed there?")
            except ray.exceptions.RayError:
                continue  # it went down meanwhile
            for path in missing:
                stop(
                    f"{marks.get(path, path)} is on a disk that machine {host} of the cluster does not see; give "
                    "s3://, or a folder that all machines mount"
                )
    finally:
        for mark in marks:
            Path(mark).unlink(missing_ok=True)


def _missing(paths: Sequence[str]) -> tuple[str, list[str]]:
    """Return the host name of this machine, and the paths that it does not see."""
    import ray

    host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    return host, [path for path in paths if not Path(path).exists()]


_ANSWER_WITHIN_S_JOINING = 10.0
_LOOK_EVERY_S = 5.0
_MISSED = 3
"""After so many failed checks a line is printed; on a cluster that restarts its head, the head is back by then."""

_TOKEN = "RAY_AUTH_MODE=token and, in RAY_AUTH_TOKEN or ~/.ray/auth_token, the token that the cluster was started with"


def start_ray(final: tuple[type[Exception], ...] = (), **options: Any) -> None:
    """Call `ray.init`, a second time where the first failed, since a busy machine may start Ray too slowly.

    Ends the program with one line and exit code 3 where the second fails as well. Raises the `final` errors, which no
    second attempt mends.
    """
    import ray

    final = (*final, ray.exceptions.AuthenticationError)
    reason = ""
    for last in (False, True):
        try:
            ray.init(**options)
            return
        except final:
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            ray.shutdown()
            if not last:
                print(f"Ray did not start, trying once more: {reason}", file=sys.stderr, flush=True)
    print(
        f"error: Ray did not start in two attempts: {reason}; free some memory and CPUs, then run the same command "
        "again",
        file=sys.stderr,
    )
    raise SystemExit(STOPPED)


def start_local_ray(*, replicas: bool, host: str = "127.0.0.1", **options: Any) -> None:
    """Start Ray on this machine, for this user alone, as `start_ray` does.

    Ray's processes listen on loopback, and their files are in a folder that only the user can read: Ray itself lets all
    users of the machine write to its session folder. The port on which a replica of Ray Serve takes requests of other
    replicas is an exception: Ray 2.60 binds it to all interfaces, and only the token protects it.

    Args:
        replicas: whether Ray Serve will run here.
        host: the address on which Serve will listen.
        options: options of `ray.init`.

    Raises:
        ValueError: RAY_AUTH_MODE disables the token and `host` is not loopback, or the folder is another user's.
    """
    from ray._private import ray_constants
    from ray.job_config import JobConfig

    if replicas and os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        open_port = (
            "the replicas of Ray Serve run code for whoever reaches their ports, on all interfaces of this machine"
        )
        with suppress(ValueError):
            host = "localhost" if ipaddress.ip_address(host).is_loopback else host
        if host != "localhost":
            raise ValueError(f"RAY_AUTH_MODE=disabled with the address {host}: {open_port}; unset RAY_AUTH_MODE")
        print(f"warning: RAY_AUTH_MODE=disabled: {open_port}; unset RAY_AUTH_MODE", file=sys.stderr, flush=True)
    config = JobConfig()
    if Path(__file__).resolve().parent.parent != Path.cwd().resolve():
        # Ray adds the current folder in front of the import path of all workers: in a folder of somebody else, a file
        # with the name of a library would be run
        config._py_driver_sys_path = _NoFolders()
    _protect_token()
    folder, several_machines = _private_folder(), ray_constants.ENABLE_RAY_CLUSTER
    try:
        # otherwise Ray takes an address that other machines reach, also in place of a given loopback address
        ray_constants.ENABLE_RAY_CLUSTER = False
        start_ray(address="local", include_dashboard=False, _temp_dir=folder, job_config=config, **options)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = several_machines
    _protect_token()


class _NoFolders(list[str]):
    """The folders that Ray puts in front of the import path of its workers; it takes none."""

    def extend(self, folders: Iterable[str], /) -> None:
        return None


def _protect_token() -> None:
    """Let only the user read Ray's token, which Ray writes with the permissions of any other file."""
    with suppress(OSError, RuntimeError):  # without a home, the token is in the environment
        folder = Path.home() / ".ray"
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in (folder, folder / "auth_token"):
            if path.exists():
                path.chmod(path.stat().st_mode & 0o700)


def _private_folder() -> str:
    """Return the folder for Ray's sessions, below one that only this user can enter. Raises ValueError."""
    from ray._common.utils import get_default_system_temp_dir

    own = Path(get_default_system_temp_dir()) / f"fdarx-{os.getuid()}"  # type: ignore[no-untyped-call]
    with suppress(FileExistsError):
        own.mkdir(mode=0o700, parents=True)
    found = own.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ValueError(
            f"{own} is not a folder that only you can enter; delete it, or set RAY_TMPDIR to another folder"
        )
    return str(own / "ray")


def _join_cluster(address: str, **options: Any) -> None:
    """Join the cluster at an address. Ends the job with one line where it can't be reached or refuses this job."""
    import ray

    if "://" in address:
        stop(
            f"RAY_ADDRESS {address} is for `ray job submit` or Ray Client; submit the job, give the head's HOST:6379, "
            "or unset it to compute here"
        )
    if ":" in address and (why := _refusal(address)):  # Ray itself would try for minutes
        stop(
            f"nobody answers at RAY_ADDRESS {address} ({why}); is the head up, and its port open from here? "
            "Unset RAY_ADDRESS to compute on this machine"
        )
    try:
        start_ray((ConnectionError, RuntimeError, ValueError), address=address, **options)
    except ray.exceptions.AuthenticationError:
        stop(f"the cluster at RAY_ADDRESS {address} asks for a token; set {_TOKEN}")
    except (ConnectionError, RuntimeError, ValueError) as error:
        stop(f"RAY_ADDRESS {address}: {_explained(str(error))}")


@contextmanager
def _watching_head() -> Iterator[None]:
    """Print one line if the head of a cluster is lost; Ray ends the process a minute later with other messages."""
    import ray

    if not os.environ.get("RAY_ADDRESS"):
        yield
        return
    address, missed = ray.get_runtime_context().gcs_address, 0

    def look() -> None:
        nonlocal missed
        missed = missed + 1 if _refusal(address) else 0
        if missed == _MISSED:
            print(
                f"the head of the cluster at {address} has not answered for {_MISSED * _LOOK_EVERY_S:.0f} s; unless it "
                "comes back this job ends within a minute, with exit code 1, and the same command resumes the job",
                file=sys.stderr,
                flush=True,
            )

    with repeated(look, _LOOK_EVERY_S):
        yield


def _refusal(address: str) -> str:
    """Return why HOST:PORT can't be reached; "" if it can."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_WITHIN_S_JOINING):
            return ""
    except (OSError, ValueError, OverflowError) as error:
        return str(error)


def _explained(message: str) -> str:
    """Return why Ray can't be joined, by its message."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and lines[0].startswith("Version mismatch"):
        return f"{' '.join(lines)}; run the job in the cluster's image, or submit it with `ray job submit`"
    if "running Ray instance" in message:
        return "no cluster runs on this machine; give the head's HOST:6379, or unset it to compute here"
    if message.startswith("Failed to connect"):  # though somebody listens there
        return f"whoever listens there does not let this job in; give the head's HOST:6379, and set {_TOKEN}"
    return lines[0] if lines else "Ray did not say why it can't be joined"


_LOCAL_OBJECT_STORE = 512 * 2**20
_CHATTY = ("ray.data", "ray.data._internal.progress", "ray._private.authentication.authentication_token_setup")
"""Loggers that are silenced: their messages are routine, or errors that the job itself reports."""


@contextmanager
def ray_session(
    cpus: int | None = None, *, for_models: int = 0, written: Sequence[Location] = (), read: Sequence[str | None] = ()
) -> Iterator[None]:
    """Start or join Ray for the duration of a job. `cpus` limits a local instance and is ignored on a cluster.

    `for_models` are additional CPUs for models that the job deploys; their output goes only to Ray's logs. `written`
    and `read` are the places that workers write and read; the job ends if the machines of a cluster do not share them.
    SIGTERM raises KeyboardInterrupt, as Ctrl-C does.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    try:
        _start(cpus, for_models)
        with as_ctrl_c(), _watching_head():
            _check_shared(written, read)
            yield
    finally:
        ray.shutdown()


def _start(cpus: int | None, for_models: int) -> None:
    import fdarx_core.pipeline.ray_data  # noqa: F401 (Ray Data sets the levels of its loggers)

    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    address = os.environ.get("RAY_ADDRESS")
    try:
        if address:
            # The spans of workers go where those of the driver go. Ray refuses to set variables twice that the job was
            # submitted with, and on this machine workers inherit all of them.
            submitted = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")).get("runtime_env", {})
            known = submitted.get("env_vars", {})
            variables = {name: value for name, value in worker_variables().items() if name not in known}
            _join_cluster(
                address,
                logging_level=logging.WARNING,
                log_to_driver=not for_models,
                runtime_env={"env_vars": variables} if variables else None,
            )
            return
        start_local_ray(
            replicas=for_models > 0,
            num_cpus=(cpus or os.cpu_count() or 1) + for_models if for_models else cpus,
            object_store_memory=_LOCAL_OBJECT_STORE,
            logging_level=logging.WARNING,
            log_to_driver=not for_models,
        )
    except ValueError as error:
        stop(str(error))
    except SystemExit as error:  # what Ray makes of SIGTERM while it starts
        if error.code == signal.SIGTERM:
            raise KeyboardInterrupt from None
        raise
