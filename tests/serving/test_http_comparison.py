"""Questions that name several drugs: an answer for each, over HTTP and in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fdarx_core as fdarx
from fdarx_core.retrieval.index import IndexStore
from tests.llm.loopback_server import Fault, LoopbackServer
from tests.serving.local_service import LocalBackend, Service, by_server, label_chunks, service
from tests.serving.test_http_answers import events

QUESTION = "What is the dose of velocimab, and what is the dose of ostrelin?"
REPLIES = {
    "velocimab": "The recommended dose of velocimab is 10 mg taken by mouth twice a day with water {own}.",
    "ostrelin": "Shake the bottle of ostrelin well and measure each dose with the syringe supplied {own}.",
}


def prompt(body: Any) -> str:
    return str(body["messages"][-1]["content"])


def verdict(said: str) -> str:
    return f'{{"verdicts": [{{"passage": 1, "reason": "It says so.", "quote": "", "verdict": "{said}"}}]}}'


def drug_asked(body: Any) -> str:
    found = re.search(r"Answer for (\w+) alone", prompt(body))
    return found[1] if found else ""


def numbers(body: Any) -> list[str]:
    return re.findall(r'<context number="(\d+)"', prompt(body))


COMPARISON = "Velocimab is taken by mouth, while ostrelin is measured with a syringe [1][4]."


def answer_each(body: Any) -> str:
    """A model that cites all contexts that it is shown, compares the drugs, and verifies the comparison."""
    if "<answer drug=" in prompt(body):
        return COMPARISON
    if "<claim>" in prompt(body):
        return verdict("supported")
    return REPLIES[drug_asked(body)].format(own="".join(f"[{number}]" for number in numbers(body)))


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with LoopbackServer(answer_any) as model, service(LocalBackend(by_server(model.openai_url))) as running:
        yield running


def answer_any(body: Any) -> Any:
    """A model that answers for a drug, and else writes three questions, or a score."""
    if drug_asked(body) or "<answer drug=" in prompt(body) or "<claim>" in prompt(body):
        return answer_each(body)
    return (
        '{"questions": ["What dose?", "Which dose?", "How much?"]}'
        if "questions" in str(body)
        else "Velocimab and ostrelin have a dose."
    )


def paragraphs(reply: dict[str, Any]) -> dict[str, str]:
    return {one["drug"]: reply["answer"][one["answer_start"] : one["answer_end"]] for one in reply["columns"]}


def test_each_drug_has_a_paragraph_from_its_own_passages(served: Service) -> None:
    reply = served.ask(QUESTION).json()
    assert [(one["drug"], one["refused"]) for one in reply["columns"]] == [("velocimab", False), ("ostrelin", False)]
    said = paragraphs(reply)
    assert "10 mg" in said["velocimab"] and "syringe" in said["ostrelin"]
    paragraph = f"Velocimab:\n{said['velocimab']}\n\nOstrelin:\n{said['ostrelin']}\n\nComparison:\n"
    assert reply["answer"] == paragraph + COMPARISON
    drugs = {one["n"]: one["drug"].lower() for one in reply["passages"]}
    for one in (one for one in reply["citations"] if one["statement_start"] < len(paragraph)):
        [column] = [
            each for each in reply["columns"] if each["answer_start"] <= one["statement_start"] < each["answer_end"]
        ]
        assert drugs[one["n"]] == column["drug"]
        assert f"[{one['n']}]" in reply["answer"][one["statement_start"] : one["statement_end"]]
    assert reply["gate"]["statements"] >= 2 and not reply["refused"]
    assert len(reply["statements"]) == reply["gate"]["supported"] == reply["gate"]["statements"]
    assert (reply["statements"][-1]["start"], reply["statements"][-1]["citations"]) == (len(paragraph), [1, 4])
    places = {(one["start"], one["end"]) for one in reply["statements"]}
    assert {(one["statement_start"], one["statement_end"]) for one in reply["citations"]} == places


def test_a_stream_and_a_chat_have_the_same_paragraphs(served: Service) -> None:
    whole = served.ask(QUESTION).json()
    told = events(served.ask(QUESTION, stream=True))
    assert "".join(data["text"] for name, data in told if name == "delta") == whole["answer"] == told[-1][1]["answer"]
    assert told[0][1]["columns"] == [] and told[-1][1]["columns"] == whole["columns"]
    chat = {"model": "labels", "messages": [{"role": "user", "content": QUESTION}]}
    reply = served.post("/v1/chat/completions", chat).json()
    assert reply["choices"][0]["message"]["content"] == whole["answer"]
    assert reply["fdarx"]["columns"] == whole["columns"]


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("more", [{}, {"strategy": "multiquery"}, {"strategy": "hyde"}, {"postprocess": "score"}])
def test_drugs_share_the_passages(served: Service, k: int, more: dict[str, Any]) -> None:
    found = served.post("/v1/search", {"question": QUESTION, "k": k, **more}).json()["passages"]
    drugs = [one["drug"] for one in found]
    assert len(drugs) == k and abs(drugs.count("Velocimab") - drugs.count("Ostrelin")) <= k % 2


@pytest.mark.parametrize(
    "ask",
    [
        {"question": "What is the dose of velocimab?"},
        {"question": "Which labels mention a bottle?"},
        {"question": QUESTION, "filter": {"drug": "ostrelin"}},
        {"question": QUESTION, "filter": {"any_drug": True}},
        {"question": QUESTION, "corpus": "guides"},
    ],
)
def test_other_questions_have_one_answer(served: Service, ask: dict[str, Any]) -> None:
    reply = served.post("/v1/answers", ask).json()
    assert reply["columns"] == [] and "Velocimab:\n" not in reply["answer"]


def test_a_model_is_asked_for_each_drug_at_once() -> None:
    with (
        LoopbackServer(answer_each, latency=0.2) as model,
        service(LocalBackend(by_server(model.openai_url))) as served,
    ):
        reply = served.ask(QUESTION).json()
        *answers, comparison, check = model.calls
        assert {drug_asked(call.body): "ostrelin" in prompt(call.body) for call in answers} == {
            "velocimab": True,
            "ostrelin": True,
        }
        drugs = {str(one["n"]): one["drug"].lower() for one in reply["passages"]}
        assert all(reply in prompt(comparison.body) for reply in paragraphs(reply).values())
        assert all(passage["text"] in prompt(check.body) for passage in reply["passages"] if passage["cited"])
        for call in answers:
            assert {drugs[number] for number in numbers(call.body)} == {drug_asked(call.body)}
        assert model.most_in_flight == 2
        assert [drugs[str(one["n"])] for one in reply["citations"]] == ["velocimab", "ostrelin"] * 2
        assert "10 mg" in paragraphs(reply)["velocimab"] and "syringe" in paragraphs(reply)["ostrelin"]
        tokens = reply["usage"]["completion_tokens"]
        assert tokens == sum(len(answer_each(call.body)) // 4 + 1 for call in model.calls)
        streamed = events(served.ask(QUESTION, stream=True))
        assert streamed[-1][1]["answer"] == reply["answer"] and model.most_in_flight == 2


def test_what_cites_another_drugs_passage_goes() -> None:
    def swapped(body: Any) -> str:
        return REPLIES[drug_asked(body)].format(own="[2][4]" if drug_asked(body) == "velocimab" else "[1][3]")

    with LoopbackServer(swapped) as model, service(LocalBackend(by_server(model.openai_url))) as served:
        reply = served.ask(QUESTION).json()
        assert reply["withheld"] and reply["citations"] == reply["statements"] == [] and not reply["refused"]
        assert [one["reason"] for one in reply["gate"]["dropped"]] == ["drug", "drug"]


@pytest.mark.parametrize(
    ("comparison", "verified", "dropped"),
    [
        ("Velocimab and ostrelin are both measured with a syringe [1][4].", "contradicted", ["contradicted"]),
        ("Velocimab is taken as 70 mg, unlike ostrelin [1][4].", "supported", ["number"]),
        ("Say in one to three sentences what the drugs share [1][4].", "unsupported", ["instructions"]),
        ("The documents at hand do not say.", "supported", []),
        ("", "supported", []),
    ],
)
def test_a_comparison_that_does_not_pass_the_gate_is_left_out(
    comparison: str, verified: str, dropped: list[str]
) -> None:
    def compare(body: Any) -> str:
        if "<answer drug=" in prompt(body):
            return comparison
        return verdict(verified) if "<claim>" in prompt(body) else answer_each(body)

    with LoopbackServer(compare) as model, service(LocalBackend(by_server(model.openai_url))) as served:
        reply = served.ask(QUESTION).json()
    assert "Comparison" not in reply["answer"] and not reply["withheld"] and not reply["refused"]
    assert [one["reason"] for one in reply["gate"]["dropped"]] == dropped
    assert (reply["degraded"] is None) == bool(comparison)


def test_one_drug_may_be_refused_or_fail() -> None:
    def one_refuses(body: Any) -> str:
        return answer_each(body) if drug_asked(body) == "ostrelin" else "The documents at hand do not say."

    with (
        LoopbackServer(one_refuses) as model,
        service(LocalBackend(by_server(model.openai_url, max_tries=1))) as served,
    ):
        reply = served.ask(QUESTION).json()
        assert [one["refused"] for one in reply["columns"]] == [True, False] and not reply["refused"]
        assert paragraphs(reply)["velocimab"] == "The labels at hand do not say."
        model.faults = lambda call: Fault(status=400) if drug_asked(call.body) == "velocimab" else None
        for failed in (served.ask(QUESTION).json(), events(served.ask(QUESTION, stream=True))[-1][1]):
            assert failed["degraded"] and paragraphs(failed)["velocimab"] == ""
            assert "syringe" in paragraphs(failed)["ostrelin"]
        model.faults = lambda call: Fault(status=400)
        failed = served.ask(QUESTION).json()
        assert (failed["answer"], failed["columns"]) == ("", []) and failed["degraded"].startswith("answer: ")


def test_a_comparison_in_python(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    store.commit([store.write_segment(label_chunks())])
    index = fdarx.Index.open(tmp_path)
    with LoopbackServer(answer_each) as server, fdarx.Model("tiny", base_url=server.openai_url) as model:
        answer = index.answer(QUESTION, model=model)
    assert [one.drug for one in answer.columns] == ["velocimab", "ostrelin"]
    assert answer.text.endswith(COMPARISON)
    for citation in (one for one in answer.citations if one.statement[1] < len(answer.text)):
        [column] = [one for one in answer.columns if one.answer_start <= citation.statement[0] < one.answer_end]
        assert citation.hit == answer.contexts[citation.n - 1] and citation.drug.lower() == column.drug
    without = index.answer(QUESTION)
    assert without.columns == [] and {one.drug for one in without.contexts} == {"Velocimab", "Ostrelin"}
