"""What it takes to reach a model's server: environment variables, proxies, certificates, and commands that print keys.

Each function raises ValueError with one line that names the field of the models file, and never a secret.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import ssl
import subprocess
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

VARIABLE_PATTERN = r"^[A-Z][A-Z0-9_]*$"
"""Names of environment variables that hold secrets."""

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_NAME = re.compile(r"authorization|cookie|password|secret|token|key\b|_key|-key", re.IGNORECASE)
_COMMAND_S = 60.0
_QUOTED_CHARACTERS = 200


class Proxy(NamedTuple):
    """A forward proxy. `login` is USER:PASSWORD or ""; `field` is what named it: `proxy`, or a variable."""

    address: str
    login: str
    field: str


def read_variable(name: str, field: str, purpose: str) -> str:
    """Return the value of an environment variable that `field` names; `purpose` completes "set it to"."""
    value = os.environ.get(name, "")
    if not value:
        raise ValueError(f"{field}: environment variable {name} is not set; set it to {purpose}")
    return value


def check_key(key: str, what: str) -> str:
    """Return a key. Raises ValueError, which begins with `what`, for one that cannot be sent in a header."""
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ValueError(f"{what} holds white space or is not plain ASCII; correct it")
    return key


def names_secret(name: str) -> bool:
    """Return whether a header or option of this name usually holds a secret."""
    return bool(_SECRET_NAME.search(name))


def expand_headers(headers: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return headers with each `${NAME}` replaced by the environment variable, and what was inserted."""
    inserted: list[str] = []

    def insert(where: str, reference: re.Match[str]) -> str:
        text = read_variable(reference[1], where, f"what {where} needs")
        if not text.isprintable():
            raise ValueError(f"{where}: environment variable {reference[1]} holds line breaks; correct it")
        inserted.append(text)
        return text

    return {name: REFERENCE.sub(partial(insert, f"headers.{name}"), value) for name, value in headers.items()}, inserted


def find_proxy(base_url: str, proxy: str | None, login_env: str | None) -> Proxy | None:
    """Return the proxy for a server: that of the model or, where it has none, of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY.

    NO_PROXY holds for the latter alone.
    """
    if proxy:
        login = read_variable(login_env, "proxy_login_env", "USER:PASSWORD of the proxy") if login_env else ""
        return Proxy(proxy, login, "proxy")
    server = urlsplit(base_url)
    if proxy_bypass(server.netloc):
        return None
    addresses = getproxies_environment()
    scheme = next((name for name in (server.scheme, "all") if addresses.get(name)), None)
    if scheme is None:
        return None
    address, field = addresses[scheme], f"{scheme.upper()}_PROXY"
    parts = urlsplit(address if "://" in address else f"http://{address}")
    try:
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        known = False
    if not known or parts.path.strip("/"):  # the error does not quote the address, which may hold a password
        raise ValueError(
            f"the environment variable {field} is no address of an HTTP proxy; write http://USER:PASSWORD@HOST:PORT, "
            "with special characters percent-encoded, or list the server in NO_PROXY"
        )
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return Proxy(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", login, field)


def proxy_address(address: str) -> str:
    """Return the address of a proxy, which may hold no user and no path."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write it as http://HOST:PORT; other kinds of proxies, such as SOCKS, are not supported")
    if "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("it may hold no user, password or path; the login goes into the variable of proxy_login_env")
    return address.rstrip("/")


def tls_context(ca_file: str) -> ssl.SSLContext:
    """Return a context that trusts the authorities of the system, and those of a PEM file."""
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError:
        raise ValueError(f"ca_file: {ca_file} holds no certificates; give a PEM file of the authority") from None
    except OSError as error:
        raise ValueError(f"ca_file: {ca_file}: {error.strerror}; give a PEM file of the authority") from None
    return context


def split_command(command: str) -> list[str]:
    """Return the words of a key command, whose program exists on this machine."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"key_command: {error}; quote it as for a shell") from None
    if not words:
        raise ValueError("key_command: it is empty; give a command that prints a key")
    if not shutil.which(words[0]):
        raise ValueError(f"key_command: there is no program {words[0]} on this machine; install it or give its path")
    return words


def run_key_command(command: str) -> str:
    """Return the key that a command prints. It is run without a shell, for at most a minute."""
    words = split_command(command)
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_COMMAND_S
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"key_command: {words[0]} did not end within {_COMMAND_S:g} s") from None
    except OSError as error:
        raise ValueError(f"key_command: {words[0]} cannot be run: {error.strerror}") from None
    key = done.stdout.strip()
    if done.returncode:
        errors = done.stderr.replace(key, "[key]") if key else done.stderr
        lines = [line.strip() for line in errors.splitlines() if line.strip()]
        last = f": {lines[-1][:_QUOTED_CHARACTERS]}" if lines else ""
        raise ValueError(f"key_command: {words[0]} failed with exit status {done.returncode}{last}")
    if not key:
        raise ValueError(f"key_command: {words[0]} printed no key")
    return check_key(key, f"key_command: {words[0]} printed more than a key: its output")
