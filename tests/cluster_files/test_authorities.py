"""A certificate authority of a site: its variables and files on all Ray nodes, and what libraries make of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import certifi
import pytest

from tests.cluster_files.pods import pods
from tests.cluster_files.tree import GUIDE, SITE, load
from tests.llm.certificates import server_context

_VARIABLES = dict(re.findall(r"^# (\w+)=(/\S+)$", (SITE / "kuberay" / "environment.env").read_text(), re.MULTILINE))
_ASK = """
import asyncio, json, sys
import aiohttp, boto3, botocore.config, httpx2, requests

def boto(url):
    config = botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=url, config=config, **keys).get_object(Bucket="bucket", Key="key")

async def get(url):
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        await reply.read()

def trusts(ask):
    try:
        ask(sys.argv[1])
    except Exception:
        return False
    return True

asks = {"boto3": boto, "hub": httpx2.get, "models": lambda url: asyncio.run(get(url)), "requests": requests.get}
public = httpx2.create_ssl_context().cert_store_stats()["x509_ca"]
print(json.dumps({**{name: trusts(ask) for name, ask in asks.items()}, "public": public > 50}))
"""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a server, and the file of the authority that vouches for it."""
    context, authority = server_context(tmp_path_factory.mktemp("authority"))
    http = HTTPServer(("127.0.0.1", 0), _Handler)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    Thread(target=http.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{http.server_port}", authority
    http.shutdown()
    http.server_close()


def _trusted(url: str, **variables: Path) -> dict[str, bool]:
    own = {name: value for name, value in os.environ.items() if name not in (*_VARIABLES, "SSL_CERT_DIR")}
    environment = {**own, **{name: str(file) for name, file in variables.items()}, "NO_PROXY": "127.0.0.1"}
    line = [sys.executable, "-c", _ASK, url]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, bool] = json.loads(done.stdout)
    return found


def test_the_joined_bundle_serves_all(server: tuple[str, Path], tmp_path: Path) -> None:
    url, authority = server
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(Path(certifi.where()).read_text() + authority.read_text())
    assert set(_trusted(url, **dict.fromkeys(_VARIABLES, bundle)).values()) == {True}


def test_which_variable_each_library_reads(server: tuple[str, Path]) -> None:
    """A private authority alone shuts out the public hub."""
    url, authority = server
    assert _trusted(url, AWS_CA_BUNDLE=authority) == _only("boto3", "public")
    assert _trusted(url, SSL_CERT_FILE=authority) == _only("hub", "models")
    assert _trusted(url, REQUESTS_CA_BUNDLE=authority) == _only("requests", "boto3", "public")


def _only(*names: str) -> dict[str, bool]:
    return {name: name in names for name in ("boto3", "hub", "models", "requests", "public")}


def test_all_ray_nodes_have_the_variables_and_the_file() -> None:
    [file] = set(_VARIABLES.values())
    assert f"--from-file={Path(file).name}" in GUIDE.read_text()
    nodes = [pod for pod in pods(load()) if pod.group]
    assert len(nodes) >= 12
    for pod in nodes:
        for container in pod.containers:
            read = [one.get("configMapRef", {}).get("name") for one in container["envFrom"]]
            assert read.count("fdarx-environment") == 1, pod.owner
            mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            volumes = {volume["name"]: volume.get("configMap", {}).get("name") for volume in pod.spec["volumes"]}
            made = volumes[mounted[str(Path(file).parent)]]
            assert f"kubectl create configmap {made} " in GUIDE.read_text()
