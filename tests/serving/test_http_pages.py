"""The page, the documentation, lookups and health: what needs no question."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.serving.http_world import HTML, LocalWorld, Service, service


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
    assert told["corpora"][0]["retrievers"] == ["bm25"] and told["postprocessors"] == ["none", "score"]
    assert [one["name"] for one in told["strategies"]][:3] == ["question", "hypothetical_answer", "qa_rag"]
    defaults = told["defaults"]
    assert defaults.pop("longest_question") == 321
    named = {"corpus": "labels", "strategy": "question", "postprocess": "none", "retriever": "bm25"}
    assert defaults == named | {"k": 6, "candidates": 24}
    assert served.ask(**defaults).status == 200


def test_names_complete_what_is_typed(served: Service) -> None:
    assert served.get("/v1/names?prefix=vel").json() == {"names": ["Velocimab"]}
    assert served.get("/v1/names?prefix=ST&corpus=guides&limit=1").json() == {"names": ["Stability of tablets"]}
    assert served.get("/v1/names?prefix=zzz").json() == {"names": []}


def test_a_passage_comes_with_its_section(served: Service) -> None:
    told = served.get("/v1/passages/l1").json()
    assert told["chunk"]["id"] == "l1" and told["chunk"]["section"] == "DOSAGE"
    assert [(one["chunk_id"], one["here"]) for one in told["around"]] == [("l0", False), ("l1", True)]
    assert HTML in served.get("/v1/passages/l2").json()["chunk"]["text"]


def test_ready_is_told_apart_from_alive() -> None:
    with service(LocalWorld(missing={"model": "no replica"})) as served:
        ready = served.get("/readyz")
        assert (ready.status, ready.json()) == (503, {"ready": False, "missing": {"model": "no replica"}})
        assert served.get("/healthz").json() == {"status": "ok"}
