"""A real S3 server for tests: OpenStack Swift with its s3api, on loopback, in an environment of its own."""

from __future__ import annotations

import fcntl
import getpass
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "swift"
REQUIREMENTS = ["swift==2.38.3", "setuptools<81"]
ACCESS_KEY, SECRET_KEY, REGION = "test:tester", "testing", "us-east-1"
PAGE = 50
"""Objects a listing gives at once: Amazon's 1,000 would need tests to write as many."""

FILTERS = "catch_errors gatekeeper listing_formats bulk s3api tempauth copy slo dlo versioned_writes symlink"

_MAKE_RINGS = """
import sys
from swift.common.ring import RingBuilder
for word in sys.argv[2:]:
    kind, port = word.split("=")
    if kind != "proxy":
        ring = RingBuilder(4, 1, 1)
        ring.add_dev({"weight": 1, "region": 1, "zone": 1, "ip": "127.0.0.1", "port": int(port), "device": "d0"})
        ring.rebalance()
        ring.get_ring().save(f"{sys.argv[1]}/{kind}.ring.gz")
"""
"""Nine calls of swift-ring-builder would do the same, and each imports Swift."""


class Unavailable(Exception):
    """Swift can't be installed or run here; the message says why."""


def installed() -> Path:
    """The programs of Swift's environment, made on the first call (about 80 MB and 15 s, from the package index)."""
    programs = CACHE / "env" / "bin"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (CACHE / "ready").exists():
            _run([sys.executable, "-m", "venv", "--clear", str(CACHE / "env")])
            _run([str(programs / "python"), "-m", "pip", "install", "-q", *REQUIREMENTS])
            (CACHE / "ready").touch()
    return programs


@dataclass(slots=True)
class Swift:
    """The server, its four processes on ports and data that stay the same however often it is killed."""

    root: Path
    programs: Path
    ports: dict[str, int]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.ports['proxy']}"

    def start(self) -> None:
        """Returns once it answers."""
        self.processes = [_start(self.root, self.programs, kind) for kind in self.ports]
        for port in self.ports.values():
            _await(port, self.processes)

    def kill(self) -> None:
        """SIGKILL, to each process: none leads the others."""
        for process in self.processes:
            process.kill()
        self._ended()

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
        self._ended()

    def _ended(self) -> None:
        for process in self.processes:
            process.wait(20)


@contextmanager
def running(root: Path) -> Iterator[Swift]:
    """The server, which ends with the block."""
    programs = installed()
    _refuse_no_attributes(root)
    ports = dict(zip(("account", "container", "object", "proxy"), _free_ports(4), strict=True))
    (root / "data" / "d0").mkdir(parents=True)
    _configure(root, ports, programs)
    server = Swift(root, programs, ports)
    try:
        server.start()
        yield server
    finally:
        server.end()


def settings(server: Swift) -> dict[str, str]:
    """The environment in which a user's process finds it."""
    return {
        "AWS_ENDPOINT_URL": server.address,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": REGION,
    }


def _configure(root: Path, ports: dict[str, int], programs: Path) -> None:
    (root / "swift.conf").write_text("[swift-hash]\nswift_hash_path_prefix = a\nswift_hash_path_suffix = b\n")
    for kind, port in ports.items():
        (root / f"{kind}.conf").write_text(_proxy(root, port) if kind == "proxy" else _storage(root, kind, port))
    _run([str(programs / "python"), "-c", _MAKE_RINGS, str(root), *(f"{kind}={port}" for kind, port in ports.items())])


def _common(root: Path, port: int) -> str:
    return (
        f"[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\nworkers = 0\nuser = {getpass.getuser()}\n"
        f"swift_dir = {root}\ndevices = {root / 'data'}\nmount_check = false\nfallocate_reserve = 0\n"
    )


def _storage(root: Path, kind: str, port: int) -> str:
    server = f"[pipeline:main]\npipeline = {kind}-server\n[app:{kind}-server]\nuse = egg:swift#{kind}\n"
    return _common(root, port) + server


def _proxy(root: Path, port: int) -> str:
    app = "[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n"
    options = {
        "tempauth": f"user_test_tester = {SECRET_KEY} .admin\n",
        "s3api": f"location = {REGION}\nmax_bucket_listing = {PAGE}\n",
    }
    filters = "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n{options.get(name, '')}" for name in FILTERS.split())
    return f"{_common(root, port)}[pipeline:main]\npipeline = {FILTERS} proxy-server\n{app}{filters}"


def _start(root: Path, programs: Path, kind: str) -> subprocess.Popen[bytes]:
    with (root / f"{kind}.log").open("ab") as log:
        command = [str(programs / f"swift-{kind}-server"), str(root / f"{kind}.conf"), "-v"]
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(server.getsockname()[1]) for server in held]
    for server in held:
        server.close()
    return ports


def _await(port: int, servers: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any(server.poll() is not None for server in servers):
            raise Unavailable("a Swift server ended while starting; its log is beside its configuration")
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise Unavailable("Swift did not start within 60 s")


def _refuse_no_attributes(root: Path) -> None:
    probe = root / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.test", b"1")
    except OSError as error:
        raise Unavailable(f"{root} has no extended attributes, which Swift needs") from error


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:4])} failed: {done.stderr.strip()[-300:]}")
