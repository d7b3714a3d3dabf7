"""Questions for several labels over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.llm.loopback_server import LoopbackServer
from tests.serving.local_service import LocalBackend, Service, by_server, service
from tests.serving.test_http_answers import events

QUESTION = "Which NPRDs are in the collection?"


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with service(LocalBackend(names_of_corpora=("classes", "guides"))) as running:
        yield running


def test_the_reply_has_the_drugs_and_more_passages_than_k(served: Service) -> None:
    reply = served.ask(QUESTION, k=3).json()
    assert len(reply["groups"]) == len(reply["passages"]) == 12 and reply["matching_drugs"] == 14
    for group in reply["groups"]:
        assert set(group) == {"drug", "names", "moieties", "labels", "newest", "citations"}
        [passage] = [one for one in reply["passages"] if one["n"] in group["citations"]]
        assert passage["cited"] and passage["moieties"] == group["moieties"] and group["labels"] == 1
    assert reply["answer"].endswith("Labels of 2 more drugs match.") and reply["columns"] == []


def test_a_stream_and_a_chat_have_the_same_rows(served: Service) -> None:
    whole = served.ask(QUESTION).json()
    told = events(served.ask(QUESTION, stream=True))
    pieces = [data["text"] for name, data in told if name == "delta"]
    assert "".join(pieces) == whole["answer"] == told[-1][1]["answer"] and len(pieces) > 10
    assert told[0][1]["groups"] == [] and told[-1][1]["groups"] == whole["groups"]
    chat = {"model": "classes", "messages": [{"role": "user", "content": QUESTION}]}
    reply = served.post("/v1/chat/completions", chat).json()
    assert reply["choices"][0]["message"]["content"] == whole["answer"]
    assert reply["fdarx"]["groups"] == whole["groups"] and reply["fdarx"]["matching_drugs"] == 14


def test_other_questions_and_documents_have_no_groups(served: Service) -> None:
    for question, more in (
        ("What is widorel indicated for?", {}),
        (QUESTION, {"corpus": "guides"}),
        (QUESTION, {"filter": {"drug": "widorel"}}),
    ):
        reply = served.ask(question, **more).json()
        assert reply["groups"] == [] and reply["matching_drugs"] == 0


def test_a_model_answers_from_the_passages_of_all_drugs() -> None:
    def answer(body: object) -> str:
        return "Alplegine and beplegine are for relapsing forms of nerval sclerosis [1][2]."

    with LoopbackServer(answer) as model:
        world = LocalBackend(by_server(model.openai_url), names_of_corpora=("classes",))
        with service(world) as running:
            reply = running.ask("Which drugs are indicated for relapsing NS?").json()
    assert reply["answer"].startswith("Alplegine and beplegine")
    assert [one["citations"] for one in reply["groups"]] == [[1], [2]]
