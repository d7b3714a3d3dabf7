"""The service on Ray Serve over the example labels, with a key, answered by rules: what `make serve` brings up."""

from __future__ import annotations

import asyncio
import re
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc  # type: ignore[import-untyped]
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from tests.jobs.in_process import run_job
from tests.serving.listening import open_ports
from tests.serving.service_process import Service, free_port, post, running

pytestmark = pytest.mark.service
QUESTION = "What is the effect of TELVANTO on digoxin?"


@pytest.fixture(scope="module")
def labels(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the example labels."""
    out = tmp_path_factory.mktemp("indexes") / "labels"
    made = run_job("index", "--documents", example_build, "--out", out, "--words-only")
    assert made.returncode == 0, made.stderr
    return out


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.txt"


@pytest.fixture(scope="module")
def key(key_file: Path) -> str:
    """Made as a user makes it."""
    made = run_job("serve", "--keys-file", key_file, "--new-key", "reviewer")
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def service(
    labels: Path, key: str, key_file: Path, metrics_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    options = ("--index", str(labels), "--keys-file", str(key_file), "--metrics-port", str(metrics_port))
    with running(tmp_path_factory.mktemp("service"), *options) as started:
        yield started


def ask(service: Service, key: str | None, **body: Any) -> tuple[int, dict[str, Any]]:
    async def run() -> tuple[int, dict[str, Any]]:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        async with aiohttp.ClientSession(service.url) as session:
            return await post(session, "/v1/answers", body, **headers)

    return asyncio.run(run())


def test_answer_cites_the_label(service: Service, key: str) -> None:
    status, reply = ask(service, key, question=QUESTION)
    assert (status, reply["degraded"], reply["refused"]) == (200, None, False)
    cited = [passage for passage in reply["passages"] if passage["cited"]]
    assert {passage["drug"] for passage in cited} >= {"TELVANTO"}
    assert [passage["n"] for passage in cited] == sorted({one["n"] for one in reply["citations"]})
    assert "digoxin" in reply["answer"]
    assert reply["index"]["corpus"] == "labels"
    assert reply["model"] == "baseline"


@pytest.mark.parametrize("strategy", ["question", "hypothetical_answer", "qa_rag", "hyde", "multiquery"])
@pytest.mark.parametrize("postprocess", ["none", "score"])
def test_all_ways_to_answer(service: Service, key: str, strategy: str, postprocess: str) -> None:
    filtered = {"filter": {"drug": "telvanto"}, "strategy": strategy, "postprocess": postprocess}
    status, reply = ask(service, key, question=QUESTION, k=3, **filtered)
    assert (status, reply.get("degraded")) == (200, None), reply
    assert {passage["drug"] for passage in reply["passages"]} == {"TELVANTO"}
    assert len(reply["passages"]) == 3


def test_what_is_not_there_is_not_offered(service: Service, key: str) -> None:
    """No reranker and no embedding model were given."""
    for option in ({"postprocess": "rerank"}, {"retriever": "cosine"}):
        status, reply = ask(service, key, question=QUESTION, **option)
        assert (status, reply["error"]["param"]) == (422, *option)


def test_chat_clients_get_the_same(service: Service, key: str) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{service.url}/v1", api_key=key)
    assert "labels/question" in {model.id for model in client.models.list()}
    asked = {"model": "labels/question", "messages": [{"role": "user", "content": QUESTION}]}
    pieces = [piece.choices[0].delta.content or "" for piece in client.chat.completions.create(stream=True, **asked)]
    whole = client.chat.completions.create(**asked).choices[0].message.content
    _, reply = ask(service, key, question=QUESTION)
    assert "".join(pieces).startswith(reply["answer"])
    assert whole.startswith(reply["answer"])


def test_agents_use_the_tools(service: Service, key: str) -> None:
    async def use() -> tuple[list[str], CallToolResult, CallToolResult]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http,
            Client(streamable_http_client(f"{service.url}/mcp", http_client=http)) as client,
        ):
            names = [tool.name for tool in (await client.list_tools()).tools]
            answer = await client.call_tool("answer_with_citations", {"question": QUESTION})
            label = {"label": "Telvanto", "section": "Drug interactions"}
            return names, answer, await client.call_tool("get_label_section", label)

    names, answer, section = asyncio.run(use())
    assert len(names) == 5
    assert answer.structured_content and "digoxin" in answer.structured_content["answer"]
    assert section.structured_content and section.structured_content["effective_date"]
    assert any("digoxin" in passage["text"] for passage in section.structured_content["passages"])
    asked = [one["tool"] for one in service.requests() if one["route"] == "/mcp" and "tool" in one]
    assert {*asked} == {"answer_with_citations", "get_label_section"}


def test_keys(service: Service, key: str) -> None:
    """None, a wrong one, the right one; and it stands in no log, Ray's own included."""
    assert [ask(service, given, question=QUESTION)[0] for given in (None, key[:-1] + "?", key)] == [401, 401, 200]
    while not {(401, None), (200, "reviewer")} <= {(line["status"], line.get("key")) for line in service.requests()}:
        time.sleep(0.05)  # a line is written once its reply is sent
    assert key not in service.log.read_text() + service.output
    for file in _ray_logs(service):
        assert key.encode() not in file.read_bytes(), file


def test_logs_hold_no_question(service: Service, key: str) -> None:
    ask(service, key, question="Is velocimab-unheard-of in any label?")
    assert "unheard" not in service.log.read_text() + service.output
    assert not [file for file in _ray_logs(service) if b"unheard" in file.read_bytes()]


def test_prometheus_metrics(service: Service, key: str, metrics_port: int) -> None:
    ask(service, key, question=QUESTION)
    ask(service, None, question=QUESTION)
    wanted = {
        "ray_fdarx_requests_total",
        "ray_fdarx_request_seconds_bucket",
        "ray_fdarx_phase_seconds_bucket",
        "ray_fdarx_in_flight",
        "ray_fdarx_rejected_total",
        "ray_fdarx_index_version",
        "ray_fdarx_index_chunks",
    }
    end = time.monotonic() + 150  # Ray gathers gauges seldom
    while missing := wanted - _metrics(metrics_port):
        assert time.monotonic() < end, missing
        time.sleep(1)
        ask(service, key, question=QUESTION)  # Ray forgets a gauge that is not set again


def test_the_start_says_what_it_waits_for_and_nothing_more(service: Service) -> None:
    """One line for each corpus, what it lacks, what is waited for, and where the service answers."""
    told = service.output.splitlines()
    waited = [line for line in told if line.startswith("waiting for ")]
    assert {line.split(",")[0] for line in waited} >= {"waiting for Ray", "waiting for Ray Serve"}
    lines = [line for line in told if line not in waited]
    assert re.fullmatch(r"labels: \d+ chunks of \d+ labels, version 0001-[0-9a-f]+", lines[0])
    assert lines[-2].startswith("starting: ") and service.url in lines[-1]
    assert len(lines) == 4, lines


def test_other_machines_reach_only_ports_that_ask_for_the_token(service: Service) -> None:
    """Ray 2.60 binds the ports between replicas to all interfaces, whatever is set."""
    ports = open_ports(service.process.pid)
    assert all("ray::ServeReplica" in title for title in ports.values()), ports
    for port in ports:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary("/ray.serve.ASGIService/HandleRequest")(b"", timeout=10)
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_ends_when_told(service: Service) -> None:
    """The last test of this service."""
    assert_ends(service, signal.SIGINT)


@pytest.mark.nightly
def test_ends_when_terminated(labels: Path, tmp_path: Path) -> None:
    with running(tmp_path, "--index", str(labels)) as service:
        assert_ends(service, signal.SIGTERM)


def assert_ends(service: Service, number: int) -> None:
    assert len(service.replicas("")) == 2
    assert service.stop(number) == 0
    assert service.output.splitlines()[-1] == "ending"
    assert "Traceback" not in service.output
    assert not service.replicas("")


def _metrics(port: int) -> set[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        return {line.split("{")[0] for line in reply.read().decode().splitlines()}


def _ray_logs(service: Service) -> list[Path]:
    """All that Ray and Serve wrote for this service: a replica keeps its standard error there."""
    [replica] = service.replicas("Ingress")
    session = Path(f"/proc/{replica}/fd/2").resolve().parent
    files = [file for file in session.rglob("*") if file.is_file()]
    assert files
    return files
