"""RxNorm's ingredients by RxNav, against a server on this machine that answers and fails as it does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from fdarx_core.factuality.safety.drugs import Drugs
from fdarx_core.factuality.safety.rxnav import Found, ingredients_of, unknown_names
from fdarx_core.llm.store import ResponseStore
from fdarx_core.records import CheckedAnswer
from fdarx_core.storage import Location
from tests.factuality.made_labels import examples
from tests.factuality.rxnav_server import RxNavServer


def ask(names: list[str], place: Path, address: str) -> Found:
    return asyncio.run(ingredients_of(names, ResponseStore(Location(place)), address, rate=200, timeout_s=2))


def test_names_have_ingredients_and_unknown_ones_none(tmp_path: Path) -> None:
    with RxNavServer() as server:
        found = ask(["Ortabrand", "Duobrand", "Nosuchol"], tmp_path, server.url)
    assert found.names == {"Ortabrand": ["ortavelin"], "Duobrand": ["calbuzamide", "ortavelin"]}
    assert found.notice == "RxNav: 2 of 3 names are drugs of RxNorm"
    assert server.asked[0] == "/REST/rxcui.json?name=Ortabrand&search=2"
    assert server.asked[1] == "/REST/rxcui/900001/related.json?tty=IN"


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    with RxNavServer() as server:
        first = ask(["Ortabrand", "Nosuchol"], tmp_path, server.url)
        asked = len(server.asked)
        again = ask(["Ortabrand", "Nosuchol"], tmp_path, server.url)
    assert (again, len(server.asked)) == (first, asked)


@pytest.mark.parametrize("status", [429, 500])
def test_a_busy_server_is_asked_again(tmp_path: Path, status: int) -> None:
    def busy(number: int) -> web.Response | None:
        return web.Response(status=status, headers={"Retry-After": "0"}) if number == 1 else None

    with RxNavServer(busy) as server:
        found = ask(["Ortabrand"], tmp_path, server.url)
    assert found.names == {"Ortabrand": ["ortavelin"]}


def test_without_an_answer_the_notice_says_so_and_what_came_before_stands(tmp_path: Path) -> None:
    def dead(number: int) -> web.Response | None:
        return web.Response(status=500, headers={"Retry-After": "0"}) if number > 2 else None

    with RxNavServer(dead) as server:
        found = ask(["Ortabrand", "Duobrand"], tmp_path, server.url)
    assert found.names == {"Ortabrand": ["ortavelin"]}
    assert "gives no more (HTTP 500)" in found.notice
    assert len(server.asked) == 5  # two answers, three tries


def test_nobody_there_raises_nothing(tmp_path: Path) -> None:
    with RxNavServer() as server:
        pass
    found = ask(["Ortabrand"], tmp_path, server.url)
    assert found.names == {} and "gives no more" in found.notice


@pytest.mark.parametrize("body", ["<html>", "[]", '{"idGroup": null}', '{"idGroup": {"rxnormId": [null, "x"]}}'])
def test_malformed_answers_give_no_name(tmp_path: Path, body: str) -> None:
    with RxNavServer(lambda number: web.Response(text=body)) as server:
        assert ask(["Ortabrand"], tmp_path, server.url).names == {}


def test_names_to_ask_for_are_those_that_no_label_has() -> None:
    drugs = Drugs(label for label, _ in examples())
    rows = [
        CheckedAnswer("1", "q1", "Can I take Ortabrand with Telvanto?", "Yes.", "m"),
        CheckedAnswer("2", "q2", "What is it?", "A drug.", "m", drug="Duobrand"),
        CheckedAnswer("3", "q3", "How is Ortabrand stored?", "Cool.", "m", drug="Telvanto"),
    ]
    assert unknown_names(rows, drugs) == ["Ortabrand", "Duobrand"]
