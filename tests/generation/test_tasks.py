"""What the tasks show a model, what their baselines reply, and that their examples keep the rules they teach."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fdarx_core.generation.tasks import GENERATE_FACTUAL, GENERATE_MULTIHOP, REPHRASE_REFUSAL, RULES_VERSION, TASKS
from fdarx_core.llm import Baseline, Task, ask

DOSE = (
    "The recommended starting dosage of VELTRAPAN in adults is 25 mg orally once daily. Increase to a maximum of "
    "100 mg once daily. In patients with severe renal impairment the maximum recommended dosage is 50 mg once daily."
)
SUPPLY = "VELTRAPAN tablets, 25 mg, are round and white. Store at 20°C to 25°C (68°F to 77°F) in the original bottle."
SLOTS: dict[str, dict[str, Any]] = {
    "generate_factual": {
        "drug": "Veltrapan",
        "section_title": "Recommended Dosage",
        "section_path": "DOSAGE AND ADMINISTRATION > Recommended Dosage",
        "section_code": "34068-7",
        "context": DOSE,
        "k": 3,
    },
    "generate_multihop": {
        "drug": "Veltrapan",
        "section_title_a": "Recommended Dosage",
        "section_code_a": "34068-7",
        "context_a": DOSE,
        "section_title_b": "HOW SUPPLIED",
        "section_code_b": "34069-5",
        "context_b": SUPPLY,
    },
    "rephrase_refusal": {
        "drug": "Veltrapan",
        "entity": "hereditary angioedema",
        "question": "What is the recommended dose of Veltrapan for treating hereditary angioedema?",
    },
}
ALL = sorted(SLOTS)


def answered(task: Task[Any], slots: dict[str, Any]) -> Any:
    endpoint = Baseline(TASKS, RULES_VERSION)
    request = task.request(slots, endpoint=endpoint.name, sampling=endpoint.sampling)
    return task.parse(ask([request], endpoint, None)[0])


def test_every_task_has_its_case_here() -> None:
    assert sorted(TASKS) == ALL


@pytest.mark.parametrize("name", ALL)
def test_the_model_sees_every_slot(name: str) -> None:
    request = TASKS[name].request(SLOTS[name], endpoint="small")
    for value in SLOTS[name].values():
        assert str(value) in request.messages[-1]["content"]


@pytest.mark.parametrize("name", ALL)
def test_the_beginning_is_the_same_for_all(name: str) -> None:
    """Servers reuse the computation of a shared beginning, so all but the last message must not vary."""
    other = {slot: value * 2 if isinstance(value, str) else value for slot, value in SLOTS[name].items()}
    one, two = (TASKS[name].request(slots, endpoint="small") for slots in (SLOTS[name], other))
    assert one.messages[:-1] == two.messages[:-1]
    assert one.messages[-1] != two.messages[-1]


@pytest.mark.parametrize("name", ["generate_factual", "generate_multihop"])
def test_a_section_without_a_title_is_called_so(name: str) -> None:
    slots = {slot: "" if "section" in slot else value for slot, value in SLOTS[name].items()}
    assert "(untitled)" in TASKS[name].request(slots, endpoint="small").messages[-1]["content"]


@pytest.mark.parametrize("name", ALL)
def test_schema_takes_no_other_fields_and_needs_all(name: str) -> None:
    """What servers ask of a strict response_format."""
    schema = TASKS[name].request(SLOTS[name], endpoint="small").schema
    for part in [schema, *schema.get("$defs", {}).values()]:
        assert part["additionalProperties"] is False
        assert sorted(part["required"]) == sorted(part["properties"])


def test_factual_baseline_asks_about_the_passage() -> None:
    reply = answered(GENERATE_FACTUAL, SLOTS["generate_factual"])
    assert 1 <= len(reply.items) <= 3
    for item in reply.items:
        assert "veltrapan" in item.question.lower()
        assert all(number in DOSE for number in re.findall(r"\d+", item.answer))
    assert any("25 mg" in item.answer for item in reply.items)


def test_factual_baseline_has_nothing_to_ask_of_a_pointer() -> None:
    slots = SLOTS["generate_factual"] | {"context": "See full prescribing information for details."}
    assert answered(GENERATE_FACTUAL, slots).items == []


def test_multihop_baseline_replies_in_shape() -> None:
    for item in answered(GENERATE_MULTIHOP, SLOTS["generate_multihop"]).items:
        assert "veltrapan" in item.question.lower()


def test_multihop_baseline_leaves_unrelated_passages() -> None:
    slots = SLOTS["generate_multihop"] | {"context_a": "Manufactured for the holder.", "context_b": "Rx only."}
    assert answered(GENERATE_MULTIHOP, slots).items == []


def test_rephrase_baseline_keeps_drug_and_entity() -> None:
    question = answered(REPHRASE_REFUSAL, SLOTS["rephrase_refusal"]).question
    assert "Veltrapan" in question
    assert "hereditary angioedema" in question


EXAMPLES = [(name, example) for name in ALL for example in TASKS[name].prompt.examples]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_examples_keep_the_rules_they_teach(name: str, example: Any) -> None:
    """Name the drug, stay within the bounds, take every number from the context. Source: FDARxBench §B.4."""
    context = " ".join(text for slot, text in example.slots.items() if slot.startswith("context"))
    for item in example.reply.get("items", [example.reply]):
        assert example.slots["drug"] in item["question"]
        assert example.slots.get("entity", "") in item["question"]
        assert 10 <= len(item["question"]) <= 200
        assert item["question"].endswith("?")
        if "answer" in item:
            assert 5 <= len(item["answer"]) <= 600
            assert set(re.findall(r"\d+", item["answer"])) <= set(re.findall(r"\d+", context))


def test_multihop_examples_join_no_two_questions() -> None:
    replies = [one.reply for name, one in EXAMPLES if name == "generate_multihop" and isinstance(one.reply, dict)]
    questions = [item["question"] for reply in replies for item in reply["items"]]
    assert questions
    assert not any(" and " in question or "as well as" in question for question in questions)
