"""Wrong prompts and criteria are refused when they are loaded, with file and field in the message."""

from __future__ import annotations

import pytest

from fdarx_core.llm import Prompt, PromptError
from fdarx_core.llm.prompts import Criteria


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 3", "version: three", "version"),
        ("version: 3", "version: 0", "version"),
        ("purpose: Turn a word round.", "purpos: Turn a word round.", "purpos"),
        ("{{ word }}", "{{ wrod }}", "['wrod'], not declared"),
        ("  times: how often it is to be said", "  times: how often\n  mood: how it sounds", "['mood']"),
        ("{{ word }}", "{{ word ", "user is not a Jinja2 template"),
        ("name: spell_backwards", "name: [", "not YAML"),
    ],
)
def test_wrong_prompt_names_file_and_fault(spelling: str, old: str, new: str, said: str) -> None:
    assert old in spelling
    with pytest.raises(PromptError) as caught:
        Prompt.from_yaml(spelling.replace(old, new), "prompts/broken.yaml")
    assert str(caught.value).startswith("prompts/broken.yaml: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "just a sentence", "- a\n- b"])
def test_not_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(PromptError, match=r"prompts/broken\.yaml: content"):
        Prompt.from_yaml(text, "prompts/broken.yaml")


def test_missing_prompt_says_where_it_was_looked_for() -> None:
    with pytest.raises(PromptError, match=r"prompts/no_such_task\.yaml"):
        Prompt.load("no_such_task")


def test_slot_values_are_never_read_as_templates(spelling: str) -> None:
    prompt = Prompt.from_yaml(spelling, "prompts/spell_backwards.yaml")
    messages = prompt.render({"word": "{{ 7 * 7 }} {% raw %} <b>&", "times": 2})
    assert messages[-1] == {"role": "user", "content": "Word: {{ 7 * 7 }} {% raw %} <b>&\nSay it 2 times."}


def test_template_can_not_reach_into_python(spelling: str) -> None:
    prompt = Prompt.from_yaml(spelling.replace("{{ word }}", "{{ word.__class__.__mro__ }}"), "prompts/x.yaml")
    with pytest.raises(ValueError, match="task spell_backwards: its prompt could not be rendered"):
        prompt.render({"word": "abc", "times": 1})


INCLUDING = "{{ criteria }}"


def test_every_criterion_stands_in_the_prompts_it_names() -> None:
    for rule in Criteria.load().rules:
        for name in rule.applies_to:
            prompt = Prompt.load(name)
            system = prompt.render(prompt.examples[0].slots)[0]["content"]
            assert f"- [{rule.id}] {rule.text}" in system


def test_a_task_without_criteria_has_none() -> None:
    assert Criteria.load().for_task("compare_answers") == ""


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


SHOWN = "{% for example in examples %}{{ example.slots.word }} is {{ example.reply }}{% endfor %}"


def test_a_system_message_that_shows_the_examples_takes_the_place_of_their_turns(spelling: str) -> None:
    prompt = Prompt.from_yaml(spelling.replace("You turn words round.", SHOWN), "prompts/x.yaml")
    assert prompt.render({"word": "xyz", "times": 1})[0]["content"].startswith('abc is {"text":"cba"}')
    assert prompt.example_turns(str) == []
    assert len(Prompt.from_yaml(spelling, "prompts/x.yaml").example_turns(str)) == 2


def test_examples_are_no_slot(spelling: str) -> None:
    text = spelling.replace("{{ word }}", "{{ examples }}").replace("  word: the word", "  examples: the word")
    with pytest.raises(PromptError, match="no slot"):
        Prompt.from_yaml(text, "prompts/x.yaml")


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
