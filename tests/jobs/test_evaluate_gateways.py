"""`fdarx evaluate` with models behind a proxy and a gateway: complete, and without a secret in anything it writes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fdarx_core.records import Prediction
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import JUDGEMENT, command, models_file, respond, rows_of
from tests.llm.certificates import server_context
from tests.llm.forward_proxy import ForwardProxy
from tests.llm.loopback_server import Call, Fault, LoopbackServer

TEAM, TOKEN, PASSWORD = "team-planted-77", "token-planted-31", "pass/word-planted"
LOGIN, LOGIN_SENT = f"user:{PASSWORD}", "dXNlcjpwYXNzL3dvcmQtcGxhbnRlZA=="
SECRETS = (TEAM, TOKEN, PASSWORD, "pass%2Fword-planted", LOGIN_SENT)
ENVIRONMENT = {"PLANTED_TEAM": TEAM, "PLANTED_TOKEN": TOKEN, "PLANTED_LOGIN": LOGIN}


def gateway(call: Call) -> Fault | None:
    """Asks for another token first, and says the headers back in answers, reasons of grades and errors."""
    sent = {name.lower(): value for name, value in call.headers.items()}
    said = f"{sent} {sent.get('authorization', '')[:16]}"
    if sent["x-team"] != TEAM or sent["authorization"] != f"Bearer {TOKEN}" or call.number == 1:
        return Fault(status=401, error={"message": said})
    if call.number % 7 == 0 and call.attempt == 1:
        return Fault(status=400 if call.number % 2 else 500, error={"message": said})
    if "response_format" in call.body:
        return Fault(text=json.dumps({**json.loads(JUDGEMENT), "reason": said}))
    return Fault(text=f"{respond(call.body)} {said}")


def evaluated(folder: Path, benchmark: Path, model: Mapping[str, Any], **environment: str) -> tuple[str, Path]:
    """Evaluate in a process of its own; return what it printed, and its run."""
    both = ({"name": name, "headers": {"X-Team": "${PLANTED_TEAM}"}, **model} for name in ("answerer", "grader"))
    models = ("--models", models_file(folder, "", *both), "--judge", "grader")
    small = ("--settings", "closed_book,oracle", "--sample", 2, "--verbose", "--executor", "local")
    known = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        command(benchmark, folder / "run", *models, *small),
        cwd=REPOSITORY,
        env={**known, **ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr, folder / "run"


def check_run(printed: str, run: Path) -> None:
    assert not [secret for secret in SECRETS if secret in printed]
    assert "never awaited" not in printed and "Unclosed" not in printed
    files = [file for file in run.rglob("*") if file.is_file()]
    assert any(file.name == "run.json" for file in files) and any(file.suffix == ".html" for file in files)
    for file in files:
        content = file.read_bytes()
        assert not [secret for secret in SECRETS if secret.encode() in content], file
    answers = [row.text for row in rows_of(run, "predictions/answerer", Prediction)]
    assert sum("Bearer [key]" in text for text in answers) >= 6  # so it was said back, and hidden


def test_no_secret_of_a_gateway_behind_a_tunnel_is_written(example_build: Path, tmp_path: Path) -> None:
    context, ca_file = server_context(tmp_path)
    with LoopbackServer(ssl_context=context) as server, ForwardProxy(LOGIN) as proxy:
        server.faults = gateway
        access = {"key_command": "printenv PLANTED_TOKEN", "ca_file": str(ca_file)}
        access |= {"proxy": proxy.url, "proxy_login_env": "PLANTED_LOGIN"}
        printed, run = evaluated(tmp_path, example_build, {**access, "base_url": server.openai_url})
        assert proxy.lines and all(line.startswith("CONNECT ") for line in proxy.lines)
    check_run(printed, run)
