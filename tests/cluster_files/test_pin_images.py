"""Digests of images: given, or from a registry on loopback, with and without a login; Kustomize then uses them."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster_files.tree import CLUSTER, REPOSITORY

GIVEN, STORED = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
LOGIN, TOKEN = base64.b64encode(b"user:password").decode(), "a-token"


class Registry(BaseHTTPRequestHandler):
    """The part of the OCI distribution API that gives the digest of a tag, open, by password or by token."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        _, _, realm, name, _, tag = self.path.split("/")
        wanted = {"open": None, "basic": f"Basic {LOGIN}", "token": f"Bearer {TOKEN}"}[realm]
        given = self.headers.get("Authorization")
        if wanted and given != wanted:
            host = self.headers["Host"]
            challenge = "Basic" if realm == "basic" else f'Bearer realm="http://{host}/token",scope="{name}:pull"'
            self._reply(401, {"WWW-Authenticate": challenge})
        elif (name, tag) != ("fdarx-gpu", "1.0") or "image.index" not in self.headers["Accept"]:
            self._reply(404, {})
        else:
            self._reply(200, {"Docker-Content-Digest": STORED})

    def do_GET(self) -> None:
        allowed = self.path == "/token?scope=fdarx-gpu%3Apull" and self.headers["Authorization"] == f"Basic {LOGIN}"
        self._reply(200 if allowed else 403, {}, json.dumps({"token": TOKEN}).encode())

    def _reply(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """No log."""


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def written(folder: Path, name: str, tag: str = "1.0") -> Path:
    file = folder / "kustomization.yaml"
    images = [{"name": "fdarx-gpu", "newName": name, "newTag": tag}]
    file.write_text("# Where images are.\n" + yaml.safe_dump({"kind": "Component", "images": images}))
    return file


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(CLUSTER / "pin_images.py"), *arguments]
    environment = {"DOCKER_CONFIG": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment)


def log_in(folder: Path, host: str) -> None:
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": LOGIN}}}))


@pytest.mark.parametrize("realm", ["open", "basic", "token"])
def test_a_registry_gives_the_digest_of_the_tag(registry: str, realm: str, tmp_path: Path) -> None:
    file = written(tmp_path, f"{registry}/{realm}/fdarx-gpu")
    log_in(tmp_path, registry)
    done = run(tmp_path, "--file", str(file))
    assert done.returncode == 0, done.stderr
    assert file.read_text().startswith("# Where images are.\n")
    [image] = yaml.safe_load(file.read_text())["images"]
    assert image == {"name": "fdarx-gpu", "newName": f"{registry}/{realm}/fdarx-gpu", "digest": STORED}
    assert LOGIN not in done.stdout + done.stderr + file.read_text()


@pytest.mark.parametrize(
    ("name", "tag", "digests", "says"),
    [
        ("{registry}/basic/fdarx-gpu", "1.0", [], "401"),
        ("{registry}/token/fdarx-gpu", "1.0", [], "log in with `docker login"),
        ("{registry}/open/fdarx-gpu", "2.0", [], "404 Not Found; push the tag"),
        ("127.0.0.1:1/open/fdarx-gpu", "1.0", [], "refused; give fdarx-gpu=sha256:… instead"),
        ("fdarx-gpu", "1.0", [], "names no registry; give fdarx-gpu=sha256:…"),
        ("fdarx-gpu", "1.0", ["fdarx-gpu=latest"], "'latest' is no digest"),
        ("fdarx-gpu", "1.0", [f"fdarx={GIVEN}"], "has no image fdarx; it has fdarx-gpu"),
    ],
)
def test_nothing_is_written_without_a_digest(
    registry: str, name: str, tag: str, digests: list[str], says: str, tmp_path: Path
) -> None:
    file = written(tmp_path, name.format(registry=registry), tag)
    before = file.read_text()
    done = run(tmp_path, *digests, "--file", str(file))
    assert done.returncode == 1 and says in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert file.read_text() == before


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_given_digests_reach_all_pods(tmp_path: Path) -> None:
    copy = tmp_path / "cluster"
    shutil.copytree(REPOSITORY / "cluster", copy)
    digests = [f"{name}={GIVEN}" for name in ("fdarx-cpu", "fdarx-gpu", "redis")]
    done = run(tmp_path, *digests, "--file", str(copy / "kuberay" / "components" / "images" / "kustomization.yaml"))
    assert done.returncode == 0, done.stderr
    for folder in ("kuberay", "kuberay/service", "kuberay/jobs/build", "kuberay/jobs/sweep"):
        made = subprocess.run(["kubectl", "kustomize", str(copy / folder)], capture_output=True, text=True, timeout=60)
        images = [line.split("image: ")[1] for line in made.stdout.splitlines() if "image: " in line]
        assert images and all(image.endswith(f"@{GIVEN}") for image in images), made.stderr
