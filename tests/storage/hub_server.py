"""A Hugging Face Hub on loopback, with the calls that huggingface_hub and datasets make to datasets.

Small files are committed with their content, files above `lfs_size` by the LFS protocol. A wrong token is refused with
401, one that may only read with 403, as by the hub.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

WRITE, READ = "hf_writeTokenOfTheTests", "hf_readTokenOfTheTests"


def sha1(content: bytes) -> str:
    """The id of a blob in git."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass(slots=True)
class Repo:
    """A dataset: its commits by hash with their files and message, and the last commit of each branch."""

    private: bool
    commits: dict[str, tuple[dict[str, bytes], str]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        parent = self.branches.get(branch, "")
        digest = hashlib.sha1(f"{parent} {message} {sorted(map(sha1, files.values()))}".encode()).hexdigest()
        self.commits[digest] = files, message
        self.branches[branch] = digest
        return digest

    def resolve(self, revision: str) -> str | None:
        found = self.branches.get(revision, revision)
        return found if found in self.commits else None

    def files(self, branch: str = "main") -> dict[str, bytes]:
        return self.commits[self.branches[branch]][0]

    def messages(self, branch: str = "main") -> list[str]:
        """The messages of all commits but the one that made the dataset."""
        return [message for _, message in self.commits.values() if message != "initial commit"]


@dataclass(slots=True)
class Hub:
    """The state of the server. `requests` are (method, path) in order; `lfs` are contents by their SHA-256."""

    address: str = ""
    lfs_size: int = 2000
    repos: dict[str, Repo] = field(default_factory=dict)
    lfs: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    """Words: a request whose path has one is answered with 500."""
    lock: Lock = field(default_factory=Lock)

    def create(self, name: str, files: dict[str, bytes], *, private: bool = False) -> Repo:
        repo = self.repos[name] = Repo(private)
        repo.commit("main", files, "initial commit")
        return repo


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.hub.lock:
            self.hub.requests.append((self.command, url.path))
            if any(word in url.path for word in self.hub.broken):
                self._error(500, "", "out of order")
                return
            for method, pattern, call in _ROUTES:
                if self.command in method.split() and (match := re.fullmatch(pattern, url.path)):
                    call(self, body, parse_qs(url.query), *map(unquote, match.groups()))
                    return
        self._error(404, "", f"no such page: {self.command} {url.path}")

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 (the names are those of the base class)

    @property
    def token(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _error(self, status: int, code: str, message: str) -> None:
        self._json({"error": message}, status, {"X-Error-Code": code, "X-Error-Message": message})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _may_write(self) -> bool:
        if self.token == WRITE:
            return True
        if self.token == READ:
            self._error(403, "", "You don't have the rights to create a dataset under this namespace")
        else:
            self._error(401, "", "Invalid username or password.")
        return False

    def _repo(self, name: str) -> Repo | None:
        """The dataset, or None after the answer that there is none, or none for this token."""
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and self.token not in (WRITE, READ)):
            self._error(401 if not self.token else 404, "RepoNotFound", "Repository not found")
            return None
        return repo

    def _commit_of(self, name: str, revision: str) -> tuple[Repo, str] | None:
        if (repo := self._repo(name)) is None:
            return None
        if (commit := repo.resolve(revision)) is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return repo, commit

    def create(self, body: bytes, query: Any) -> None:
        if not self._may_write():
            return
        wanted = json.loads(body)
        name = f"{wanted['organization']}/{wanted['name']}"
        assert wanted["type"] == "dataset"
        if name in self.hub.repos:
            self._json({"error": "exists", "url": f"{self.hub.address}/datasets/{name}"}, 409)
            return
        self.hub.create(name, {".gitattributes": b""}, private=wanted.get("visibility") == "private")
        self._json({"url": f"{self.hub.address}/datasets/{name}"})

    def validate(self, body: bytes, query: Any) -> None:
        self._json({"errors": [], "warnings": []})

    def info(self, body: bytes, query: Any, name: str, revision: str = "main") -> None:
        if found := self._commit_of(name, revision):
            repo, commit = found
            siblings = [{"rfilename": path} for path in sorted(repo.commits[commit][0])]
            about = {"id": name, "sha": commit, "private": repo.private, "siblings": siblings, "tags": []}
            self._json({**about, "disabled": False, "gated": False, "downloads": 0, "likes": 0})

    def branch(self, body: bytes, query: Any, name: str, branch: str) -> None:
        if self._may_write() and (repo := self._repo(name)):
            if branch in repo.branches:
                self._error(409, "", "Reference already exists")
                return
            repo.branches[branch] = repo.branches["main"]
            self._json({}, 201)

    def tree(self, body: bytes, query: dict[str, list[str]], name: str, revision: str, path: str | None = None) -> None:
        if not (found := self._commit_of(name, revision)):
            return
        files, above = found[0].commits[found[1]][0], f"{path}/" if path else ""
        inner = {one.removeprefix(above): content for one, content in files.items() if one.startswith(above)}
        if query.get("recursive", ["false"])[0].lower() not in ("true", "1"):
            folders = sorted({one.partition("/")[0] for one in inner if "/" in one})
            inner = {one: content for one, content in inner.items() if "/" not in one}
        else:
            folders = sorted({one.rpartition("/")[0] for one in inner if "/" in one})
        if path and not inner and not folders:
            self._error(404, "EntryNotFound", f"{path} does not exist")
            return
        listed = [{"type": "directory", "path": above + one, "oid": "0" * 40, "size": 0} for one in folders]
        self._json([*listed, *(self._entry(above + one, content) for one, content in sorted(inner.items()))])

    def _entry(self, path: str, content: bytes) -> dict[str, Any]:
        entry = {"type": "file", "path": path, "oid": sha1(content), "size": len(content)}
        if len(content) > self.hub.lfs_size:
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
        return entry

    def paths(self, body: bytes, query: Any, name: str, revision: str) -> None:
        if found := self._commit_of(name, revision):
            files = found[0].commits[found[1]][0]
            form = self.headers.get("Content-Type", "").startswith("application/json")
            wanted = json.loads(body)["paths"] if form else parse_qs(body.decode())["paths"]
            folders = {one for one in wanted if any(file.startswith(f"{one}/") for file in files)}
            listed = [{"type": "directory", "path": one, "oid": "0" * 40, "size": 0} for one in sorted(folders)]
            self._json([*listed, *(self._entry(one, files[one]) for one in wanted if one in files)])

    def preupload(self, body: bytes, query: Any, name: str, revision: str) -> None:
        if self._may_write() and self._commit_of(name, revision):
            modes = [
                {
                    "path": one["path"],
                    "uploadMode": "lfs" if one["size"] > self.hub.lfs_size else "regular",
                    "shouldIgnore": False,
                    "oid": None,
                }
                for one in json.loads(body)["files"]
            ]
            self._json({"files": modes})

    def batch(self, body: bytes, query: Any, name: str) -> None:
        if not self._may_write():
            return
        objects = []
        for one in json.loads(body)["objects"]:
            href = {"href": f"{self.hub.address}/lfs/{one['oid']}"}
            there = one["oid"] in self.hub.lfs
            objects.append({**one, **({} if there else {"actions": {"upload": href}})})
        self._json({"transfer": "basic", "objects": objects}, headers={"Content-Type": "application/vnd.git-lfs+json"})

    def put(self, body: bytes, query: Any, digest: str) -> None:
        assert hashlib.sha256(body).hexdigest() == digest
        self.hub.lfs[digest] = body
        self._send(200, b"", {})

    def commit(self, body: bytes, query: Any, name: str, branch: str) -> None:
        if not (self._may_write() and (found := self._commit_of(name, branch))):
            return
        repo, parent = found
        files, message = dict(repo.commits[parent][0]), ""
        for line in map(json.loads, body.splitlines()):
            key, value = line["key"], line["value"]
            if key == "header":
                message = value["summary"]
            elif key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = self.hub.lfs[value["oid"]]
            else:
                assert key == "deletedFile"
                del files[value["path"]]
        digest = repo.commit(branch, files, message)
        self._json({"commitUrl": f"{self.hub.address}/datasets/{name}/commit/{digest}", "commitOid": digest})

    def file(self, body: bytes, query: Any, name: str, revision: str, path: str) -> None:
        if not (found := self._commit_of(name, revision)):
            return
        files = found[0].commits[found[1]][0]
        if path not in files:
            self._error(404, "EntryNotFound", f"{path} does not exist")
            return
        content = files[path]
        large = len(content) > self.hub.lfs_size
        etag = hashlib.sha256(content).hexdigest() if large else sha1(content)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": found[1], "Accept-Ranges": "bytes"}
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end = int(match[1]), int(match[2] or len(content) - 1)
            part = content[start : end + 1]
            headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
            self._send(206, part, headers)
            return
        self._send(200, content, headers)


_NAME = r"/api/datasets/([^/]+/[^/]+)"
_ROUTES: list[tuple[str, str, Any]] = [
    ("POST", "/api/repos/create", _Handler.create),
    ("POST", "/api/validate-yaml", _Handler.validate),
    ("GET", _NAME, _Handler.info),
    ("GET", rf"{_NAME}/revision/([^/]+)", _Handler.info),
    ("POST", rf"{_NAME}/branch/([^/]+)", _Handler.branch),
    ("GET", rf"{_NAME}/tree/([^/]+)", _Handler.tree),
    ("GET", rf"{_NAME}/tree/([^/]+)/(.+)", _Handler.tree),
    ("POST", rf"{_NAME}/paths-info/([^/]+)", _Handler.paths),
    ("POST", rf"{_NAME}/preupload/([^/]+)", _Handler.preupload),
    ("POST", rf"{_NAME}/commit/([^/]+)", _Handler.commit),
    ("POST", r"/datasets/([^/]+/[^/]+)\.git/info/lfs/objects/batch", _Handler.batch),
    ("PUT", r"/lfs/([0-9a-f]{64})", _Handler.put),
    ("GET HEAD", r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", _Handler.file),
]


@contextmanager
def running() -> Iterator[Hub]:
    """Run the server for the time of the block."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
