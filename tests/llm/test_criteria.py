"""Experts' criteria are data: who changes them changes what is asked, of the tasks they name, and no code."""

from __future__ import annotations

import pytest

from fdarx_core.llm import Prompt, PromptError
from fdarx_core.llm.prompts import Criteria

INCLUDING = "{{ criteria }}"


def test_every_criterion_stands_in_the_prompts_it_names() -> None:
    for rule in Criteria.load().rules:
        for name in rule.applies_to:
            prompt = Prompt.load(name)
            system = prompt.render(dict.fromkeys(prompt.slots, ""))[0]["content"]
            assert f"- [{rule.id}] {rule.text}" in system


def test_a_task_without_criteria_has_none() -> None:
    assert Criteria.load().for_task("rephrase_refusal") == ""


def test_criteria_change_what_is_asked(spelling: str) -> None:
    text = spelling.replace("You turn words round.", f"You turn words round. {INCLUDING}")
    one, two = (Prompt.from_yaml(text, "prompts/x.yaml", f"- [gentle] {rule}") for rule in ("Be kind.", "Be curt."))
    slots = {"word": "abc", "times": 1}
    assert "- [gentle] Be kind." in one.render(slots)[0]["content"]
    assert one.render(slots) != two.render(slots)


@pytest.mark.parametrize(
    ("put", "criteria"),
    [("", "- [gentle] Be kind."), (INCLUDING, "")],
    ids=["criteria for a prompt that does not say them", "a prompt that says what no criterion gives"],
)
def test_criteria_and_prompt_must_agree(spelling: str, put: str, criteria: str) -> None:
    text = spelling.replace("You turn words round.", f"You turn words round. {put}")
    with pytest.raises(PromptError, match=r"prompts/x\.yaml: .*criteria"):
        Prompt.from_yaml(text, "prompts/x.yaml", criteria)


def test_criteria_are_no_slot(spelling: str) -> None:
    text = spelling.replace("{{ word }}", INCLUDING).replace("  word: the word", "  criteria: the word")
    with pytest.raises(PromptError, match="no slot"):
        Prompt.from_yaml(text, "prompts/x.yaml", "- [gentle] Be kind.")


RULE = "{id: %s, text: Ask for one thing., applies_to: [%s]}"


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([RULE % ("short", "judge_relevance"), RULE % ("short", "judge_relevance")], "['short']"),
        ([RULE % ("short", "judge_the_judges")], "['judge_the_judges']"),
        ([RULE % ("short", "")], "applies_to"),
        (["{id: short, text: '', applies_to: [judge_relevance]}"], "text"),
    ],
)
def test_wrong_criteria_name_file_and_fault(rules: list[str], said: str) -> None:
    with pytest.raises(PromptError) as caught:
        Criteria.from_yaml(f"purpose: to be tried\nrules: [{', '.join(rules)}]")
    assert str(caught.value).startswith("prompts/criteria.yaml: ")
    assert said in str(caught.value)
