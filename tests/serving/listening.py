"""Addresses on which a process and its descendants listen."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

from tests.serving.service_process import descendants

_LISTEN = "0A"


def open_ports(root: int) -> dict[int, str]:
    """Return the ports that other machines can reach, with the title of the process that listens."""
    titles = dict(_sockets([root, *descendants(root)]))
    found: dict[int, str] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == _LISTEN and fields[9] in titles and not _address(address).is_loopback:
                found[int(port, 16)] = titles[fields[9]]
    return found


def _sockets(pids: list[int]) -> Iterator[tuple[str, str]]:
    """The sockets of processes by inode, with the titles of the processes."""
    for pid in pids:
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue  # it has ended
        yield from ((link[8:-1], title) for link in links if link.startswith("socket:["))


def _address(words: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address that the kernel writes as words of 32 bits, each in the byte order of the machine."""
    raw = b"".join(bytes.fromhex(words[place : place + 8])[::-1] for place in range(0, len(words), 8))
    found = ipaddress.ip_address(raw)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
