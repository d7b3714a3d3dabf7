"""An engine whose layers are divided between two processes, as between the GPUs of a replica, says the same as one."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import Tiny
from tests.engine.server import MODEL, running

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(1800)]

QUESTION = "What is the recommended starting dosage of VELTRAPAN in adults?"
TOKENS = 24


def said(address: str) -> list[dict[str, Any]]:
    """The tokens of a reply at temperature 0, each with its log probability."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": TOKENS,
        "logprobs": True,
    }
    request = urllib.request.Request(
        f"{address}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        found: list[dict[str, Any]] = json.load(reply)["choices"][0]["logprobs"]["content"]
    return found


def test_two_processes_say_what_one_says(engine: str, tiny: Tiny, tmp_path: Path) -> None:
    """They are started by vLLM itself: its executor on Ray, which Ray Serve uses for GPUs, refuses CPUs."""
    more = ["--tensor-parallel-size", "2", "--distributed-executor-backend", "mp"]
    with running(tiny.python, tiny.model, tmp_path / "engine.log", more=more) as address:
        together = said(address)
    alone = said(engine)
    assert [one["token"] for one in together] == [one["token"] for one in alone]
    assert [one["logprob"] for one in together] == pytest.approx([one["logprob"] for one in alone], abs=1e-3)
