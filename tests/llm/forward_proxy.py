"""A forward proxy on this machine: tunnels (CONNECT) and requests with a whole address, after a Basic login."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from urllib.parse import urlsplit

from tests.in_thread import InThread

_HOP = (b"proxy-authorization:", b"proxy-connection:", b"connection:")


class ForwardProxy(InThread):
    """`lines` are the first lines of the requests that it forwarded; `refused` counts those without the right login.

    `tunnel_heads` are the heads of the requests for tunnels, whoever sent them.

    `status`: every request gets it, whatever the login.
    """

    def __init__(self, login: str = "", status: int = 0) -> None:
        self.lines: list[str] = []
        self.tunnel_heads: list[str] = []
        self.refused = 0
        self.port = 0
        self._status = status
        self._expected = b"Basic " + b64encode(login.encode()) if login else b""
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> ForwardProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def cleanup(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._forward(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left
        finally:
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *headers = head.split(b"\r\n")[:-2]
        if line.startswith(b"CONNECT"):
            self.tunnel_heads.append(head.decode())
        given = next((one.partition(b":")[2].strip() for one in headers if one.lower().startswith(_HOP[0])), b"")
        if status := self._status or (407 if given != self._expected else 0):
            self.refused += 1
            page = b"refused, you sent " + given
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%b" % (status, len(page), page))
            await writer.drain()
            return
        self.lines.append(line.decode())
        method, target, _ = line.split(b" ")
        place = urlsplit(f"//{target.decode()}" if method == b"CONNECT" else target.decode())
        to_server = await asyncio.open_connection(place.hostname, place.port)
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            kept = [one for one in headers if not one.lower().startswith(_HOP)]
            path = f"{place.path}?{place.query}".rstrip("?").encode()
            written = [b"%b %b HTTP/1.1" % (method, path), *kept, b"Connection: close", b"", b""]
            to_server[1].write(b"\r\n".join(written))
        await _relay((reader, writer), to_server)


async def _relay(
    one: tuple[asyncio.StreamReader, asyncio.StreamWriter], other: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Carry bytes both ways until either side has ended."""
    ways = [asyncio.ensure_future(_carry(one[0], other[1])), asyncio.ensure_future(_carry(other[0], one[1]))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)
    other[1].close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while portion := await reader.read(1 << 16):
        writer.write(portion)
        await writer.drain()
