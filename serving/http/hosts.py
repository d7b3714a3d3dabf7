"""Checks of Host and Origin: which names a request may give to this server, and which pages may send requests to it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.http.backend import Record
from serving.http.responses import ApiError
from serving.settings import ANY_HOST, ServiceSettings

_WRONG_HOST = (
    "This service does not answer to the host name {!r}. Use localhost or its IP address, or ask its operator to add "
    "the name to allowed_hosts (`fdarx serve --allowed-hosts NAME`)."
)
_WRONG_ORIGIN = (
    "Pages of {!r} may not use this service. Open the page of the service itself, or ask its operator to add the host "
    "name to allowed_hosts (`fdarx serve --allowed-hosts NAME`)."
)
_DEFAULT_PORTS = (None, 80, 443)


class HostMiddleware:
    """Refuses requests whose Host is not a name of this server, and those of other servers' pages.

    A page of any server can make a browser connect to this one, by a name that it resolves to this server's address
    (DNS rebinding); Host then has that name. IP addresses and localhost can't be names of this kind.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, record: Record) -> None:
        self._app, self._record = app, record
        self._names = frozenset(name.lower().rstrip(".") for name in settings.allowed_hosts)
        self._any = ANY_HOST in self._names or (settings.keys_file is not None and not self._names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._check(Headers(scope=scope))
        await self._app(scope, receive, send)

    def _check(self, headers: Headers) -> None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        host = _split(f"//{hosts[0]}") if len(hosts) == 1 else None
        if not self._any and (host is None or not _is_local(host[0], self._names)):
            self._record("fdarx_rejected", why="host")
            raise ApiError(421, _WRONG_HOST.format(" ".join(hosts)[:100]), code="wrong_host")
        for given in origins:
            origin = _split(given)
            if origin is None or not (origin == host or origin[0] in self._names):
                self._record("fdarx_rejected", why="origin")
                raise ApiError(403, _WRONG_ORIGIN.format(given[:100]), code="wrong_origin")


def _split(url: str) -> tuple[str, int | None] | None:
    """Return the host and port of a URL, None for the port where it is a default one; None where there is no host."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.hostname and "@" not in parts.netloc:
            return parts.hostname.rstrip("."), None if parts.port in _DEFAULT_PORTS else parts.port
    return None


def _is_local(host: str, names: Collection[str]) -> bool:
    if host == "localhost" or host in names:
        return True
    with suppress(ValueError):
        address = ip_address(host)
        return not (isinstance(address, IPv6Address) and address.scope_id)
    return False
