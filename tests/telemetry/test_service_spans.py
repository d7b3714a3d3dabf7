"""Spans of the service: one for each HTTP request, and below it search, answer and the requests to models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.http.backend import Unavailable
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer
from tests.serving.local_service import CountingMetrics, LocalBackend, Service, by_server, service
from tests.serving.service_process import running as serving
from tests.telemetry.otlp_receiver import OtlpReceiver

QUESTION = "What is the recommended dose of velocimab?"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def model() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=lambda body: "It is 10 mg twice a day [1].") as server:
        yield server


@pytest.fixture
def served(model: LoopbackServer, collector: OtlpReceiver) -> Iterator[Service]:
    with service(LocalBackend(model=by_server(model.openai_url)), log_questions=True) as started:
        yield started


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_has_spans_of_search_answer_and_model(served: Service, collector: OtlpReceiver, stream: bool) -> None:
    served.post("/v1/answers", {"question": QUESTION, "stream": stream}, headers={"traceparent": PARENT})
    request = collector.await_one("POST /v1/answers")
    assert request.kind == "server" and request.parent == PARENT.split("-")[2] and not request.failed
    assert request.attributes["http.request.method"] == "POST" and request.attributes["http.route"] == "/v1/answers"
    assert request.attributes["http.response.status_code"] == 200
    assert {tuple(collector.above(chat)) for chat in collector.named("chat m")} >= {("answer", "POST /v1/answers")}
    [search] = collector.named("search")
    assert search.parent == request.id
    assert {one.trace_id for one in collector.spans} == {PARENT.split("-")[1]}
    assert not [one.raw for one in collector.spans if "velocimab" in one.raw or "10 mg" in one.raw]


def test_scores_of_a_model_and_searches_have_spans(served: Service, collector: OtlpReceiver) -> None:
    reply = served.post("/v1/search", {"question": QUESTION, "postprocess": "score", "candidates": 3, "k": 2})
    assert reply.status == 200
    request = collector.await_one("POST /v1/search")
    assert request.parent == ""
    assert {one.name for one in collector.spans if one.parent == request.id} == {"search", "score"}
    assert {collector.above(one)[0] for one in collector.named("chat m")} == {"score"}


def test_a_request_that_fails_says_so(served: Service, collector: OtlpReceiver) -> None:
    served.world.search_fault = Unavailable("the index", "it is down")
    status = served.ask().status
    served.get("/v1/nothing")
    request, missing = collector.await_one("POST /v1/answers"), collector.await_one("GET unmatched")
    assert request.failed and request.attributes["http.response.status_code"] == status == 503
    assert request.attributes["error.type"]
    assert missing.attributes["http.response.status_code"] == 404 and not missing.failed


@pytest.mark.service
def test_replicas_on_ray_serve_have_one_trace(
    example_build: Path, model: LoopbackServer, collector: OtlpReceiver, tmp_path: Path
) -> None:
    models = tmp_path / "models.yaml"
    models.write_text(f"- {{name: tiny, model: tiny, base_url: {model.openai_url}}}\n")
    made = run_job("index", "--documents", example_build, "--out", tmp_path / "labels", "--words-only")
    assert made.returncode == 0, made.stderr
    options = ("--index", str(tmp_path / "labels"), "--models", str(models), "--answerer", "tiny")
    with serving(tmp_path, *options) as started:
        reply = Service(started.url, LocalBackend(), CountingMetrics()).ask("What is the starting dose of telvanto?")
        assert reply.status == 200
    [request] = collector.named("POST /v1/answers")
    assert {collector.above(one)[-1] for one in collector.named("chat tiny")} == {request.name}
    assert {collector.above(one)[0] for one in collector.named("chat tiny")} >= {"answer"}
    assert [one.parent for one in collector.named("search")] == [request.id]
