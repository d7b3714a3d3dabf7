"""Models behind gateways and proxies: extra headers and parameters, forward proxies with a login, own authorities."""

from __future__ import annotations

import logging
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import EndpointStopped, HttpEndpoint, ModelsError, Task, load_models
from tests.llm.certificates import server_context
from tests.llm.conftest import ask_all, model, words
from tests.llm.forward_proxy import ForwardProxy
from tests.llm.loopback_server import Call, Fault, LoopbackServer

LOGIN = "user:pass word/planted"
IN_ADDRESS = "user:pass%20word%2Fplanted"
TEAM = "team-planted-77"
KEY = "sk-planted-0123456789"
FINE = '{"text": "cba"}'
pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    secrets = {"PLANTED_LOGIN": LOGIN, "PLANTED_TEAM": TEAM, "PLANTED_KEY": KEY}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.DEBUG)
    yield
    assert not any(secret in caplog.text for secret in (TEAM, KEY, "pass word"))


@pytest.fixture
def proxy() -> Iterator[ForwardProxy]:
    with ForwardProxy(LOGIN) as running:
        yield running


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    return server_context(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def https_server(tls: tuple[Any, Path]) -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=lambda body: FINE, ssl_context=tls[0]) as running:
        yield running


def gateway(call: Call) -> Fault | None:
    """Refuses what lacks the header of the team, the key in its own header, or the version."""
    headers = {name.lower(): value for name, value in call.headers.items()}
    if call.query != {"api-version": "2024-10-21"}:
        return Fault(status=404, error={"message": "api-version"})
    known = headers.get("x-team") == f"Team {TEAM}" and headers.get("api-key") == KEY and "authorization" not in headers
    return None if known else Fault(status=401, error={"message": f"you sent {headers}"})


GATEWAY: dict[str, Any] = {
    "headers": {"X-Team": "Team ${PLANTED_TEAM}"},
    "query": {"api-version": "2024-10-21"},
    "key_header": "api-key",
    "key_env": "PLANTED_KEY",
}


def test_a_gateway_with_headers_and_a_version(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = gateway
    [response] = ask_all(task, model(server, **GATEWAY), "a")
    assert (response.text, response.reason, response.attempts) == (FINE, "", 1)


@pytest.mark.parametrize(("header", "sent"), [("Authorization", f"Bearer {KEY}"), ("X-Api-Token", KEY)])
def test_the_key_in_another_header(header: str, sent: str, task: Task[Any], server: LoopbackServer) -> None:
    ask_all(task, model(server, kind="anthropic", key_env="PLANTED_KEY", key_header=header), "a")
    headers = server.calls[0].headers
    assert headers[header] == sent and "anthropic-version" in headers
    assert "x-api-key" not in headers


def test_what_a_gateway_says_back_is_hidden(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(text=str(call.headers))
    [response] = ask_all(task, model(server, **GATEWAY, structured="text"), "a")
    assert "Team [key]" in response.text
    assert TEAM not in response.text and KEY not in response.text


def test_the_fields_of_access_change_no_key_of_a_request(task: Task[Any], server: LoopbackServer) -> None:
    plain, behind = HttpEndpoint(model(server)), HttpEndpoint(model(server, **GATEWAY, proxy="http://127.0.0.1:1"))
    assert words(task, plain, "a")[0].key == words(task, behind, "a")[0].key


def test_a_proxy_with_a_login(task: Task[Any], server: LoopbackServer, proxy: ForwardProxy) -> None:
    server.faults = gateway
    config = model(server, **GATEWAY, proxy=proxy.url, proxy_login_env="PLANTED_LOGIN")
    responses = ask_all(task, config, "a", "b", "c")
    assert [(one.text, one.attempts) for one in responses] == [(FINE, 1)] * 3
    assert proxy.lines[0].startswith(f"POST {server.openai_url}/chat/completions?api-version=2024-10-21 ")


def test_a_tunnel_to_a_server_of_an_own_authority(
    task: Task[Any], https_server: LoopbackServer, tls: tuple[Any, Path], proxy: ForwardProxy
) -> None:
    https_server.faults = gateway
    config = model(https_server, **GATEWAY, proxy=proxy.url, proxy_login_env="PLANTED_LOGIN", ca_file=str(tls[1]))
    responses = ask_all(task, config, "a", "b")
    assert [one.text for one in responses] == [FINE] * 2
    assert proxy.lines[0].startswith(f"CONNECT 127.0.0.1:{https_server.port} ")
    assert all("Proxy-Authorization" not in call.headers for call in https_server.calls)


@pytest.mark.parametrize("login", ["", LOGIN])
def test_the_key_goes_through_the_tunnel_and_not_to_the_proxy(
    login: str, task: Task[Any], https_server: LoopbackServer, tls: tuple[Any, Path]
) -> None:
    with ForwardProxy(login) as proxy:
        access = {"proxy": proxy.url, "proxy_login_env": "PLANTED_LOGIN" if login else None, "ca_file": str(tls[1])}
        config = model(https_server, key_env="PLANTED_KEY", headers={"X-Team": "${PLANTED_TEAM}"}, **access)
        assert ask_all(task, config, "a")[0].text == FINE
    assert https_server.calls[0].headers["Authorization"] == f"Bearer {KEY}"
    [head] = proxy.tunnel_heads
    assert KEY not in head and TEAM not in head


def test_without_the_authority_the_error_names_ca_file(task: Task[Any], https_server: LoopbackServer) -> None:
    with pytest.raises(EndpointStopped, match=r"model m .*tls: .*certificate.*ca_file"):
        ask_all(task, model(https_server), "a")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_proxy_of_the_environment(
    variable: str, task: Task[Any], server: LoopbackServer, proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"http://{IN_ADDRESS}@127.0.0.1:{proxy.port}")
    ask_all(task, model(server), "a")
    assert len(proxy.lines) == 1
    monkeypatch.setenv("NO_PROXY", "example.org,127.0.0.1")
    ask_all(task, model(server), "a")
    assert len(proxy.lines) == 1 and server.number == 2


def test_https_proxy_of_the_environment(
    task: Task[Any],
    https_server: LoopbackServer,
    tls: tuple[Any, Path],
    proxy: ForwardProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{proxy.port}")
    config = model(https_server, ca_file=str(tls[1]))
    with pytest.raises(EndpointStopped, match=r"proxy_login: HTTP 407 .*; check the user .* in HTTPS_PROXY$"):
        ask_all(task, config, "a")
    monkeypatch.setenv("HTTPS_PROXY", f"http://{IN_ADDRESS}@127.0.0.1:{proxy.port}")
    assert ask_all(task, config, "a")[0].text == FINE


@pytest.mark.parametrize("secure", [False, True])
def test_a_proxy_that_refuses_the_login(
    secure: bool,
    task: Task[Any],
    server: LoopbackServer,
    https_server: LoopbackServer,
    tls: tuple[Any, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = https_server if secure else server
    with ForwardProxy("user:another") as proxy:
        config = model(target, proxy=proxy.url, proxy_login_env="PLANTED_LOGIN", ca_file=str(tls[1]), max_in_flight=2)
        with pytest.raises(EndpointStopped) as stopped:
            ask_all(task, config, *"abcdef")
    message = str(stopped.value)
    assert f"model m (tiny) at {target.openai_url} through the proxy {proxy.url} of proxy: proxy_login" in message
    assert message.endswith("check the user and password of the proxy in proxy_login_env")
    assert "\n" not in message and "planted" not in message.replace("PLANTED", "")
    assert proxy.refused <= 2 and target.number == 0
    assert "dXNlcjpwYXNz" not in message  # the beginning of the login as it is sent


def test_a_proxy_that_forbids_the_server(task: Task[Any], https_server: LoopbackServer) -> None:
    with (
        ForwardProxy(status=403) as proxy,
        pytest.raises(EndpointStopped, match=r"proxy_refused: HTTP 403 from the proxy.*check proxy and that the proxy"),
    ):
        ask_all(task, model(https_server, proxy=proxy.url), "a")


def test_a_proxy_that_is_not_there(task: Task[Any], server: LoopbackServer) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(EndpointStopped, match=rf"through the proxy {address} of proxy: proxy: .*check proxy and"):
            ask_all(task, model(server, proxy=address), "a")


def test_a_proxy_that_no_one_knows(task: Task[Any], server: LoopbackServer) -> None:
    with pytest.raises(EndpointStopped, match=r"no-such-proxy.invalid.* dns: .*check proxy and base_url"):
        ask_all(task, model(server, proxy="http://no-such-proxy.invalid:3128"), "a")


def test_no_secret_is_pickled(task: Task[Any], server: LoopbackServer) -> None:
    config = model(server, **GATEWAY, proxy="http://127.0.0.1:1", proxy_login_env="PLANTED_LOGIN", max_tries=1)
    endpoint = HttpEndpoint(config)
    shown = repr(config) + config.model_dump_json() + str(pickle.dumps(endpoint))
    assert not any(secret in shown for secret in (TEAM, KEY, "pass word"))


BASE = "- {name: m, model: tiny, base_url: 'https://127.0.0.1/v1', "


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("headers: {X-Team: '${NO_SUCH}'}", "headers.X-Team: environment variable NO_SUCH is not set"),
        ("headers: {X-Team: '${LINES}'}", "headers.X-Team: environment variable LINES holds line breaks"),
        ("headers: {Authorization: 'Basic abcdef'}", "headers: .*Authorization looks like a secret.*VARIABLE"),
        ("headers: {Proxy-Authorization: '${LINES}'}", "headers: .*set by the client.*proxy_login_env"),
        ("headers: {'X Team': a}", "headers: .*'X Team' is no header"),
        ("headers: {Authorization: '${K}'}, key_env: K", "headers: authorization carries the key"),
        ("query: {subscription-key: abc}", "query: .*subscription-key looks like a secret"),
        ("proxy: 'http://user:pass@proxy:1'", "proxy: .*the login goes into the variable of proxy_login_env"),
        ("proxy: 'socks5://proxy:1'", "proxy: .*SOCKS, are not supported"),
        ("proxy_login_env: K", "proxy_login_env needs proxy"),
        ("proxy: 'http://p:1', proxy_login_env: NO_SUCH", "proxy_login_env: .*NO_SUCH is not set; set it to USER:PASS"),
        ("ca_file: /no/such.pem", "ca_file: /no/such.pem: No such file or directory; give a PEM file"),
        ("ca_file: __init__.py", "ca_file: .* holds no certificates; give a PEM file"),
        ("key_env: K, key_command: echo", "key_env and key_command both give the key"),
        ("key_command: no-such-program --token", "key_command: there is no program no-such-program"),
        ('key_command: "echo \'abc"', "key_command: No closing quotation; quote it as for a shell"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_asked(
    fields: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)
    monkeypatch.setenv("LINES", "secret\nlines")
    monkeypatch.setenv("K", "k" * 20)
    (tmp_path / "models.yaml").write_text(BASE + fields + "}\n")
    with pytest.raises(ModelsError, match=message) as refused:
        load_models(tmp_path / "models.yaml")
    assert "models.yaml: model m: " in str(refused.value) and "\n" not in str(refused.value)
    assert not any(secret in str(refused.value) for secret in ("abcdef", "pass@", "secret\n"))


@pytest.mark.parametrize("address", ["socks5://user:planted@proxy:1", "http://user:plan/ted@proxy:1", "http://proxy:x"])
def test_a_variable_with_an_unusable_proxy(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    (tmp_path / "models.yaml").write_text(BASE + "}\n")
    with pytest.raises(ModelsError, match="model m: the environment variable HTTPS_PROXY is no address") as refused:
        load_models(tmp_path / "models.yaml")
    assert "plan" not in str(refused.value)


def test_an_api_version_that_yaml_reads_as_a_date(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(BASE + "query: {api-version: 2024-10-21, revision: 2}}\n")
    assert load_models(tmp_path / "models.yaml")["m"].query == {"api-version": "2024-10-21", "revision": "2"}
