"""What the tasks show a model, what their baselines reply, and that their examples keep the rules they teach."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from fdarx_core.filters.quotations import is_quoted
from fdarx_core.generation.tasks import GENERATE_FACTUAL, GENERATE_MULTIHOP, RULES_VERSION, Difficulty
from fdarx_core.generation.writing import writing_tasks
from fdarx_core.llm import Baseline, Task, ask

DOSE = (
    "The recommended starting dosage of VELTRAPAN in adults is 25 mg orally once daily. Increase to a maximum of "
    "100 mg once daily. In patients with severe renal impairment the maximum recommended dosage is 50 mg once daily."
)
SUPPLY = "VELTRAPAN tablets, 25 mg, are round and white. Store at 20°C to 25°C (68°F to 77°F) in the original bottle."
SHARED: dict[str, Any] = {
    "drug": "Veltrapan",
    "ingredients": "veltrapan mesylate",
    "forms": "tablet, oral",
    "outline": "DOSAGE AND ADMINISTRATION (here)\nHOW SUPPLIED (asked)",
    "about": "the dosage in renal impairment",
    "absent": ["hereditary angioedema", "gout"],
    "twin": "near_miss",
}
WRITTEN = {
    "question": "What is the maximum dosage of Veltrapan?",
    "answer": "100 mg once daily.",
    "twin": {
        "kind": "absent",
        "entity": "gout",
        "attribute": "",
        "question": "What is the dosage of Veltrapan for gout?",
    },
}
SLOTS: dict[str, dict[str, Any]] = {
    "generate_factual": {
        **SHARED,
        "passages": [{"section": "DOSAGE AND ADMINISTRATION", "table": "Table 1: Dosage > Adults", "text": DOSE}],
        "k": 3,
        "prefer": "a dose of one population",
        "written": [],
    },
    "generate_multihop": {
        **SHARED,
        "passages": [
            {"section": "DOSAGE AND ADMINISTRATION", "table": "Table 1: Dosage > Adults", "text": DOSE},
            {"section": "HOW SUPPLIED", "table": "Table 9: Strengths", "text": SUPPLY},
        ],
        "reason": "A dose is made of strengths.",
        "link": "how many units give a dose",
        "written": [],
    },
}
ALL = sorted(SLOTS)


def texts(value: Any) -> list[str]:
    """All strings in a slot's value."""
    if isinstance(value, list | dict):
        return [text for part in (value.values() if isinstance(value, dict) else value) for text in texts(part)]
    return [str(value)]


def answered(task: Task[Any], slots: dict[str, Any]) -> Any:
    endpoint = Baseline(writing_tasks(), RULES_VERSION)
    request = task.request(slots, endpoint=endpoint.name, sampling=endpoint.sampling)
    return task.parse(ask([request], endpoint, None)[0])


def test_every_task_has_its_case_here() -> None:
    assert sorted(writing_tasks()) == ALL


@pytest.mark.parametrize("name", ALL)
def test_the_model_sees_every_slot_but_what_the_rules_wrote(name: str) -> None:
    slots = SLOTS[name] | {"written": [{**WRITTEN, "answer": "The rules wrote this."}]}
    shown = writing_tasks()[name].request(slots, endpoint="small").messages
    for slot, value in slots.items():
        if slot != "written":
            assert all(line in shown[-1]["content"] for text in texts(value) for line in text.split("\n"))
    assert not any("The rules wrote this." in message["content"] for message in shown)


@pytest.mark.parametrize("name", ALL)
def test_the_beginning_is_the_same_for_all(name: str) -> None:
    """Servers reuse the computation of a shared beginning, so all but the last message must not vary."""
    other = {slot: value * 2 if isinstance(value, str) else value for slot, value in SLOTS[name].items()}
    one, two = (writing_tasks()[name].request(slots, endpoint="small") for slots in (SLOTS[name], other))
    assert one.messages[:-1] == two.messages[:-1]
    assert one.messages[-1] != two.messages[-1]


@pytest.mark.parametrize("name", ALL)
def test_a_section_without_a_title_is_called_so(name: str) -> None:
    slots = SLOTS[name] | {"passages": [one | {"section": ""} for one in SLOTS[name]["passages"]]}
    assert "(untitled)" in writing_tasks()[name].request(slots, endpoint="small").messages[-1]["content"]


@pytest.mark.parametrize("name", ALL)
def test_where_nothing_is_absent_the_writer_is_told_so(name: str) -> None:
    shown = writing_tasks()[name].request(SLOTS[name] | {"absent": []}, endpoint="small").messages[-1]["content"]
    assert "Absent from this label: (nothing suggested)\nPrefer as twin: near_miss" in shown


@pytest.mark.parametrize("name", ALL)
def test_the_prompt_explains_every_line_that_it_shows(name: str) -> None:
    """A writer said that "Ask about", "(asked)" and the table of a passage were not explained."""
    system, *_, user = (one["content"] for one in writing_tasks()[name].request(SLOTS[name], endpoint="small").messages)
    marks = ["(here)", "(asked)", "Ask about", "Prefer", "near_miss", "table", "outline"]
    marks.append("Why these sections belong together" if name == "generate_multihop" else "number of questions")
    said = " ".join(system.lower().split())
    assert all(mark.lower() in said for mark in marks)
    assert ("Prefer" in user) and 'table="Table 1: Dosage > Adults"' in user


@pytest.mark.parametrize("name", ALL)
def test_schema_takes_no_other_fields_and_needs_all(name: str) -> None:
    """What servers ask of a strict response_format."""
    schema = writing_tasks()[name].request(SLOTS[name], endpoint="small").schema
    for part in [schema, *schema.get("$defs", {}).values()]:
        assert part["additionalProperties"] is False
        assert sorted(part["required"]) == sorted(part["properties"])


@pytest.mark.parametrize("name", ALL)
def test_models_copy_the_evidence_before_they_ask(name: str) -> None:
    schema = writing_tasks()[name].request(SLOTS[name], endpoint="small").schema
    [item] = (part for title, part in schema["$defs"].items() if title.endswith("Item"))
    fields = list(item["properties"])
    assert fields[0].startswith("evidence")
    assert [one for one in fields if one in ("question", "answer", "twin")] == ["question", "answer", "twin"]


def test_the_baselines_reply_what_was_written_for_them() -> None:
    factual = {**WRITTEN, "evidence": [DOSE], "type": "numeric", "difficulty": "direct"}
    [item] = answered(GENERATE_FACTUAL, SLOTS["generate_factual"] | {"written": [factual]}).items
    assert item.model_dump() == factual
    hops = {**WRITTEN, "evidence_a": [DOSE], "evidence_b": [SUPPLY], "kind": "computation", "twin": None}
    [item] = answered(GENERATE_MULTIHOP, SLOTS["generate_multihop"] | {"written": [hops]}).items
    assert item.model_dump() == hops


@pytest.mark.parametrize("name", ALL)
def test_the_baselines_ask_nothing_where_nothing_was_written(name: str) -> None:
    assert answered(writing_tasks()[name], SLOTS[name]).items == []


def items_of(example: Any) -> list[dict[str, Any]]:
    return list(example.reply["items"])


EXAMPLES = [(name, example) for name in ALL for example in writing_tasks()[name].prompt.examples]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_examples_keep_the_rules_they_teach(name: str, example: Any) -> None:
    """Name the drug, keep the bounds, quote the passages, take every number from them. Source: FDARxBench §B.4."""
    shown = [passage["text"] for passage in example.slots["passages"]]
    seen = " ".join([*shown, *(passage["table"] for passage in example.slots["passages"])])
    for item in items_of(example):
        assert example.slots["drug"] in item["question"] and item["question"].endswith("?")
        assert 10 <= len(item["question"]) <= 200 and 1 <= len(item["answer"]) <= 600
        quotes = {0: item["evidence"]} if name == "generate_factual" else {0: item["evidence_a"], 1: item["evidence_b"]}
        assert all(quoted and is_quoted(one, shown[at]) for at, quoted in quotes.items() for one in quoted)
        if name == "generate_factual":
            assert item["difficulty"] in get_args(Difficulty)
            assert set(re.findall(r"\d+", item["answer"])) <= set(re.findall(r"\d+", seen))
        if item["twin"] is not None:
            twin = item["twin"]
            near_miss = twin["kind"] == "near_miss"
            assert twin["entity"] in twin["question"] and twin["question"].endswith("?")
            assert near_miss == bool(twin["attribute"]) == (twin["entity"] in " ".join(shown).lower())
            assert near_miss or twin["entity"] in example.slots["absent"]


def test_examples_teach_questions_with_a_twin_without_one_and_none() -> None:
    for name in ALL:
        replies = [items_of(example) for example in writing_tasks()[name].prompt.examples]
        assert [] in replies
        assert any(item["twin"] for items in replies for item in items)


@pytest.mark.parametrize("name", ALL)
def test_examples_ask_one_thing(name: str) -> None:
    questions = [item["question"] for example in writing_tasks()[name].prompt.examples for item in items_of(example)]
    assert questions
    assert not any(re.search(r"\band (?:what|how|which|when|is|are)\b|as well as", one) for one in questions)
