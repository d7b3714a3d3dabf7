"""What can't be asked, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.serving.local_service import Service, service


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with service(body_bytes=200_000) as running:
        yield running


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "question"),
        ({"question": ""}, "question"),
        ({"question": " \n\t "}, "question"),
        ({"question": "x" * 100_000}, "question"),
        ({"question": "dose\x00"}, "question"),
        ({"question": "dose\x1b[2J"}, "question"),
        ({"question": "dose \ud800"}, "question"),
        ({"question": 7}, "question"),
        ({"question": ["dose"]}, "question"),
        ({"question": None}, "question"),
        ({"question": "dose", "k": 0}, "k"),
        ({"question": "dose", "k": 10_000}, "k"),
        ({"question": "dose", "k": "6"}, "k"),
        ({"question": "dose", "k": True}, "k"),
        ({"question": "dose", "k": 10**300}, "k"),
        ({"question": "dose", "candidates": 0}, "candidates"),
        ({"question": "dose", "candidates": 101}, "candidates"),
        ({"question": "dose", "k": 6, "candidates": 5}, "candidates"),
        ({"question": "dose", "strategy": "magic"}, "strategy"),
        ({"question": "dose", "corpus": "nowhere"}, "corpus"),
        ({"question": "dose", "retriever": "hybrid"}, "retriever"),
        ({"question": "dose", "postprocess": "rerank"}, "postprocess"),
        ({"question": "dose", "strategy": 3}, "strategy"),
        ({"question": "dose", "filter": {"drug": 3}}, "filter.drug"),
        ({"question": "dose", "filter": {"colour": "red"}}, "filter.colour"),
        ({"question": "dose", "filter": "velocimab"}, "filter"),
        ({"question": "dose", "exclude": "velocimab"}, "exclude"),
        ({"question": "dose", "exclude": ["x"] * 101}, "exclude"),
        ({"question": "dose", "temperature": 1}, "temperature"),
        ({"question": "dose", "stream": "yes"}, "stream"),
        ([], None),
        ("dose", None),
        (None, None),
    ],
)
def test_a_wrong_request_is_told_by_field(served: Service, body: Any, param: str | None) -> None:
    reply = served.post("/v1/answers", body)
    assert reply.status == 422 and reply.error["type"] == "invalid_request_error"
    assert reply.error["param"] == param and len(reply.error["message"]) < 500


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"strategy": "magic"}, ["magic", "qa_rag", "multiquery"]),
        ({"corpus": "nowhere"}, ["nowhere", "labels", "guides"]),
        ({"retriever": "hybrid"}, ["hybrid", "bm25"]),
        ({"postprocess": "rerank"}, ["rerank", "none", "score"]),
    ],
)
def test_an_unknown_name_is_answered_with_those_there_are(served: Service, more: Any, named: list[str]) -> None:
    message = served.ask(**more).error["message"]
    assert all(name in message for name in named)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"question": "\xff\xfe"}', b"[" * 100_000, b'{"question": "dose", "k": NaN}', b"question=dose"],
)
def test_a_body_that_is_no_json_is_refused(served: Service, data: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    reply = served.call("POST", "/v1/answers", data=data, headers=headers)
    assert reply.status == 422 and reply.error["message"]


def test_json_under_another_content_type_is_told_which_to_send(served: Service) -> None:
    reply = served.call("POST", "/v1/answers", data=b'{"question": "dose"}', headers={"Content-Type": "text/plain"})
    assert reply.status == 422 and "application/json" in reply.error["message"]


def test_a_body_too_long_is_refused_whether_its_length_is_told_or_not(served: Service) -> None:
    async def endless() -> Any:
        for _ in range(30):
            yield b" " * 10_000

    for data in (b" " * 300_000, endless()):
        reply = served.call("POST", "/v1/answers", data=data, headers={"Content-Type": "application/json"})
        assert reply.status == 413 and "200000" in reply.error["message"]


def test_a_long_body_is_refused_before_it_is_sent(served: Service) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": "99999999", "Expect": "100-continue"}

    async def never() -> Any:
        raise AssertionError("the body was asked for")
        yield b""

    try:
        reply = served.call("POST", "/v1/answers", data=never(), headers=headers)
    except aiohttp.ClientError:
        pytest.skip("this client sends its body whatever it is told")
    assert reply.status == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/answers", 405),
        ("DELETE", "/v1/corpora", 405),
        ("POST", "/", 405),
        ("GET", "/nowhere", 404),
        ("GET", "/v1/nowhere", 404),
        ("GET", "/static/../../settings.py", 404),
        ("GET", "/static/%2e%2e%2fsettings.py", 404),
        ("GET", "/v1/passages/nosuch", 404),
        ("GET", "/v1/names?limit=0", 422),
        ("GET", "/v1/names?limit=many", 422),
        ("GET", "/v1/names?corpus=nowhere", 422),
        ("GET", "/v1/names?prefix=%00", 422),
        ("GET", "/v1/passages/l0?corpus=nowhere", 422),
        ("GET", "/v1/models/nowhere", 404),
    ],
)
def test_errors_have_one_shape_everywhere(served: Service, method: str, path: str, status: int) -> None:
    reply = served.call(method, path)
    assert reply.status == status and reply.error["message"]
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'self'") and reply.headers["X-Request-Id"]
    assert status != 405 or reply.headers["Allow"]


@pytest.mark.parametrize("wrong", ["0", "-5", "1.5", "soon", "٣"])
def test_a_wrong_deadline_is_told(served: Service, wrong: str) -> None:
    reply = served.post("/v1/answers", {"question": "dose"}, headers={"X-Deadline-Ms": wrong})
    assert reply.status == 422 and reply.error["param"] == "X-Deadline-Ms"


@pytest.mark.parametrize("given", ["a b", "x" * 65, "né", '{"a":1}'])
def test_a_request_id_that_is_none_is_replaced(served: Service, given: str) -> None:
    reply = served.get("/healthz", headers={"X-Request-Id": given})
    assert reply.headers["X-Request-Id"] != given and len(reply.headers["X-Request-Id"]) == 32
