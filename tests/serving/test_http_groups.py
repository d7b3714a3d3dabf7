"""Questions which labels say something, over HTTP: a model decides what is one, and answers for each drug."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fdarx_core.rag.quotes import NO_MODEL
from fdarx_core.text.refusals import DOCUMENTS_SAY_NOTHING, LABELS_SAY_NOTHING
from tests.llm.loopback_server import LoopbackServer
from tests.rag.scopes import NAMED, SEVERAL, asks_for_scope
from tests.serving.local_service import LocalBackend, Service, by_server, service
from tests.serving.test_http_answers import events

QUESTION = "Which labels warn that their effects on bleeding with thinarol are increased?"


def answer(body: Mapping[str, Any]) -> str:
    """Reply as a model that finds an answer in passages on bleeding alone."""
    asked = str(body["messages"][-1]["content"])
    if asks_for_scope(body):
        return SEVERAL if "Which labels" in asked or "Which drugs" in asked else NAMED
    numbers = [part.split('"')[0] for part in asked.split('<context number="')[1:] if "effects of thinarol" in part]
    return f"The effects of thinarol on bleeding are increased [{numbers[0]}]." if numbers else DOCUMENTS_SAY_NOTHING


@pytest.fixture(scope="module")
def model() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer) as server:
        yield server


@pytest.fixture(scope="module")
def served(model: LoopbackServer) -> Iterator[Service]:
    with service(LocalBackend(by_server(model.openai_url), ("classes", "guides"), asks_scope=True)) as running:
        yield running


def test_each_drug_whose_labels_say_it_has_a_paragraph_and_a_row(served: Service) -> None:
    reply = served.ask(QUESTION, k=3).json()
    assert 2 <= len(reply["groups"]) == len(reply["columns"]) <= 12 and not reply["refused"]
    for group, column in zip(reply["groups"], reply["columns"], strict=True):
        assert set(group) == {"drug", "moieties", "labels", "newest", "citations"}
        assert group["moieties"] == column["moieties"] != ["thinarol"]
        cited = [one for one in reply["passages"] if one["n"] in group["citations"]]
        assert all(one["cited"] and one["moieties"] == group["moieties"] for one in cited)
        assert reply["answer"][column["answer_start"] :].startswith("The effects of thinarol on bleeding are increased")
    assert LABELS_SAY_NOTHING not in reply["answer"]


def test_a_stream_and_a_chat_have_the_same_text(served: Service) -> None:
    whole = served.ask(QUESTION).json()
    told = events(served.ask(QUESTION, stream=True))
    pieces = [data["text"] for name, data in told if name == "delta"]
    assert "".join(pieces) == whole["answer"] == told[-1][1]["answer"]
    assert told[0][1]["groups"] == [] and told[-1][1]["groups"] == whole["groups"]
    chat = {"model": "classes", "messages": [{"role": "user", "content": QUESTION}]}
    reply = served.post("/v1/chat/completions", chat).json()
    assert reply["fdarx"]["groups"] == whole["groups"]


def test_a_question_that_no_label_answers_is_refused_once(served: Service) -> None:
    asked = "Which labels are of drugs indicated for raised pressure?"
    reply = served.ask(asked).json()
    assert (reply["answer"], reply["refused"], reply["groups"]) == (LABELS_SAY_NOTHING, True, [])
    told = events(served.ask(asked, stream=True))
    assert [data["text"] for name, data in told if name == "delta"] == [LABELS_SAY_NOTHING]


def test_other_questions_and_documents_have_no_groups(served: Service) -> None:
    for question, more in (
        ("What is widorel indicated for?", {}),
        (QUESTION, {"corpus": "guides"}),
        (QUESTION, {"filter": {"drug": "widorel"}}),
    ):
        assert served.ask(question, **more).json()["groups"] == []


def test_without_a_model_there_are_passages_alone() -> None:
    with service(LocalBackend(names_of_corpora=("classes",))) as running:
        reply = running.ask(QUESTION, filter={"any_drug": True}).json()
    assert reply["groups"] == [] and reply["answer"].startswith(NO_MODEL) and len(reply["passages"]) == 6
