"""The secrets with which a model is asked: read from the environment, or printed by a command and renewed in time."""

from __future__ import annotations

import asyncio
import math
import time
from base64 import b64encode
from collections import deque
from dataclasses import dataclass

from fdarx_core.llm.access import Proxy, expand_headers, run_key_command
from fdarx_core.llm.failures import EXPIRED_KEY, KEY_COMMAND, EndpointStopped, Failure
from fdarx_core.llm.model_config import ModelConfig

HIDDEN = "[key]"
"""Stands for a secret in texts."""
_MIN_CHARACTERS = 8
"""Shorter values of headers and passwords are not hidden in replies, in which they may be ordinary words."""
_KEYS_REMEMBERED = 8


@dataclass(slots=True, eq=False)
class IssuedKey:
    """A key, or "" where the server needs none.

    `renewed`: it was requested because the server refused the one before. `accepted`: the server has taken it.
    """

    value: str
    expires_at: float
    renewed: bool = False
    accepted: bool = False
    refused: bool = False


class Credentials:
    """The key, header values and proxy login of one model, read at first use. It belongs to one event loop.

    All requests share one key. While a command fetches the next one, requests wait for it together. A pickled object
    holds no secret.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.headers: dict[str, str] = {}
        self.proxy: Proxy | None = None  # without its login
        self.proxy_authorization = ""
        self.secrets: list[str] = []  # the longest first; changed in place, because redactors hold this list
        self._config = config
        self._key: IssuedKey | None = None
        self._lasting: set[str] = set()
        self._issued: deque[str] = deque(maxlen=_KEYS_REMEMBERED)
        self._refreshing: asyncio.Task[None] | None = None

    def __reduce__(self) -> tuple[type[Credentials], tuple[ModelConfig]]:
        return Credentials, (self._config,)

    @property
    def valid(self) -> bool:
        """Whether there is a key that has neither expired nor been refused."""
        key = self._key
        return key is not None and not key.refused and time.monotonic() < key.expires_at

    @property
    def key(self) -> IssuedKey:
        """The latest key. Call `refresh` first."""
        if self._key is None:
            raise RuntimeError("no key was requested")
        return self._key

    async def refresh(self) -> None:
        """Return once there is a new key; all who wait share one run of the command.

        Raises EndpointStopped where a variable is missing, and Failure transient_key_command where the command fails,
        which is fatal if it never gave a key.
        """
        if self._config.key_command is None:
            try:
                self._read(IssuedKey(self._config.key(), math.inf))
            except ValueError as error:
                raise self._stopped(error) from None
            return
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._run_command(self._config.key_command))
            self._refreshing.add_done_callback(self._refreshed)
        await asyncio.shield(self._refreshing)

    def after_401(self, key: IssuedKey, failure: Failure) -> Failure:
        """Return what a 401 means. A key from a command may have expired, so another one is tried, but only once:

        one that was requested for this reason, and that the server never took, makes the failure final.
        """
        if self._config.key_command is None or (key is self._key and key.renewed and not key.accepted):
            return failure
        key.refused = True
        return Failure(EXPIRED_KEY, failure.detail, status=failure.status)

    def redacted(self, text: str) -> str:
        """Return a text without the secrets, which a server may have repeated."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def redacted_bytes(self, data: bytes) -> bytes:
        for secret in self.secrets:
            data = data.replace(secret.encode(), HIDDEN.encode())
        return data

    async def close(self) -> None:
        """Stop waiting for a command."""
        if self._refreshing:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    async def _run_command(self, command: str) -> None:
        started, before = time.monotonic(), self._key
        try:
            value = await asyncio.to_thread(run_key_command, command)
        except ValueError as error:
            detail = self.redacted(str(error)).removeprefix("key_command: ")
            raise Failure(KEY_COMMAND, detail, fatal=before is None) from None
        renewed = before is not None and before.refused
        try:
            self._read(IssuedKey(value, started + self._config.key_ttl_s, renewed))
        except ValueError as error:
            raise self._stopped(error) from None

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()  # retrieved, also where all who waited have left

    def _read(self, key: IssuedKey) -> None:
        """Take a key and, with the first one, all that the environment holds. Raises ValueError."""
        config = self._config
        if self._key is None:
            self.headers, hidden = expand_headers(config.headers)
            proxy = config.find_proxy()
            self.proxy = proxy._replace(login="") if proxy else None
            if proxy and proxy.login:
                login = b64encode(proxy.login.encode()).decode()
                self.proxy_authorization = f"Basic {login}"
                hidden += [login, proxy.login, proxy.login.partition(":")[2]]
            self._lasting = {text for text in hidden if len(text) >= _MIN_CHARACTERS}
        self._key = key
        if key.value:
            self._issued.append(key.value)
        self.secrets[:] = sorted({*self._lasting, *self._issued}, key=len, reverse=True)

    def _stopped(self, error: ValueError) -> EndpointStopped:
        return EndpointStopped(f"model {self._config.name}: {error}")
