"""The web page, documentation, lookups and health; and the OpenAPI document against the server."""

from __future__ import annotations

import importlib
import os
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fdarx_core.specs.serve import ServiceSettings
from serving.http.backend import Overloaded, Unavailable
from tests.serving.local_service import HTML, LocalBackend, Service, service


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with service(longest_question=321) as running:
        yield running


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_nothing_from_elsewhere(served: Service, path: str) -> None:
    reply = served.get(path)
    text = reply.body.decode()
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/html")
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert reply.headers["Referrer-Policy"] == "no-referrer" and reply.headers["X-Content-Type-Options"] == "nosniff"
    loaded = re.findall(r'(?:src|href)="([^"#]+)"', text)
    assert loaded and not [one for one in loaded if ":" in one or one.startswith("//")]
    assert "<style" not in text and " style=" not in text and not re.search(r"<script[^>]*>[^<]", text)
    for one in loaded:
        assert served.get(f"/{one.removeprefix('./')}").status == 200, one


def test_a_browser_that_has_the_page_gets_no_second_copy(served: Service) -> None:
    first = served.get("/static/page.css")
    again = served.get("/static/page.css", headers={"If-None-Match": first.headers["ETag"]})
    assert first.headers["Cache-Control"] == "no-cache" and first.headers["Content-Type"].startswith("text/css")
    assert (again.status, again.body) == (304, b"") and again.headers["ETag"] == first.headers["ETag"]
    assert served.call("HEAD", "/").status == 200


def test_the_documentation_names_every_route_and_field(served: Service) -> None:
    document, page = served.get("/openapi.json").json(), served.get("/docs").body.decode()
    assert all(path in page for path in document["paths"])
    for schema in document["components"]["schemas"].values():
        assert all(field in page for field in schema.get("properties", {}))
    question = document["components"]["schemas"]["AnswerRequest"]["properties"]["question"]
    assert question["maxLength"] == 321 and "ValidationError" not in document["components"]["schemas"]


def test_corpora_say_all_that_a_request_may_name(served: Service) -> None:
    told = served.get("/v1/corpora").json()
    assert [(one["name"], one["kind"], one["chunks"], one["documents"]) for one in told["corpora"]] == [
        ("labels", "labels", 5, 2),
        ("guides", "documents", 3, 2),
    ]
    assert told["corpora"][0]["retrievers"] == ["bm25", "tfidf"] and told["postprocessors"] == ["none", "score"]
    assert [one["name"] for one in told["strategies"]][:3] == ["question", "hypothetical_answer", "qa_rag"]
    assert told["model"] == "baseline"
    defaults = told["defaults"]
    assert defaults.pop("longest_question") == 321
    named = {"corpus": "labels", "strategy": "question", "postprocess": "none", "retriever": "bm25"}
    assert defaults == named | {"k": 6, "candidates": 24}
    assert served.ask(**defaults).status == 200


def test_the_defaults_are_the_best_that_the_service_has() -> None:
    has_all = LocalBackend(hypothesis="tuned", postprocessors=("none", "rerank", "score"))
    for fields, strategy, postprocess in (
        ({}, "qa_rag", "rerank"),
        ({"strategy": "question", "postprocess": "none"}, "question", "none"),
    ):
        with service(has_all, **fields) as best:
            defaults = best.get("/v1/corpora").json()["defaults"]
        assert (defaults["strategy"], defaults["postprocess"]) == (strategy, postprocess)
    offered = ["bm25", "tfidf", "cosine", "hybrid"]
    assert ServiceSettings().default_retriever(offered) == "hybrid"
    assert ServiceSettings().default_retriever(offered[:2]) == "bm25"
    assert ServiceSettings(retriever="cosine").default_retriever(offered) == "cosine"
    assert ServiceSettings(retriever="cosine").default_retriever(offered[:2]) == "bm25"


def test_names_complete_what_is_typed(served: Service) -> None:
    assert served.get("/v1/names?prefix=vel").json() == {
        "names": [{"name": "Velocimab", "stands_for": "", "of_drug": True}]
    }
    assert served.get("/v1/names?prefix=ST&corpus=guides&limit=1").json() == {
        "names": [{"name": "Stability of tablets", "stands_for": "", "of_drug": False}]
    }
    assert served.get("/v1/names?prefix=zzz").json() == {"names": []}


def test_a_passage_comes_with_its_section(served: Service) -> None:
    told = served.get("/v1/passages/l1").json()
    assert told["chunk"]["id"] == "l1" and told["chunk"]["section"] == "DOSAGE"
    assert told["chunk"]["source"] == "label.xml"
    assert [(one["chunk_id"], one["here"]) for one in told["around"]] == [("l0", False), ("l1", True)]
    assert HTML in served.get("/v1/passages/l2").json()["chunk"]["text"]


def test_values_of_filters(served: Service) -> None:
    found = served.get("/v1/filters?labeler=ostre").json()
    assert found["section"][0] == {"value": "34068-7", "title": "Dosage and administration", "labels": 2}
    assert [(one["value"], one["title"]) for one in found["document_type"]] == [
        ("34390-5", "HUMAN OTC DRUG LABEL"),
        ("34391-3", "HUMAN PRESCRIPTION DRUG LABEL"),
    ]
    assert [one["value"] for one in found["labeler"]] == ["Maker of Ostrelin"]
    assert len(served.get("/v1/filters?limit=1").json()["labeler"]) == 1


def test_ready_is_told_apart_from_alive() -> None:
    with service(LocalBackend(missing={"model": "no replica"})) as served:
        ready = served.get("/readyz")
        assert (ready.status, ready.json()) == (503, {"ready": False, "missing": {"model": "no replica"}})
        assert served.get("/healthz").json() == {"status": "ok"}


_QUICKLY = settings(
    max_examples=40 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 10,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
FAULTS = [None, Unavailable("the index"), Overloaded("the index")]


def takes_anything(operation: Any) -> bool:
    """Whether a request to it can be wrong: any text names a model, which may not be there."""
    parameters = {one["name"] for one in operation.get("parameters", ())} - {"model"}
    return bool(parameters) or "requestBody" in operation


@pytest.mark.service
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_requests_made_from_the_document_get_what_it_promises_and_never_500(mode: str) -> None:
    schemathesis: Any = pytest.importorskip("schemathesis")
    known = importlib.import_module("schemathesis.specs.openapi.checks")
    checks: list[Any] = [
        importlib.import_module("schemathesis.checks").not_a_server_error,
        known.content_type_conformance,
        known.response_schema_conformance,
        known.status_code_conformance,
        *([known.negative_data_rejection] if mode == "negative" else []),
    ]
    statuses: set[int] = set()
    with service(LocalBackend()) as served:
        schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
        for result in schema.get_all_operations():
            operation = result.ok()
            if mode == "negative" and not takes_anything(operation.definition.raw):
                continue

            @_QUICKLY
            @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
            def check(case: Any) -> None:
                response = case.call()
                statuses.add(response.status_code)
                case.validate_response(response, checks=checks)

            check()
    assert statuses >= ({200} if mode == "positive" else {422}), statuses


@pytest.mark.service
def test_whatever_is_asked_while_parts_fail_is_answered_in_the_documents_terms() -> None:
    schemathesis: Any = pytest.importorskip("schemathesis")
    known = importlib.import_module("schemathesis.specs.openapi.checks")
    checks = [known.response_schema_conformance, known.status_code_conformance]
    chance = random.Random(5)
    with service(LocalBackend(), longest_question=50, in_flight=1, waiting=0) as served:
        schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
        for path in ("/v1/answers", "/v1/search", "/v1/chat/completions"):

            @_QUICKLY
            @given(case=schema[path]["POST"].as_strategy())
            def check(case: Any) -> None:
                served.world.search_fault = chance.choice(FAULTS)
                response = case.call()
                assert response.status_code != 500
                case.validate_response(response, checks=checks)

            check()
