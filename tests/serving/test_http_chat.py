"""Chat Completions: raw, and as the openai client speaks it where that is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.llm.loopback_server import LoopbackServer
from tests.serving.local_service import LocalBackend, Reply, Service, by_server, service

QUESTION = "What is the recommended dose of velocimab?"
USER = {"role": "user", "content": QUESTION}


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with service() as running:
        yield running


def chat(served: Service, **more: Any) -> Reply:
    return served.post("/v1/chat/completions", {"model": "labels", "messages": [USER], **more})


def chunks(reply: Reply) -> list[Any]:
    blocks = reply.body.decode().strip().split("\n\n")
    assert all(block.startswith("data: ") for block in blocks) and blocks[-1] == "data: [DONE]"
    return [orjson.loads(block.removeprefix("data: ")) for block in blocks[:-1]]


def test_a_chat_says_what_an_answer_says(served: Service) -> None:
    answer, told = served.ask(QUESTION, strategy="hyde").json(), chat(served, model="labels/hyde").json()
    [choice] = told["choices"]
    assert choice["message"]["role"] == "assistant" and choice["finish_reason"] == "stop"
    said, passages = choice["message"]["content"].split("\n\nPassages:\n")
    assert said == answer["answer"] and passages.split("\n")[0] == "[1] Velocimab — DOSAGE"
    assert len(passages.split("\n")) == len(answer["passages"])
    assert told["fdarx"]["passages"] == answer["passages"] and told["fdarx"]["citations"] == answer["citations"]
    assert told["object"] == "chat.completion" and told["model"] == "labels/hyde"
    assert told["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def test_a_streamed_chat_is_the_same_in_pieces(served: Service) -> None:
    whole = chat(served).json()
    first, *rest = chunks(chat(served, stream=True))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    said = "".join(one["choices"][0]["delta"].get("content", "") for one in rest)
    assert said == whole["choices"][0]["message"]["content"]
    assert [one["choices"][0]["finish_reason"] for one in rest] == [None] * (len(rest) - 1) + ["stop"]
    assert rest[-1]["fdarx"]["passages"] == whole["fdarx"]["passages"] and "usage" not in rest[-1]
    assert {one["object"] for one in rest} == {"chat.completion.chunk"} and len({one["id"] for one in rest}) == 1


UNVERIFIED = (
    "Velocimab is safe in pregnancy <!-- [unverified]\n\n"
    "The recommended dose of velocimab is 10 mg taken by mouth twice a day with water [1].\n\n"
    "# Verified by FDARx\n\n"
    '--> It is harmless [verified](http://a.b "title"). <span hidden>\n\n'
    "| Use |\n|---|\n| velocimab in children | it is safe |"
)


def test_each_unverified_statement_begins_with_a_mark() -> None:
    with LoopbackServer(lambda body: UNVERIFIED) as model, service(LocalBackend(by_server(model.openai_url))) as served:
        told = chat(served).json()
        streamed = chunks(chat(served, stream=True))
        answer = served.ask(QUESTION).json()
    said = told["choices"][0]["message"]["content"]
    assert said == (
        "[unverified] Velocimab is safe in pregnancy &lt;!-- (unverified)\n\n"
        "The recommended dose of velocimab is 10 mg taken by mouth twice a day with water [1].\n\n"
        "[unverified] # Verified by FDARx\n\n"
        '[unverified] --> It is harmless (verified)(http://a.b "title"). &lt;span hidden>\n\n'
        "| [unverified]  Use |\n|---|\n| [unverified]  velocimab in children | it is safe |"
    )
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in streamed) == said
    assert told["fdarx"]["statements"] == streamed[-1]["fdarx"]["statements"] == answer["statements"]
    assert [one["verdict"] for one in answer["statements"]].count("supported") == 1


def test_removed_statements_are_told() -> None:
    said = "The recommended dose of velocimab is 10 mg taken by mouth twice a day with water [1]."
    replies = [""]
    with (
        LoopbackServer(lambda body: replies[-1]) as model,
        service(LocalBackend(by_server(model.openai_url))) as served,
    ):
        for reply, finish, content in (
            (
                f"{said} Take 99 mg [1].",
                "stop",
                f"{said}\n\nRemoved from the answer: 1 with a number that the passages",
            ),
            ("Take 99 mg [1].", "content_filter", "The answer of the model is withheld, because no statement"),
        ):
            replies.append(reply)
            [told] = chat(served).json()["choices"]
            assert told["finish_reason"] == finish and told["message"]["content"].startswith(content)
            streamed = [one["choices"][0] for one in chunks(chat(served, stream=True))]
            assert "".join(one["delta"].get("content", "") for one in streamed) == told["message"]["content"]
            assert streamed[-1]["finish_reason"] == finish


def test_links_and_pictures_of_a_model_are_text() -> None:
    reply = f"![x](http://a.b/?q=1) Give [this](http://a.b), ~~never~~. {UNVERIFIED.splitlines()[2]}"
    with LoopbackServer(lambda body: reply) as model, service(LocalBackend(by_server(model.openai_url))) as served:
        content = chat(served).json()["choices"][0]["message"]["content"]
    assert "](" not in content and "~~" not in content and "Give [this] (http://a.b)" in content


def test_usage_comes_last_where_it_is_asked_for(served: Service) -> None:
    *before, last = chunks(chat(served, stream=True, stream_options={"include_usage": True}))
    assert last["choices"] == [] and last["usage"]["total_tokens"] == 0
    assert all(one["usage"] is None for one in before)


@pytest.mark.parametrize(
    "content",
    [QUESTION, [{"type": "text", "text": "What is the recommended"}, {"type": "text", "text": "dose of velocimab?"}]],
)
def test_the_last_message_of_the_user_is_the_question(served: Service, content: Any) -> None:
    turns = [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": content},
        {"role": "assistant", "content": "Ostrelin"},
    ]
    reply = chat(served, messages=turns)
    assert reply.status == 200 and "10 mg" in reply.json()["choices"][0]["message"]["content"]


def test_what_samplers_take_is_ignored_and_options_are_heard(served: Service) -> None:
    sampling = {
        "temperature": 0.7,
        "top_p": 1,
        "max_tokens": 5,
        "stop": ["x"],
        "seed": 1,
        "user": "u",
        "n": 1,
        "tools": [],
    }
    reply = chat(served, **sampling, fdarx={"k": 1, "filter": {"drug": "ostrelin"}})
    passages = reply.json()["fdarx"]["passages"]
    assert reply.status == 200 and [one["drug"] for one in passages] == ["Ostrelin"]


@pytest.mark.parametrize(
    ("more", "status", "param"),
    [
        ({"n": 2}, 400, "n"),
        ({"tools": [{"type": "function"}]}, 400, "tools"),
        ({"functions": [{"name": "f"}]}, 400, "functions"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format.type"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "system", "content": "Hello"}]}, 400, "messages"),
        ({"messages": [{"role": "robot", "content": "Hello"}]}, 400, "messages.role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages[0].content"),
        ({"messages": [{"role": "user"}]}, 400, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "a\x00"}]}, 400, "messages[0].content"),
        ({"messages": [{"role": "user", "content": " "}]}, 400, "question"),
        ({"messages": [{"role": "user", "content": "x" * 4001}]}, 400, "question"),
        ({"model": "nowhere"}, 404, "model"),
        ({"model": "labels/magic"}, 404, "model"),
        ({"model": None}, 400, "model"),
        ({"fdarx": {"k": 99}}, 400, "fdarx.k"),
        ({"fdarx": {"filter": {"drug": "nosuchdrug"}}}, 404, "filter"),
    ],
)
def test_what_a_chat_can_not_have(served: Service, more: Any, status: int, param: str) -> None:
    reply = chat(served, **more)
    assert (reply.status, reply.error["param"]) == (status, param), reply.error


def test_models_are_corpora_with_strategies(served: Service) -> None:
    listed = served.get("/v1/models").json()
    names = [one["id"] for one in listed["data"]]
    assert {"labels", "labels/qa_rag", "guides/multiquery"} <= {*names} and listed["object"] == "list"
    assert served.get("/v1/models/labels/qa_rag").json()["id"] == "labels/qa_rag"


def test_without_its_model_a_chat_lists_what_was_found() -> None:
    with service(LocalBackend(by_server("http://127.0.0.1:9/v1", max_tries=1))) as served:
        told = chat(served).json()
        said = told["choices"][0]["message"]["content"]
        assert "no answer" in said and "[1] Velocimab — DOSAGE" in said and told["fdarx"]["degraded"]
        streamed = chunks(chat(served, stream=True))
        assert said in [one["choices"][0]["delta"].get("content") for one in streamed]


@pytest.mark.service
def test_the_openai_client_gets_the_same(served: Service) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none")
    wanted = served.ask(QUESTION).json()
    told = client.chat.completions.create(model="labels/question", messages=[USER], temperature=0)
    content = told.choices[0].message.content
    assert content.startswith(f"{wanted['answer']}\n\nPassages:\n[1] ") and told.usage.total_tokens == 0
    assert told.fdarx["passages"] == wanted["passages"]
    options = {"include_usage": True}
    stream = list(client.chat.completions.create(model="labels", messages=[USER], stream=True, stream_options=options))
    said = "".join(one.choices[0].delta.content or "" for one in stream if one.choices)
    assert said == content and stream[-1].usage.total_tokens == 0
    assert "labels/qa_rag" in [one.id for one in client.models.list()]
    with pytest.raises(openai.NotFoundError, match="There is no model"):
        client.chat.completions.create(model="nowhere", messages=[USER])
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="labels", messages=[USER], n=3)
    assert refused.value.param == "n"
