"""Questions that follow earlier ones: over HTTP, in a chat, and in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import fdarx_core as fdarx
from fdarx_core.rag.query import TURNS
from fdarx_core.retrieval.index import IndexStore
from tests.llm.loopback_server import Fault, LoopbackServer
from tests.serving.local_service import LocalBackend, Service, by_server, label_chunks, service
from tests.serving.test_http_answers import events

FIRST = "What is the recommended dose of velocimab?"
HISTORY = [{"question": FIRST, "answer": "It is 10 mg twice a day [1]."}]
STANDALONE = "Which warnings are there for ostrelin?"


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with service() as running:
        yield running


def rewriting(reply: Any) -> Any:
    """A model that rewrites with a reply, and answers."""

    def answer(body: Any) -> str:
        return orjson.dumps(reply).decode() if "Next question:" in str(body) else "It causes drowsiness [1]."

    return answer


def test_without_a_model_a_question_is_searched_as_it_is(served: Service) -> None:
    for question in ("How is it stored?", "and for ostrelin?", FIRST):
        reply = served.ask(question, history=HISTORY).json()
        assert reply["standalone_question"] == question and reply["searches"] == [question]
        assert reply["degraded"] is None and served.world.asked["rewriter"] == 0


def test_search_and_streams_rewrite_alike(rewritten: Service) -> None:
    served = rewritten
    more: dict[str, Any] = {"question": "How is it stored?", "history": HISTORY}
    whole = served.ask(**more).json()
    found = served.post("/v1/search", more).json()
    assert found["standalone_question"] == whole["standalone_question"] and found["passages"] == [
        {**one, "cited": False} for one in whole["passages"]
    ]
    told = events(served.ask(**more, stream=True))
    assert told[0][1]["standalone_question"] == whole["standalone_question"]
    assert told[-1][1]["answer"] == whole["answer"]


@pytest.fixture(scope="module")
def rewritten() -> Iterator[Service]:
    with (
        LoopbackServer(rewriting({"question": STANDALONE})) as model,
        service(LocalBackend(by_server(model.openai_url))) as running,
    ):
        yield running


def test_a_chat_is_a_conversation(rewritten: Service) -> None:
    served = rewritten
    turns = [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
        {"role": "user", "content": FIRST},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "It is 10 mg twice a day [1]."},
        {"role": "user", "content": [{"type": "text", "text": "How is it stored?"}]},
    ]
    chat = served.post("/v1/chat/completions", {"model": "labels", "messages": turns}).json()
    alone = served.ask("How is it stored?", history=HISTORY).json()
    assert chat["choices"][0]["message"]["content"] == f"[unverified] {alone['answer']}"
    assert chat["fdarx"]["standalone_question"] == STANDALONE and chat["fdarx"]["passages"] == alone["passages"]


def test_a_long_chat_is_answered_and_a_long_history_is_refused(served: Service) -> None:
    turn = {"role": "user", "content": "x" * 5_000}
    chat = {"model": "labels", "messages": [turn] * 60 + [{"role": "user", "content": FIRST}]}
    assert served.post("/v1/chat/completions", chat).status == 200
    for history, param in (
        (HISTORY * 51, "history"),
        ([{"question": ""}], "history.question"),
        ([{"question": "x" * 20_001}], "history.question"),
        ([{"question": "x", "answer": "x" * 20_001}], "history.answer"),
        ([{"question": "x", "role": "user"}], "history.role"),
        ([FIRST], "history"),
    ):
        for path in ("/v1/answers", "/v1/search"):
            reply = served.post(path, {"question": FIRST, "history": history})
            assert (reply.status, reply.error["param"]) == (422, param) and len(reply.error["message"]) < 500


def test_a_model_rewrites_and_its_tokens_count() -> None:
    with (
        LoopbackServer(rewriting({"question": STANDALONE})) as model,
        service(LocalBackend(by_server(model.openai_url))) as served,
    ):
        alone = served.ask(STANDALONE).json()
        assert served.world.asked["rewriter"] == 0
        reply = served.ask("and the other one?", history=HISTORY * 30).json()
        assert reply["standalone_question"] == STANDALONE and reply["degraded"] is None
        assert reply["passages"] == alone["passages"] and served.world.asked["rewriter"] == 1
        assert reply["usage"]["prompt_tokens"] > alone["usage"]["prompt_tokens"]
        [asked] = [str(call.body) for call in model.calls if "Next question:" in str(call.body)]
        assert asked.count(FIRST) == TURNS


@pytest.mark.parametrize("reply", [{"question": ""}, {"rewritten": STANDALONE}, {"question": "x" * 5_000}])
def test_without_a_usable_rewriting_the_question_stays(reply: Any) -> None:
    with LoopbackServer(rewriting(reply)) as model, service(LocalBackend(by_server(model.openai_url))) as served:
        told = served.ask("How is it stored?", history=HISTORY).json()
        assert told["standalone_question"] == "How is it stored?" and told["answer"]
        assert told["degraded"] == "standalone_question: wrong_shape"
        model.faults = lambda call: Fault(status=400, error={"message": "no"})
        told = served.ask("How is it stored?", history=HISTORY).json()
        assert told["standalone_question"] == "How is it stored?" and not told["answer"]
        assert told["degraded"].startswith("standalone_question: failed_request")


def test_a_conversation_in_python(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    store.commit([store.write_segment(label_chunks())])
    index = fdarx.Index.open(tmp_path)
    history = [(FIRST, "It is 10 mg twice a day [1].")]
    with (
        LoopbackServer(rewriting({"question": STANDALONE})) as server,
        fdarx.Model("tiny", base_url=server.openai_url) as model,
    ):
        answer = index.answer("and the other one?", model=model, history=history)
    assert answer.standalone_question == STANDALONE
    assert {hit.drug for hit in answer.contexts} == {"Ostrelin"}
    assert index.answer("How is it stored?", history=history).standalone_question == "How is it stored?"
