"""Cited answers over HTTP on this machine, with a page to ask on; on a cluster: `serve deploy cluster/qa_rag.yaml`."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fdarx_core.extras import require
from fdarx_core.specs.serve import AUTO, ServeSpec, ServiceConfig
from jobs import INTERRUPTED, stop, wrong_arguments
from jobs.cli import run_as
from jobs.progress import busy, repeated
from jobs.ray_session import start_local_ray
from serving.config import SERVE_VARIABLES
from serving.failures import failed_deployment

_OBJECT_STORE = 128 * 2**20
_READY_WITHIN_S = 120.0
_TELL_EVERY_S = 5.0
_NAME = "fdarx"
_GRACE_S = 1.0
"""Seconds after the deadline after which the proxy replies in place of the service."""


def serve(*, config: Annotated[ServeSpec | None, Parameter(name="*")] = None) -> int:
    """Run the service until Ctrl-C or SIGTERM; returns its exit code.

    0 ended, 2 wrong argument, 130 interrupted before it was ready.
    """
    try:
        with wrong_arguments():
            config = config or ServeSpec.of()
            if config.new_key is not None:
                from serving.http.access import add_key

                file = config.keys_file or Path()
                key = add_key(file, config.new_key, upload=config.upload)
                about = f"{file} now lets in the key {config.new_key}, which is shown only here"
                print(f"{about}; send it as `Authorization: Bearer KEY`:", file=sys.stderr)
                print(key)
                return 0
            service = config.service_config()
            check_port(config.host, config.port)
            with busy("reading the indexes", quiet=config.quiet):
                _check(service, config.retriever)
            print("starting: importing Ray", file=sys.stderr, flush=True)
            with _serving(service, config.host, config.port, config.metrics_port) as ended:
                where = f"http://{config.host}:{config.port}"
                docs = "" if config.no_docs else f" (its API: {where}/docs)"
                print(f"FDARx answers at {where}{docs}; Ctrl-C ends it", file=sys.stderr, flush=True)
                ended.wait()
        return 0
    except KeyboardInterrupt:
        print("\ninterrupted before the service was ready", file=sys.stderr)
        return INTERRUPTED


def check_port(host: str, port: int) -> None:
    """Raise ValueError where a port can't be used, before anything is read; Ray Serve itself would share one in use."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        other = f"such as --port {port + 1} (make serve PORT={port + 1})"
        raise ValueError(f"--host {host} --port {port}: {error.strerror or error}; give another, {other}") from error


def _check(service: ServiceConfig, retriever: str) -> None:
    """Check files here, where an error is one line; from within Ray it would be a long traceback."""
    from fdarx_core.report.page_engine import plural
    from fdarx_core.retrieval.models import ModelDirectories, check_installed
    from serving.http.access import ApiKeys
    from serving.retriever import CorpusStore

    require("serve")
    ApiKeys.of(service.http)
    if service.reranker_model is not None:
        ModelDirectories(reranker=service.reranker_model).of("reranker")
        check_installed("reranker")
    offered: dict[str, None] = {}
    for loaded in CorpusStore(service.corpora, service.cosine_model).loaded.values():
        corpus = loaded.corpus
        counts = f"{plural(corpus.chunks, 'chunk')} of {plural(corpus.documents, corpus.kind[:-1])}"
        print(f"{corpus.name}: {counts}, version {corpus.version}", file=sys.stderr)
        if loaded.notice:
            print(f"  {loaded.notice}", file=sys.stderr)
        offered |= dict.fromkeys(corpus.retrievers)
    if retriever not in (AUTO, *offered):
        raise ValueError(f"--retriever {retriever}: the indexes can be searched by {', '.join(offered)}, see above")


@contextmanager
def _serving(service: ServiceConfig, host: str, port: int, metrics_port: int | None) -> Iterator[threading.Event]:
    """Run the service while the block runs; Ctrl-C and SIGTERM set the event. It stops where it can't start."""
    if os.environ.get("RAY_ADDRESS"):
        stop("RAY_ADDRESS names a cluster, and this serves on one machine; see cluster/qa_rag.yaml, or unset it")
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", **SERVE_VARIABLES, **os.environ})
    import ray
    from ray import serve

    for name in ("ray.serve", "ray._private.authentication.authentication_token_setup"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # routine messages
    ended, ready = threading.Event(), False
    try:
        _start(service, host, port, metrics_port)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        ready = True
        yield ended
    finally:
        if ready:
            print("ending", file=sys.stderr)
        with redirect_stderr(StringIO()), redirect_stdout(StringIO()):  # Ray tells at length of what ends as it should
            if ready:
                with suppress(Exception):  # it may have died already
                    serve.shutdown()  # type: ignore[no-untyped-call]
            ray.shutdown()


def _start(service: ServiceConfig, host: str, port: int, metrics_port: int | None) -> None:
    """Start Ray, Ray Serve and the service, and wait for its first reply; end the program where one can't start."""
    from ray import serve
    from ray.serve.schema import LoggingConfig

    from serving.http.access import ApiKeys
    from serving.qa_rag import build

    def unready() -> str:
        deployments = (named for app in serve.status().applications.values() for named in app.deployments.items())
        return ", ".join(name for name, deployment in deployments if deployment.status != "HEALTHY") or "Ray Serve"

    with _telling(lambda: "Ray"):
        start_local_ray(
            replicas=True,
            host=host,
            object_store_memory=_OBJECT_STORE,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _metrics_export_port=metrics_port,
        )
    longest_s = max(service.http.deadline_s, service.http.upload_s if ApiKeys.of(service.http).uploaders else 0)
    http_options = {"host": host, "port": port, "request_timeout_s": longest_s + _GRACE_S}
    with _telling(lambda: "Ray Serve"):
        serve.start(http_options=http_options, logging_config=LoggingConfig(enable_access_log=False))
    try:
        with _telling(unready):
            serve.run(build(service), name=_NAME)
    except RuntimeError as error:
        for app in serve.status().applications.values():
            name, message = failed_deployment(app.deployments)
            if message:
                stop(f"{name.lower()} can't start: {message}")
        stop(str(error))
    with _telling(lambda: "the first reply"):
        _wait(f"http://{host}:{port}/readyz")


@contextmanager
def _telling(what: Callable[[], str]) -> Iterator[None]:
    """Say on standard error what the block waits for, at once and every `_TELL_EVERY_S` seconds."""
    began = time.monotonic()

    def tell() -> None:
        waited = time.monotonic() - began
        after = f", {waited:.0f} s" if waited >= _TELL_EVERY_S else ""
        with suppress(Exception):  # Serve may not have a status yet
            print(f"waiting for {what()}{after}", file=sys.stderr, flush=True)

    tell()
    with repeated(tell, _TELL_EVERY_S):
        yield


def _wait(url: str) -> None:
    """Wait until an address answers; end the program after `_READY_WITHIN_S`."""
    until, reason = time.monotonic() + _READY_WITHIN_S, ""
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError as error:
            reason = str(error)
        time.sleep(0.1)
    stop(f"{url} is not ready after {_READY_WITHIN_S:g} s: {reason}")


if __name__ == "__main__":
    run_as("serve")
