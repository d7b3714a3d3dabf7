"""Ray and Ray Serve on this machine alone, for as long as the service runs."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from typing import Any

from serving.config import ServiceConfig
from serving.environment import FAST
from serving.troubles import failing

_OBJECT_STORE = 128 * 2**20
_READY_WITHIN_S = 120.0
_NAME = "fdarx"


class NotStarted(Exception):
    """The service can't be started; the message says why and what to do."""


def check_port(host: str, port: int) -> None:
    """Raises NotStarted where nobody can listen there. Serve itself would share a port that it finds taken."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise NotStarted(f"--host {host} --port {port}: {error.strerror or error}; give another") from error


@contextmanager
def serving(service: ServiceConfig, host: str, port: int, metrics_port: int | None) -> Iterator[threading.Event]:
    """The service, ready, while the block runs; the event is set by Ctrl-C and SIGTERM. Raises NotStarted."""
    if os.environ.get("RAY_ADDRESS"):
        raise NotStarted(
            "RAY_ADDRESS names a cluster, and this serves on one machine; see cluster/qa_rag.yaml, or unset it"
        )
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", **FAST, **os.environ})
    import ray
    from ray import serve

    _quiet()
    ended = threading.Event()
    try:
        _start(ray, service, host, port, metrics_port)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        yield ended
    finally:
        print("ending", file=sys.stderr)
        with redirect_stderr(StringIO()), redirect_stdout(StringIO()):  # Ray tells at length of what ends as it should
            with suppress(Exception):  # it may have died already
                serve.shutdown()  # type: ignore[no-untyped-call]
            ray.shutdown()


def _start(ray: Any, service: ServiceConfig, host: str, port: int, metrics_port: int | None) -> None:
    from ray import serve
    from ray.serve.schema import LoggingConfig

    from serving.qa_rag import build

    ray.init(
        address="local",
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _metrics_export_port=metrics_port,
    )
    serve.start(http_options={"host": host, "port": port}, logging_config=LoggingConfig(enable_access_log=False))
    try:
        serve.run(build(service), name=_NAME)
    except RuntimeError as error:
        raise NotStarted(_cause(serve.status(), error)) from error
    _wait(f"http://{host}:{port}/readyz")


def _wait(url: str) -> None:
    until = time.monotonic() + _READY_WITHIN_S
    said = ""
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError) as error:
            said = str(error)
        time.sleep(0.1)
    raise NotStarted(f"{url} is not ready after {_READY_WITHIN_S:g} s: {said}")


def _cause(status: Any, error: Exception) -> str:
    """What a replica said when it could not start."""
    for app in status.applications.values():
        name, said = failing(app.deployments)
        if said:
            return f"{name.lower()} can't start: {said}"
    return str(error)


def _quiet() -> None:
    """Serve and Ray tell the terminal of what is as it should be."""
    for name in ("ray.serve", "ray._private.authentication.authentication_token_setup"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
