"""One-line messages for Ray Serve applications that fail to start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import dropwhile
from typing import Any

_LONG = 600

_FRAME = re.compile(r'^ +File "')
_LOGGED = re.compile(r"ERROR [\d-]+ [\d:]+ \[[^\]]+\] ((?:\w+\.)*\w*(?:Error|Exception): .+)")


def failed_deployment(deployments: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the deployment that can't start, and the error of its replica or Serve's message.

    Both are empty where no deployment fails. `deployments` are those of an application in `serve.status()`, each with a
    status and a message.
    """
    failing = [(name, deployment) for name, deployment in deployments.items() if deployment.message.strip()]
    if not failing:
        return "", ""
    name, worst = min(failing, key=lambda item: item[1].status != "DEPLOY_FAILED")
    return name, last_error(worst.message)


def last_error(message: str) -> str:
    """Return the error at the end of a traceback, or the last line of another message, on one line, truncated."""
    lines = [line for line in message.splitlines() if line.strip()]
    frames = [position for position, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return lines[-1].strip()[:_LONG]
    code = dropwhile(lambda line: line.startswith(" "), lines[frames[-1] :])
    return " ".join(line.strip() for line in code)[:_LONG]


def first_logged_error(log: str) -> str:
    """Return the first error in a log of vLLM's processes, "" where there is none; later errors are consequences."""
    found = _LOGGED.search(log)
    return found[1].strip()[:_LONG] if found else ""
