"""What is stored is not asked; what is asked is asked once; nothing is dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import TRANSIENT, Baseline, ResponseStore, Task, ask, response_to
from fdarx_core.records import Request, Response
from fdarx_core.storage import Location


@dataclass
class Recorder:
    """An endpoint that answers last asked first, and not at all, or badly, to the words it is told."""

    name: str = "recorder"
    sampling: Mapping[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    silent: tuple[str, ...] = ()
    late: tuple[str, ...] = ()

    def answer(self, requests: Sequence[Request]) -> Iterator[Response]:
        for request in reversed(requests):
            word = request.slots["word"]
            self.asked.append(word)
            if word in self.late:
                yield response_to(request, "no reply after 60 s", f"{TRANSIENT}timeout")
            elif word not in self.silent:
                yield response_to(request, f'{{"text": "{word}!"}}')


@pytest.fixture
def store(tmp_path: Path) -> ResponseStore:
    return ResponseStore(Location(tmp_path / "responses"))


def requests(task: Task[Any], words: str) -> list[Request]:
    return [task.request({"word": word, "times": 1}, endpoint="recorder") for word in words.split()]


def said(task: Task[Any], responses: list[Response]) -> list[str]:
    return [task.parse(response).text for response in responses]


def test_in_order_and_once_for_each_distinct_request(task: Task[Any], store: ResponseStore) -> None:
    endpoint = Recorder()
    assert said(task, ask(requests(task, "a b a c"), endpoint, store)) == ["a!", "b!", "a!", "c!"]
    assert endpoint.asked == ["c", "b", "a"]


def test_works_without_a_store(task: Task[Any]) -> None:
    assert said(task, ask(requests(task, "a b"), Recorder(), None)) == ["a!", "b!"]


def test_nothing_to_ask(task: Task[Any], store: ResponseStore) -> None:
    assert ask([], Recorder(), store) == []


def test_what_was_answered_is_not_asked_again(task: Task[Any], store: ResponseStore) -> None:
    first = ask(requests(task, "a b"), Recorder(), store)
    endpoint = Recorder()
    again = ask(requests(task, "b c a"), endpoint, ResponseStore(store.root))
    assert endpoint.asked == ["c"]
    assert [again[2], again[0]] == first


def test_transient_failures_are_asked_again(task: Task[Any], store: ResponseStore) -> None:
    responses = ask(requests(task, "a b c"), Recorder(silent=("b",), late=("c",)), store)
    assert [response.reason for response in responses] == ["", "transient_unanswered", "transient_timeout"]
    endpoint = Recorder()
    assert said(task, ask(requests(task, "a b c"), endpoint, ResponseStore(store.root))) == ["a!", "b!", "c!"]
    assert sorted(endpoint.asked) == ["b", "c"]


def test_text_that_no_file_can_hold_is_mended(task: Task[Any], store: ResponseStore) -> None:
    [request] = requests(task, "a")
    store.put([response_to(request, "cut in half: \ud83d")])
    assert ResponseStore(store.root).get([request.key])[request.key].text == "cut in half: ?"


def test_a_request_to_another_endpoint_is_refused(task: Task[Any], baseline: Baseline) -> None:
    with pytest.raises(ValueError, match="for endpoint recorder, not for baseline"):
        ask(requests(task, "a"), baseline, None)


def test_changed_rules_are_asked_anew(task: Task[Any], store: ResponseStore) -> None:
    for rules in ("r1", "r2", "r1"):
        endpoint = Baseline({task.name: task}, rules)
        ask(
            [task.request({"word": "ab", "times": 1}, endpoint=endpoint.name, sampling=endpoint.sampling)],
            endpoint,
            store,
        )
    assert len(store.index()) == 2
