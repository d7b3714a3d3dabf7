"""The tools for agents, called with the client of the `mcp` package."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, Tool

from serving.http.access import add_key
from serving.http.backend import Overloaded, Unavailable
from tests.serving.local_service import BY_MODEL, LocalBackend, Service, service

QUESTION = "What is the recommended dose of velocimab?"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "search_labels": {"question": QUESTION, "k": 2},
    "list_names": {"prefix": "velo"},
    "get_label_section": {"label": "velocimab", "section": "Dosage"},
    "answer_with_citations": {"question": QUESTION},
    "compare_labels": {"first": "Velocimab", "second": "set-Ostrelin", "section": "DOSAGE"},
}
ERAS = ("legacy", "auto")
"""With sessions begun by `initialize`, as until 2025, and without."""


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with service() as running:
        yield running


@asynccontextmanager
async def connected(running: Service, mode: str = "auto", key: str = "") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{running.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def call(running: Service, name: str, arguments: dict[str, Any] | None = None, **how: str) -> CallToolResult:
    async def run() -> CallToolResult:
        async with connected(running, **how) as client:
            return await client.call_tool(name, ARGUMENTS[name] if arguments is None else arguments)

    return asyncio.run(run())


def listed(running: Service, **how: str) -> list[Tool]:
    async def run() -> list[Tool]:
        async with connected(running, **how) as client:
            return (await client.list_tools()).tools

    return asyncio.run(run())


def value(result: CallToolResult) -> dict[str, Any]:
    """The structured result, which is also there as text."""
    assert not result.is_error, result.content
    [text] = result.content
    assert isinstance(text, TextContent) and orjson.loads(text.text) == result.structured_content
    assert result.structured_content is not None
    found: dict[str, Any] = result.structured_content
    return found


def error(result: CallToolResult) -> str:
    assert result.is_error
    [text] = result.content
    assert isinstance(text, TextContent)
    return text.text


@pytest.mark.parametrize("mode", ERAS)
def test_tools_are_listed_with_schemas(served: Service, mode: str) -> None:
    tools = {tool.name: tool for tool in listed(served, mode=mode)}
    assert set(tools) == set(ARGUMENTS)
    for tool in tools.values():
        assert tool.description and tool.output_schema and tool.annotations and tool.annotations.read_only_hint
        described = tool.input_schema["properties"].values()
        assert all(one.get("description") or "$ref" in str(one) for one in described), tool.name


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_each_tool_gives_what_its_schema_says(served: Service, name: str, mode: str) -> None:
    """The client itself checks results against the schema."""
    assert value(call(served, name, mode=mode))


def test_answer_is_that_of_the_route(served: Service) -> None:
    ours, theirs = value(call(served, "answer_with_citations")), served.ask(QUESTION).json()
    for field in ("answer", "statements", "citations", "refused", "passages", "model", "index", "degraded"):
        assert ours[field] == theirs[field]
    assert ours["answer"] and ours["passages"][0]["drug"] == "Velocimab"
    assert [one["verdict"] for one in ours["statements"]] == ["supported"]


def test_search_takes_filter_and_number(served: Service) -> None:
    found = value(call(served, "search_labels", {"question": "the dose", "k": 1, "filter": {"drug": "ostrelin"}}))
    assert [one["drug"] for one in found["passages"]] == ["Ostrelin"]


def test_names_are_those_that_filters_take(served: Service) -> None:
    assert [one["name"] for one in value(call(served, "list_names"))["names"]] == ["Velocimab"]
    names = [one["name"] for one in value(call(served, "list_names", {}))["names"]]
    assert names == ["Ostrelin", "Velocimab"]
    for name in names:
        assert value(call(served, "search_labels", {"question": "the dose", "filter": {"drug": name}}))["passages"]


def test_question_may_follow_earlier_ones(served: Service) -> None:
    history = [{"question": "What is the dose of ostrelin?", "answer": "Measure each dose."}]
    asked = {"question": "And the warnings?", "history": history}
    ours, theirs = value(call(served, "answer_with_citations", asked)), served.post("/v1/answers", asked).json()
    assert ours["standalone_question"] == theirs["standalone_question"]


def test_section_is_looked_up_not_searched(served: Service) -> None:
    section = value(call(served, "get_label_section"))
    assert section["drug"] == "Velocimab" and section["set_id"] == "set-Velocimab" and section["labels"] == 1
    assert section["url"].endswith("setid=set-Velocimab")
    assert [one["section"] for one in section["passages"]] == ["DOSAGE", "DOSAGE"]
    route = served.get("/v1/sections", params={"label": "velocimab", "section": "Dosage"})
    assert route.json() == section


def test_comparison_has_both_labels_and_what_differs(served: Service) -> None:
    compared = value(call(served, "compare_labels"))
    assert [compared[one]["drug"] for one in ("first", "second")] == ["Velocimab", "Ostrelin"]
    [difference] = compared["differences"]
    assert "twice a day" in difference["first"] and "Shake the bottle" in difference["second"]
    same = value(call(served, "compare_labels", {**ARGUMENTS["compare_labels"], "second": "Velocimab"}))
    assert same["differences"] == []
    query = ARGUMENTS["compare_labels"]
    assert served.get("/v1/sections/compared", params=query).json() == compared


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("search_labels", {}, "question: it is required"),
        ("search_labels", {"question": " "}, "empty"),
        ("search_labels", {"question": QUESTION, "k": 0}, "k: it should be greater"),
        ("search_labels", {"question": QUESTION, "kk": 1}, "kk: there is no such field"),
        ("search_labels", {"question": QUESTION, "corpus": "none"}, "labels, guides"),
        ("answer_with_citations", {"question": QUESTION, "filter": {"drug": "nope"}}, "matches the filter"),
        ("search_labels", {"question": QUESTION, "filter": {"drug": "velostatin"}}, "similar: Velocimab"),
        ("get_label_section", {"label": "velocimab"}, "section: it is required"),
        ("get_label_section", {"label": "velocimab", "section": "Overdosage"}, "DOSAGE; STORAGE"),
        ("get_label_section", {"label": "velostatin", "section": "Dosage"}, "Velocimab"),
        ("get_label_section", {"label": "x", "section": "y", "corpus": "guides"}, "not a corpus of labels"),
        ("compare_labels", {"first": "Velocimab", "second": "Other", "section": "Dosage"}, "no label of 'Other'"),
        ("no_tool", {}, "compare_labels"),
    ],
)
def test_wrong_arguments_are_explained(served: Service, name: str, arguments: dict[str, Any], says: str) -> None:
    assert says in error(call(served, name, arguments))


def test_parts_that_fail_are_named() -> None:
    with service(LocalBackend(search_fault=Unavailable("the index", "secret"))) as running:
        for name in ARGUMENTS.keys() - {"list_names"}:
            said = error(call(running, name))
            assert "index can't be reached" in said and "secret" not in said
        running.world.search_fault = Overloaded("the index")
        assert "overloaded" in error(call(running, "search_labels"))


def test_crash_is_logged_without_the_question(caplog: pytest.LogCaptureFixture) -> None:
    """The reply has the request id, under which the log says where it happened."""
    caplog.set_level(logging.INFO)
    fault: Any = ValueError(QUESTION)
    with service(LocalBackend(search_fault=fault)) as running:
        said = error(call(running, "search_labels"))
    logged = [orjson.loads(one.message) for one in caplog.records if one.name == "fdarx.requests"]
    failed = next(one for one in logged if one.get("tool") == "search_labels")
    assert failed["error"] == "failed" and failed["request_id"] in said and "ValueError at" in failed["detail"]
    assert QUESTION not in caplog.text and QUESTION not in said


def test_key_is_required(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key = add_key(file, "agent")
    with service(keys_file=file) as running:
        assert len(listed(running, key=key)) == len(ARGUMENTS)
        assert value(call(running, "search_labels", key=key))
        for wrong in ("", "wrong"):
            with pytest.RaisesGroup(MCPError, flatten_subgroups=True):
                listed(running, key=wrong)
        assert running.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status == 401
        assert running.meter.rejections["key"] >= 3


def test_limits_are_those_of_the_api() -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    with service(requests_per_minute=1, burst=2, body_bytes=2048) as running:
        replies = [running.post("/mcp", listing, headers=accept) for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 200, 429]
        assert replies[2].headers["Retry-After"] and replies[2].error["code"] == "busy"
    with service(LocalBackend(BY_MODEL, hold=30), deadline_s=2) as running:
        asked = {"name": "answer_with_citations", "arguments": {"question": QUESTION}}
        reply = running.post("/mcp", {**listing, "method": "tools/call", "params": asked}, headers=accept)
        assert (reply.status, reply.error["code"]) == (504, "deadline")
        assert running.post("/mcp", listing, headers=accept).status == 200


def test_other_methods_and_bodies_are_refused(served: Service) -> None:
    assert served.get("/mcp").status == served.call("DELETE", "/mcp").status == 405
    accept = {"Accept": "application/json, text/event-stream"}
    assert served.post("/mcp", [], headers=accept).status == 400
    assert served.call("POST", "/mcp", data=b"{", headers={**accept, "Content-Type": "application/json"}).status == 400
