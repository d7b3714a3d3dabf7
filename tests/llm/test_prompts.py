"""A wrong prompt is refused when it is loaded, with its file and field in the message."""

from __future__ import annotations

import pytest

from fdarx_core.llm import Prompt, PromptError


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 3", "version: three", "version"),
        ("version: 3", "version: 0", "version"),
        ("purpose: Turn a word round.", "purpos: Turn a word round.", "purpos"),
        ("{{ word }}", "{{ wrod }}", "['wrod'], not declared"),
        ("  times: how often it is to be said", "  times: how often\n  mood: how it sounds", "['mood']"),
        ("{{ word }}", "{{ word ", "user is no Jinja2 template"),
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
