"""The limits of replies, for all tasks of the project; what is cut and what is not; copies of a prompt's example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import pytest
from pydantic import Field

from fdarx_core.filters.quotations import is_quoted
from fdarx_core.llm import CutTo, Note, Prompt, Quote, Reply, Task, Unparsable, find_task
from fdarx_core.llm.reply import reply_form, without_length_limits
from fdarx_core.records import Response

PROMPTS = Path(__file__).parents[2] / "prompts"
NAMES = sorted(file.stem for file in PROMPTS.glob("*.yaml") if file.stem != "criteria")
STRUCTURED = [name for name in NAMES if Prompt.load(name).response != "text"]


def schema_of(name: str) -> Any:
    return find_task(name).reply.model_json_schema()


def parts(schema: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every part of a schema that describes a value, with its path."""
    if isinstance(schema, Mapping):
        if "type" in schema or "enum" in schema:
            yield path, schema
        for name, part in schema.items():
            yield from parts(part, f"{path}/{name}")
    elif isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from parts(part, f"{path}/{number}")


@pytest.mark.parametrize("name", STRUCTURED)
def test_every_text_and_list_of_a_reply_has_a_limit(name: str) -> None:
    for path, part in parts(schema_of(name)):
        if part.get("type") == "string" and not {"enum", "const"} & part.keys():
            assert 0 < part.get("maxLength", 0) <= 4_000, path
        if part.get("type") == "array":
            assert 0 < part.get("maxItems", 0) <= 500, path


class VerdictReply(Reply):
    reason: Note
    quote: Quote
    answer: Annotated[str, Field(max_length=40)]
    flags: Annotated[list[str], CutTo(3)]


PROMPT = """
name: verdict
version: 1
purpose: A verdict.
slots: {text: a text}
system: You judge. Where nothing fits, the answer is "There is no answer here.".
user: "{{ text }}"
response: VerdictReply
examples:
  - slots: {text: Quorvelin tablets contain 40 mg.}
    reply: {reason: Quorvelin has one strength., quote: Quorvelin tablets contain 40 mg., answer: 40 mg, flags: []}
  - slots: {text: nothing}
    reply: {reason: "", quote: "", answer: There is no answer here., flags: []}
"""
GOOD = {"reason": "It is stated.", "quote": "Take it with food.", "answer": "With food.", "flags": []}


def parsed(**changed: Any) -> VerdictReply:
    task: Task[VerdictReply] = Task(Prompt.from_yaml(PROMPT, "verdict.yaml"), VerdictReply, lambda slots: None)  # type: ignore[arg-type,return-value]
    task.check()
    return task.parse(Response("k", "verdict", 1, "m", orjson.dumps({**GOOD, **changed}).decode()))


def test_what_explains_or_quotes_is_cut_after_a_word() -> None:
    loop = "the dose is not stated and " * 500
    reply = parsed(reason=loop, quote=f"Take it {loop}", flags=list("abcdefg"))
    assert 980 <= len(reply.reason) <= 1000 and loop.startswith(reply.reason)
    assert reply.reason.split()[-1] in loop.split()
    assert is_quoted(reply.quote, f"Take it {loop}") and len(reply.quote) <= 3000
    assert reply.flags == ["a", "b", "c"]
    assert parsed(reason="x" * 1000).reason == "x" * 1000
    assert parsed(reason=" " * 2000 + "It is stated.").reason == "It is stated."


def test_a_long_answer_is_not_cut() -> None:
    with pytest.raises(Unparsable, match=r"wrong_shape.*answer"):
        parsed(answer="In patients without renal impairment or hepatic impairment.")


@pytest.mark.parametrize(
    "reply",
    [
        {"reason": "Quorvelin has one strength.", "quote": "Quorvelin tablets contain 40 mg."},
        {"reason": "quorvelin has one strength. ", "quote": ""},
        {"reason": "", "quote": "Quorvelin tablets  contain 40 mg.", "answer": "twice", "flags": ["other"]},
    ],
)
def test_a_reply_that_repeats_the_example_is_none(reply: dict[str, Any]) -> None:
    with pytest.raises(Unparsable, match="copied_example"):
        parsed(**{"answer": "40 mg", **reply})


@pytest.mark.parametrize(
    "reply",
    [
        {"reason": "Quorvelin has one strength.", "quote": "Trebavin tablets contain 20 mg."},
        {"reason": "", "quote": "", "answer": "There is no answer here."},
        {"reason": "", "quote": "", "answer": "40 mg"},
    ],
)
def test_what_another_text_tells_apart_or_the_prompt_asks_for_is_no_copy(reply: dict[str, Any]) -> None:
    assert parsed(**reply)


@pytest.mark.parametrize("name", [one for one in NAMES if Prompt.load(one).examples])
def test_the_examples_of_every_task_are_recognized(name: str) -> None:
    """A copied example is no verdict, unless it says nothing of its own: an empty list, or what the prompt dictates."""
    task = find_task(name)
    found = []
    for example in task.prompt.examples:
        text = example.reply if isinstance(example.reply, str) else orjson.dumps(example.reply).decode()
        try:
            task.parse(Response("k", name, task.version, "m", text))
        except Unparsable as error:
            found.append(error.reason)
    assert set(found) == {"copied_example"}
    assert len(found) >= len(task.prompt.examples) / 2


@pytest.mark.parametrize("name", STRUCTURED)
def test_the_form_shows_every_field_and_is_no_reply_where_something_is_to_be_chosen(name: str) -> None:
    schema = schema_of(name)
    form = reply_form(schema)
    fields = {field for _, part in parts(schema) for field in part.get("properties", {})}
    assert all(f'"{field}": ' in form for field in fields)
    assert "$defs" not in form and "maxLength" not in form and len(form) < 700
    chosen = any(part.get("type") == "boolean" or "enum" in part for _, part in parts(schema))
    if chosen:
        with pytest.raises(Unparsable):
            find_task(name).parse(Response("k", name, 1, "m", form))


def test_a_schema_loses_its_limits_and_nothing_else() -> None:
    schema = {"type": "array", "maxItems": 3, "minItems": 1, "items": {"properties": {"maxItems": {"type": "string"}}}}
    assert without_length_limits(schema) == {"type": "array", "items": {"properties": {"maxItems": {"type": "string"}}}}
    assert without_length_limits(schema, upper_only=True)["minItems"] == 1
