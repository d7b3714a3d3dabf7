"""Replaces tags of images by digests in cluster/kuberay/components/images, so that all pods run the same bytes.

    python cluster/pin_images.py                                  # asks each image's registry for the digest of its tag
    python cluster/pin_images.py fdarx-gpu=sha256:… redis=sha256:…   # takes these, and asks nobody

An image whose name has no registry in front needs its digest given. A registry is asked by the OCI distribution API,
with the user and password that `docker login` has stored in config.json (of DOCKER_CONFIG, or ~/.docker), if any.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

IMAGES = Path(__file__).parent / "kuberay" / "components" / "images" / "kustomization.yaml"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_TIMEOUT_S = 30
_PLAIN_HTTP = ("localhost", "127.0.0.1")


class PinError(ValueError):
    """A digest can't be had; the message names the image and the remedy."""


def pin(file: Path, given: Mapping[str, str]) -> list[str]:
    """Write digests into a Kustomize file; nothing is written unless each image has one.

    Args:
        file: a Kustomization or Component with `images`.
        given: digests by the image's `name` in the file; the others come from registries.

    Returns: a line for each image. Raises PinError.
    """
    text = file.read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    images: list[dict[str, str]] = content["images"]
    if unknown := sorted(set(given) - {image["name"] for image in images}):
        raise PinError(f"{file} has no image {unknown[0]}; it has {', '.join(image['name'] for image in images)}")
    for image in images:
        digest = given.get(image["name"]) or image.get("digest") or _ask(image)
        if not _DIGEST.fullmatch(digest):
            raise PinError(f"{image['name']}: {digest!r} is no digest; give sha256: and 64 hexadecimal digits")
        image.pop("newTag", None)
        image["digest"] = digest
    comment = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    file.write_text(comment + yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return [f"{image['name']}: {image['newName']}@{image['digest']}" for image in images]


def _ask(image: Mapping[str, str]) -> str:
    """Return the digest that the image's registry has for its tag."""
    host, _, path = image["newName"].partition("/")
    if not path or not re.search(r"[.:]|^localhost$", host):
        raise PinError(f"{image['name']}: {image['newName']} names no registry; give {image['name']}=sha256:…")
    scheme = "http" if host.split(":")[0] in _PLAIN_HTTP else "https"
    url = f"{scheme}://{host}/v2/{path}/manifests/{image['newTag']}"
    basic = _stored_login(host)
    try:
        return _digest(url, f"Basic {basic}" if basic else "")
    except urllib.error.HTTPError as error:
        challenge = error.headers.get("WWW-Authenticate", "")
        if error.code != 401 or not challenge.startswith("Bearer "):
            raise PinError(f"{image['name']}: {url}: {error.code} {error.reason}; push the tag, or log in") from None
    except OSError as error:
        raise PinError(
            f"{image['name']}: {url}: {getattr(error, 'reason', error)}; give {image['name']}=sha256:… instead"
        ) from None
    try:
        return _digest(url, f"Bearer {_token(challenge, basic)}")
    except OSError as error:
        raise PinError(f"{image['name']}: {url}: {error}; log in with `docker login {host}`") from None


def _digest(url: str, authorization: str) -> str:
    with _open(url, authorization, method="HEAD", Accept=", ".join(_MANIFESTS)) as reply:
        return str(reply.headers.get("Docker-Content-Digest", ""))


def _token(challenge: str, basic: str) -> str:
    """Return a token from the service that a registry's challenge names."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    query = urllib.parse.urlencode({name: fields[name] for name in ("service", "scope") if name in fields})
    with _open(f"{fields['realm']}?{query}", f"Basic {basic}" if basic else "") as reply:
        found = json.load(reply)
    return str(found.get("token") or found.get("access_token"))


def _open(url: str, authorization: str, method: str = "GET", **headers: str) -> Any:
    headers |= {"Authorization": authorization} if authorization else {}
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers, method=method), timeout=_TIMEOUT_S)


def _stored_login(host: str) -> str:
    """Return user and password as `docker login` stores them, in base64; "" where there is none."""
    file = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker")) / "config.json"
    if not file.is_file():
        return ""
    return str(json.loads(file.read_text(encoding="utf-8")).get("auths", {}).get(host, {}).get("auth", ""))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 and print one line where a digest is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "digests", nargs="*", metavar="NAME=DIGEST", help="digests of images, by their name in the file"
    )
    parser.add_argument("--file", type=Path, default=IMAGES, help="the Kustomize file")
    options = parser.parse_args(arguments)
    given = {name: digest for name, _, digest in (one.partition("=") for one in options.digests)}
    try:
        print("\n".join(pin(options.file, given)))
    except PinError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
