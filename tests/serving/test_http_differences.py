"""Labels of one drug that disagree in a number, and drugs without a label, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.labels.rrf import write_names
from tests.llm.loopback_server import LoopbackServer
from tests.serving.local_service import LocalBackend, Service, by_server, service
from tests.serving.test_http_answers import events

QUESTION = "What is the maximum daily dose of veloran?"
NOTE = "Other labels differ from 2,550 mg: 2,000 mg (2005-03-01)."
SENTENCE = "The maximum daily dose of VELORA is {} mg taken with food (2.{})."
OTHERS = [
    {"set_id": "old", "drug": "VELORA", "effective_date": "2005-03-01", "sentence": SENTENCE.format("2,000", 1)},
    {"set_id": "older", "drug": "VELORA", "effective_date": "2003-03-01", "sentence": SENTENCE.format("2000", 2)},
]
DIFFERENCE = {"sentence": SENTENCE.format("2,550", 0), "others": OTHERS}


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with service(LocalBackend(names_of_corpora=["disagreeing"])) as running:
        yield running


def test_passages_tell_their_copies_and_the_numbers_of_others(served: Service) -> None:
    reply = served.post("/v1/search", {"question": QUESTION}).json()
    dose, *others = sorted(reply["passages"], key=lambda one: one["section"])
    assert dose["set_id"] == "new" and dose["copies"] == 3 and dose["differences"] == [DIFFERENCE]
    assert [one["set_id"] for one in dose["copied_by"]] == ["generic", "old", "older"]
    assert not any(one["differences"] for one in others)
    assert reply["absent"] == []


def test_an_answer_ends_with_the_numbers_of_others(served: Service) -> None:
    reply = served.ask(QUESTION).json()
    assert reply["answer"].endswith(f"\n\n{NOTE}")
    assert [one["differences"] for one in reply["citations"] if "2,550" in one["quote"]] == [[DIFFERENCE]]
    assert all(one["statement_end"] <= reply["answer"].index(NOTE) for one in reply["citations"])
    told = events(served.ask(QUESTION, stream=True))
    assert "".join(data["text"] for name, data in told if name == "delta") == reply["answer"] == told[-1][1]["answer"]
    chat = {"model": "disagreeing", "messages": [{"role": "user", "content": QUESTION}]}
    content = served.post("/v1/chat/completions", chat).json()["choices"][0]["message"]["content"]
    assert content.startswith(reply["answer"])


def test_the_answer_of_a_model_ends_with_them_too() -> None:
    with (
        LoopbackServer(lambda _: "At most 2,550 mg of VELORA are taken daily with food [1][2].") as model,
        service(LocalBackend(by_server(model.openai_url), names_of_corpora=["disagreeing"])) as served,
    ):
        assert served.ask(QUESTION).json()["answer"].endswith(f"].\n\n{NOTE}")
        told = events(served.ask(QUESTION, stream=True))
        assert "".join(data["text"] for name, data in told if name == "delta").endswith(f"].\n\n{NOTE}")


def test_a_drug_without_a_label_is_named(served: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_names(tmp_path, {"furosemide": ""})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for path in ("/v1/search", "/v1/answers"):
        reply = served.post(path, {"question": "What is the dose of furosemide?"}).json()
        assert reply["absent"] == [
            {"name": "furosemide", "medicine": "furosemide", "nearest": [], "mentions": 0, "mentioned_by": []}
        ]
