"""Which names and pages a service answers to, and the headers of its replies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fdarx_core.specs.serve import ServeSpec
from serving.http.access import add_key
from tests.serving.local_service import Service, service

QUESTION = {"question": "What is the recommended dose of velocimab?"}
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with service() as running:
        yield running


def statuses(served: Service, **headers: str) -> set[int]:
    """The statuses of a page, a look-up, an answer and an MCP request."""
    given = {**ACCEPT, **headers}
    return {
        served.get("/", headers=given).status,
        served.get("/v1/corpora", headers=given).status,
        served.post("/v1/answers", QUESTION, headers=given).status,
        served.post("/mcp", LISTING, headers=given).status,
    }


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8000", "localhost.:80", "127.0.0.1", "127.0.0.1:1", "[::1]:8000", "[::1]", "192.0.2.7:80"],
)
def test_localhost_and_addresses_are_names_of_the_service(served: Service, host: str) -> None:
    assert statuses(served, Host=host) == {200}


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "attacker.example:8000",
        "127.0.0.1.attacker.example",
        "localhost.attacker.example",
        "attacker.example@127.0.0.1",
        "127.0.0.1@attacker.example",
        "[::1",
        "localhost:port",
        "service",
        "",
    ],
)
def test_other_names_are_refused_without_keys(served: Service, host: str) -> None:
    """A page of another server can make a browser connect to this one by a name of its own (DNS rebinding)."""
    assert statuses(served, Host=host) == {421}
    error = served.post("/v1/answers", QUESTION, headers={"Host": host}).error
    assert error["code"] == "wrong_host" and "--allowed-hosts" in error["message"]


@pytest.mark.parametrize(
    "origin",
    [
        "http://attacker.example",
        "https://attacker.example:8000",
        "null",
        "http://127.0.0.1:1",
        "http://localhost",
        "x",
        "",
    ],
)
def test_pages_of_other_servers_are_refused(served: Service, origin: str) -> None:
    assert statuses(served, Origin=origin) == {403}
    error = served.post("/v1/answers", QUESTION, headers={"Origin": origin}).error
    assert error["code"] == "wrong_origin" and "--allowed-hosts" in error["message"]


def test_the_page_of_the_service_is_not(served: Service) -> None:
    assert statuses(served, Origin=served.url) == {200}
    assert statuses(served, Host="localhost:443", Origin="https://localhost") == {200}


def test_hosts_may_be_added() -> None:
    with service(allowed_hosts=["Answers.example.org"]) as running:
        assert statuses(running, Host="answers.example.org:8443") == {200}
        assert statuses(running, Origin="https://answers.example.org") == {200}
        assert statuses(running, Host="www.example.org") == {421}
        assert statuses(running) == {200}
    with service(allowed_hosts=["*"]) as running:
        assert statuses(running, Host="any.example") == {200}
        assert statuses(running, Host="any.example", Origin="http://any.example") == {200}
        assert statuses(running, Host="any.example", Origin="http://other.example") == {403}


def test_with_keys_any_host_will_do_unless_some_are_given(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key = {"X-API-Key": add_key(file, "alice")}
    with service(keys_file=file) as running:
        assert statuses(running, Host="qa-rag-serve-svc:8000", **key) == {200}
        assert statuses(running, Host="qa-rag-serve-svc:8000", Origin="http://attacker.example", **key) == {403}
    with service(keys_file=file, allowed_hosts=["qa-rag-serve-svc"]) as running:
        assert statuses(running, Host="qa-rag-serve-svc:8000", **key) == {200}
        assert statuses(running, Host="attacker.example", **key) == {421}


def hosts(tmp_path: Path, **options: object) -> list[str]:
    config = ServeSpec.model_validate({"index": [str(tmp_path)], **options})
    return config.service_config().http.allowed_hosts


def test_a_service_is_reached_by_the_name_that_it_is_bound_to(tmp_path: Path) -> None:
    for address in ("127.0.0.1", "0.0.0.0", "::", "::1", "localhost", "192.0.2.7"):
        assert hosts(tmp_path, host=address) == []
    assert hosts(tmp_path, host="answers") == ["answers"]
    assert hosts(tmp_path, host="answers", keys_file="keys") == []
    assert hosts(tmp_path, host="answers", keys_file="keys", allowed_hosts=["other"]) == ["other", "answers"]
    for wrong in ("http://answers", "answers:8000", "an swers", ""):
        with pytest.raises(ValueError, match="give a name without scheme and port"):
            hosts(tmp_path, allowed_hosts=[wrong])


@pytest.mark.parametrize("path", ["/mcp/", "/v1/answers/", "/docs/", "/healthz/"])
def test_no_reply_leads_to_a_host_that_the_client_names(tmp_path: Path, path: str) -> None:
    with service(allowed_hosts=["*"]) as running:
        for method in ("GET", "POST"):
            reply = running.call(method, path, headers={"Host": "attacker.example"}, allow_redirects=False)
            assert reply.status == 404 and "Location" not in reply.headers


def test_replies_of_the_api_are_not_stored(served: Service) -> None:
    replies = [
        served.get("/v1/corpora"),
        served.get("/v1/nowhere"),
        served.ask(),
        served.ask(stream=True),
        served.post("/v1/answers", {}),
        served.post("/mcp", LISTING, headers=ACCEPT),
    ]
    for reply in replies:
        assert [value for name, value in reply.headers.items() if name.lower() == "cache-control"] == ["no-store"]
    assert served.get("/").headers["Cache-Control"] == "no-cache"


def test_browsers_are_told_to_keep_to_https(served: Service) -> None:
    assert "Strict-Transport-Security" not in served.get("/").headers
    for path in ("/", "/v1/corpora", "/nowhere"):
        for proto in ("https", "HTTPS", "https, http"):
            told = served.get(path, headers={"X-Forwarded-Proto": proto}).headers["Strict-Transport-Security"]
            assert int(told.removeprefix("max-age=")) > 0


def test_documentation_can_be_closed() -> None:
    with service(no_docs=True) as running:
        assert running.get("/docs").status == running.get("/openapi.json").status == 404
        assert running.get("/").status == running.get("/healthz").status == running.ask().status == 200
