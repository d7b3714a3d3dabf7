"""A browser for the page's tests: the machine's own, or Debian's package where that can be installed.

python -m tests.serving.browser
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
_INSTALL = ("apt-get update", "apt-get install --yes --no-install-recommends chromium")


def browser() -> str | None:
    """The path of a Chromium: that of BROWSER_PATH, or one on the PATH."""
    return os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, NAMES)), None)


def install() -> bool:
    """Install Debian's Chromium, where this is Debian and we may."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    return all(
        subprocess.run(line.split(), env=quiet, stdout=subprocess.DEVNULL, check=False).returncode == 0
        for line in _INSTALL
    )


if __name__ == "__main__":
    if not browser() and not (install() and browser()):
        print("no Chromium here: the tests of the page will skip; install one, or set BROWSER_PATH", file=sys.stderr)
