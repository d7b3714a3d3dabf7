"""Cited answers over HTTP on this machine, with a page to ask on; on a cluster: `serve deploy cluster/qa_rag.yaml`."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from fdarx_core.rag.flow import POSTPROCESSORS
from fdarx_core.retrieval.models import ModelDirectories, check_installed
from jobs.options import check_roles, load_all
from jobs.ray_session import start_local_ray
from jobs.serve import ServeConfig
from serving.config import SERVE_VARIABLES, ServiceConfig
from serving.failures import failed_deployment
from serving.http.access import add_key, load_keys
from serving.retriever import CorpusStore, LoadedCorpus
from serving.settings import AUTO, ModelRoles, ServiceSettings

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)")
_OBJECT_STORE = 128 * 2**20
_READY_WITHIN_S = 120.0
_TELL_EVERY_S = 5.0
_NAME = "fdarx"
_GRACE_S = 1.0
"""Seconds after the deadline after which the proxy replies in place of the service."""


def service_config(config: ServeConfig) -> ServiceConfig:
    """Return the service's configuration. Raises ModelsError for a models file or name, ValueError otherwise."""
    models = load_all(config.models)
    check_roles(config.roles, models)
    if config.postprocess not in (AUTO, *POSTPROCESSORS):
        raise ValueError(f"--postprocess {config.postprocess}: there are {', '.join((AUTO, *POSTPROCESSORS))}")
    if config.postprocess == "rerank" and config.reranker_model is None:
        raise ValueError("--postprocess rerank wants --reranker-model")
    return ServiceConfig(
        corpora=_corpora(config.index),
        models=list(models.values()),
        **config.model_dump(include=set(ModelRoles.model_fields)),
        replicas=config.replicas,
        poll_s=config.poll_s,
        log_file=config.log,
        http=_http_settings(config),
    )


def _http_settings(config: ServeConfig) -> ServiceSettings:
    """Return the settings of the HTTP side: where hosts are checked, the name that it is bound to is one of them."""
    fields = config.model_dump(include=set(ServiceSettings.model_fields))
    if (config.keys_file is None or config.allowed_hosts) and not _is_address(config.host):
        fields["allowed_hosts"] = [*config.allowed_hosts, config.host]
    return ServiceSettings.model_validate(fields)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def _corpora(given: list[str]) -> dict[str, str]:
    corpora: dict[str, str] = {}
    for one in given:
        named = _NAMED.fullmatch(one)
        name, place = (named[1], named[2]) if named else (one.rstrip("/").rpartition("/")[2], one)
        if name in corpora:
            raise ValueError(f"--index: two are named {name}; give another name: NAME={place}")
        corpora[name] = place
    return corpora


def check_port(host: str, port: int) -> None:
    """Raise ValueError if the port is not free. Ray Serve itself would share a port that is in use."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ValueError(f"--host {host} --port {port}: {error.strerror or error}; give another") from error


@contextmanager
def serving(service: ServiceConfig, host: str, port: int, metrics_port: int | None) -> Iterator[threading.Event]:
    """Run the service while the block runs; Ctrl-C and SIGTERM set the event. Raises ValueError."""
    if os.environ.get("RAY_ADDRESS"):
        raise ValueError(
            "RAY_ADDRESS names a cluster, and this serves on one machine; see cluster/qa_rag.yaml, or unset it"
        )
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", **SERVE_VARIABLES, **os.environ})
    import ray
    from ray import serve

    _quiet()
    ended = threading.Event()
    try:
        _start(service, host, port, metrics_port)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        yield ended
    finally:
        print("ending", file=sys.stderr)
        with redirect_stderr(StringIO()), redirect_stdout(StringIO()):  # Ray tells at length of what ends as it should
            with suppress(Exception):  # it may have died already
                serve.shutdown()  # type: ignore[no-untyped-call]
            ray.shutdown()


def _start(service: ServiceConfig, host: str, port: int, metrics_port: int | None) -> None:
    from ray import serve
    from ray.serve.schema import LoggingConfig

    from serving.qa_rag import build

    with _telling(lambda: "Ray"):
        start_local_ray(
            replicas=True,
            host=host,
            object_store_memory=_OBJECT_STORE,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _metrics_export_port=metrics_port,
        )
    longest_s = max(service.http.deadline_s, service.http.upload_s if service.http.takes_uploads() else 0)
    wait_s = longest_s + _GRACE_S
    http_options = {"host": host, "port": port, "request_timeout_s": wait_s}
    with _telling(lambda: "Ray Serve"):
        serve.start(http_options=http_options, logging_config=LoggingConfig(enable_access_log=False))
    try:
        with _telling(lambda: _unready(serve.status()) or "Ray Serve"):
            serve.run(build(service), name=_NAME)
    except RuntimeError as error:
        raise ValueError(_cause(serve.status(), error)) from error
    with _telling(lambda: "the first reply"):
        _wait(f"http://{host}:{port}/readyz")


@contextmanager
def _telling(what: Callable[[], str]) -> Iterator[None]:
    """Say on standard error what the block waits for, at once and every `_TELL_EVERY_S` seconds."""
    ended, began = threading.Event(), time.monotonic()

    def tell() -> None:
        wait = 0.0
        while not ended.wait(wait):
            with suppress(Exception):  # Serve may not have a status yet
                waited = time.monotonic() - began
                after = f", {waited:.0f} s" if wait else ""
                print(f"waiting for {what()}{after}", file=sys.stderr, flush=True)
            wait = _TELL_EVERY_S

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _unready(status: Any) -> str:
    """Return the names of the deployments that are not healthy yet."""
    deployments = (one for app in status.applications.values() for one in app.deployments.items())
    return ", ".join(name for name, one in deployments if one.status != "HEALTHY")


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
    raise ValueError(f"{url} is not ready after {_READY_WITHIN_S:g} s: {said}")


def _cause(status: Any, error: Exception) -> str:
    """Return the message of a replica that could not start."""
    for app in status.applications.values():
        name, said = failed_deployment(app.deployments)
        if said:
            return f"{name.lower()} can't start: {said}"
    return str(error)


def _quiet() -> None:
    """Hide routine messages of Ray and Ray Serve from the terminal."""
    for name in ("ray.serve", "ray._private.authentication.authentication_token_setup"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def run(config: ServeConfig) -> int:
    """Run the service until Ctrl-C or SIGTERM; returns its exit code, as `jobs.serve.serve`."""
    try:
        if config.new_key is not None:
            return _make_key(config.keys_file or Path(), config.new_key, config.upload)
        service = service_config(config)
        _check(service, config.retriever)
        check_port(config.host, config.port)
        with serving(service, config.host, config.port, config.metrics_port) as ended:
            where = f"http://{config.host}:{config.port}"
            docs = "" if config.no_docs else f" (its API: {where}/docs)"
            print(f"FDARx answers at {where}{docs}; Ctrl-C ends it", file=sys.stderr, flush=True)
            ended.wait()
        return 0
    except KeyboardInterrupt:
        return 0


def _make_key(file: Path, name: str, upload: bool) -> int:
    key = add_key(file, name, upload=upload)
    print(
        f"{file} now lets in the key {name}, which is shown only here; send it as `Authorization: Bearer KEY`:",
        file=sys.stderr,
    )
    print(key)
    return 0


def _check(service: ServiceConfig, retriever: str) -> None:
    """Check the files here, where an error is one line; from within Ray it would be a long traceback."""
    if service.http.keys_file is not None:
        load_keys(service.http.keys_file)
    if service.reranker_model is not None:
        ModelDirectories(reranker=service.reranker_model).of("reranker")
        check_installed("reranker")
    loaded = CorpusStore(service.corpora, service.cosine_model).all()
    for one in loaded:
        _tell(one)
    offered = {name: None for one in loaded for name in one.corpus.retrievers}
    if retriever not in (AUTO, *offered):
        raise ValueError(f"--retriever {retriever}: the indexes can be searched by {', '.join(offered)}, see above")


def _tell(loaded: LoadedCorpus) -> None:
    corpus = loaded.corpus
    counts = f"{corpus.chunks} chunks of {corpus.documents} {corpus.kind}"
    print(f"{corpus.name}: {counts}, version {corpus.version}", file=sys.stderr)
    if loaded.notice:
        print(f"  {loaded.notice}", file=sys.stderr)
