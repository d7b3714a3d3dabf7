"""From slots to a request and its key, and from a response to a reply or the reason why there is none."""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm import (
    Baseline,
    HttpEndpoint,
    Prompt,
    PromptError,
    ResponseStore,
    Task,
    Undecided,
    Unparsable,
    ask,
    ledger,
    request_key,
    response_to,
    source_digest,
)
from fdarx_core.records import Request, Response
from fdarx_core.storage import Location
from tests.llm.conftest import model
from tests.llm.loopback_server import Fault, LoopbackServer

ANSWER = Response("k", "spell_backwards", 3, "baseline", '{"text": "cba"}')


def test_request_holds_all_that_is_asked(task: Task[Any]) -> None:
    request = task.request({"word": "dose", "times": 2}, endpoint="small", sampling={"temperature": 0})
    assert (request.task, request.task_version, request.endpoint) == ("spell_backwards", 3, "small")
    assert [message["role"] for message in request.messages] == ["system", "user", "assistant", "user"]
    assert request.messages[2]["content"] == '{"text":"cba"}'
    assert request.messages[3]["content"] == "Word: dose\nSay it 2 times."
    assert request.schema["required"] == ["text"]
    assert request.schema["additionalProperties"] is False
    assert request.slots == {"word": "dose", "times": 2}


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        ({"word": "a"}, r"missing slots \['times'\]"),
        ({"word": "a", "times": 1, "mood": "b"}, r"unknown slots \['mood'\]"),
    ],
)
def test_slots_that_do_not_fit_are_named(task: Task[Any], slots: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"task spell_backwards: .*{said}"):
        task.request(slots, endpoint="small")


def test_slot_that_json_can_not_hold_is_refused(task: Task[Any]) -> None:
    with pytest.raises(ValueError, match=r"task spell_backwards: .*JSON"):
        task.request({"word": {1, 2}, "times": 1}, endpoint="small")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("response: SpellReply", "response: OtherReply", "response is 'OtherReply'"),
        ("reply: {text: cba}", "reply: {word: cba}", "an example's reply is no SpellReply: text"),
        ("slots: {word: abc, times: 1}", "slots: {word: abc}", "an example does not fit: .*slots"),
    ],
)
def test_prompt_that_does_not_fit_its_task(task: Task[Any], spelling: str, old: str, new: str, said: str) -> None:
    prompt = Prompt.from_yaml(spelling.replace(old, new), "prompts/spell_backwards.yaml")
    with pytest.raises(PromptError, match=said):
        Task(prompt, task.reply, task.baseline).check()


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "cba"}',
        ' \n{"text": " cba "}\n',
        '```json\n{"text": "cba"}\n```',
        'Here is the word.\n```json\n{"text": "cba"}\n```\nTell me if you need more.',
        'The word {abc} backwards: {"text": "cba"}. Is that what you wanted?',
        '<think>\n{"text": "abc"}? No.\n</think>\n\n{"text": "cba"}',
        '[THINK]{"text": "abc"}[/THINK]{"text": "cba"}',
        'It may be {"text": "abc"}</think>```\n{"text": "cba"}```',
        '{"text": "bca"} is wrong. Once more: {"text": "cba"}',
        '{"word": "abc"} gives {"text": "cba"}',
    ],
)
def test_replies_that_can_be_read(task: Task[Any], text: str) -> None:
    assert task.parse(replace(ANSWER, text=text)).text == "cba"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"reason": "transient_timeout", "text": "no reply after 60 s"}, "failed_request"),
        ({"text": ""}, "empty_reply"),
        ({"text": " \n\t" * 700_000}, "empty_reply"),
        ({"text": '{"text": "cb', "finish_reason": "length"}, "truncated_reply"),
        ({"text": "", "finish_reason": "content_filter"}, "filtered_reply"),
        ({"text": '{"text": "cb'}, "invalid_json"),
        ({"text": "I can't help with that."}, "invalid_json"),
        ({"text": "[" * 100_000}, "invalid_json"),
        ({"text": "{" * 100_000}, "invalid_json"),
        ({"text": '{"a":' * 20_000}, "invalid_json"),
        ({"text": '<think>It is {"text": "cba"}'}, "unclosed_thought"),
        ({"text": '<think time="3">It is {"text": "cba"}'}, "unclosed_thought"),
        ({"text": '<seed:think>It is {"text": "cba"}</seed:think>'}, "invalid_json"),
        (
            {"text": '\N{WHITE LEFT-POINTING TRIANGLE}think\N{WHITE RIGHT-POINTING TRIANGLE}{"text": "cba"}'},
            "unclosed_thought",
        ),
        ({"text": '<|START_THINKING|>{"text": "cba"}<|END_THINKING|>None.'}, "invalid_json"),
        ({"text": '<|channel|>analysis<|message|>{"text": "cba"}<|end|><|channel|>final<|message|>?'}, "invalid_json"),
        ({"text": '<think>It is {"text": "cba"}</think>cba'}, "invalid_json"),
        ({"text": '<analysis>It is {"text": "cba"}</analysis>cba'}, "invalid_json"),
        ({"text": '< think >It is {"text": "cba"}</ think >cba'}, "invalid_json"),
        ({"text": "null"}, "wrong_shape"),
        ({"text": '{"text": 7}'}, "wrong_shape"),
        ({"text": '{"text": "cba", "note": "sure"}'}, "wrong_shape"),
    ],
)
def test_replies_that_can_not_be_read(task: Task[Any], change: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unparsable) as caught:
        task.parse(replace(ANSWER, **change))
    assert caught.value.reason == reason
    assert 0 < len(caught.value.detail) < 400


def test_tags_and_control_characters_in_a_text_of_the_reply_stay(task: Task[Any]) -> None:
    """vLLM's grammars let control characters pass where a text has a `maxLength`."""
    for text in ("a <think> b", "a\x18b\nc", "</think>", "```json {} ```"):
        assert task.parse(replace(ANSWER, text=f'{{"text": "{text}"}}')).text == text


@pytest.mark.parametrize("escape", [r"\ud83d", r"\uDC00", r"\udc00\ud83d", r"\ud83d\u0041"])
def test_escapes_of_unpaired_surrogates_are_mended(task: Task[Any], escape: str) -> None:
    """Grammars allow each escape; a model may write one half of a pair."""
    text = task.parse(replace(ANSWER, text=f'{{"text": "a{escape}"}}')).text
    assert text.startswith("a?") and text.encode()


@given(text=st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_parsed_or_has_a_reason(task: Task[Any], text: str) -> None:
    try:
        task.parse(replace(ANSWER, text=text))
    except Unparsable as lost:
        assert lost.reason in {"empty_reply", "invalid_json", "wrong_shape", "unclosed_thought"}


def test_a_task_travels(task: Task[Any]) -> None:
    slots = {"word": "dose", "times": 1}
    here = task.request(slots, endpoint="small")
    assert pickle.loads(pickle.dumps(task)).request(slots, endpoint="small") == here


def test_baseline_answers_by_the_tasks_rules(task: Task[Any], baseline: Baseline) -> None:
    requests = [
        task.request({"word": word, "times": 2}, endpoint=baseline.name, sampling=baseline.sampling)
        for word in ("ab", "")
    ]
    good, bad = baseline.answer(requests)
    assert task.parse(good).text == "ba ba"
    assert (good.key, good.prompt_tokens, good.completion_tokens) == (requests[0].key, 0, 0)
    assert (bad.key, bad.reason, bad.text) == (requests[1].key, "baseline_error", "ValueError: no word to turn round")


def test_a_baseline_that_cannot_decide_gives_no_reply_and_does_not_fail(task: Task[Any], store: ResponseStore) -> None:
    def rule(slots: Mapping[str, Any]) -> Any:
        raise Undecided("two words fit")

    unsure = replace(task, baseline=rule)
    request = unsure.request({"word": "ab", "times": 2}, endpoint="baseline")
    [response] = ask([request], Baseline({task.name: unsure}, "r1"), store)
    assert store.get([request.key]) == {request.key: response}
    with pytest.raises(Unparsable) as error:
        unsure.parse(response)
    assert (error.value.reason, error.value.detail) == ("undecided", "two words fit")
    [entry] = ledger(store, {})
    assert (entry["requests"], entry["failed"]) == (1, 0)


def test_baseline_refuses_a_task_it_was_not_given(task: Task[Any]) -> None:
    request = task.request({"word": "ab", "times": 2}, endpoint="baseline")
    with pytest.raises(ValueError, match="spell_backwards 3"):
        Baseline({}, "r1").answer([request])


def test_a_response_carries_its_requests_identity(task: Task[Any]) -> None:
    request = task.request({"word": "ab", "times": 2}, endpoint="small")
    response = response_to(request, "")
    assert (response.key, response.task, response.task_version, response.endpoint) == (
        request.key,
        request.task,
        request.task_version,
        request.endpoint,
    )


GREETING = """
name: greet
version: 1
purpose: Greet someone.
slots: {who: the name}
system: You greet people.
user: "Greet {{ who }}."
response: text
"""


def greet(slots: Mapping[str, Any]) -> str:
    return f"Hello, {slots['who']}."


@pytest.fixture
def greeting() -> Task[str]:
    return Task(Prompt.from_yaml(GREETING, "prompts/greet.yaml"), str, greet)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=lambda body: "  Good day, {friend}\n") as running:
        yield running


def _asked(server: LoopbackServer, task: Task[str], **fields: Any) -> Response:
    async def run() -> Response:
        endpoint = HttpEndpoint(model(server, **fields))
        try:
            return await endpoint.ask(task.request({"who": "Ada"}, endpoint="m", sampling=endpoint.sampling))
        finally:
            await endpoint.close()

    return asyncio.run(run())


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_text_comes_back_as_it_is(kind: str, greeting: Task[str], server: LoopbackServer) -> None:
    response = _asked(server, greeting, kind=kind, base_url=server.url if kind == "anthropic" else server.openai_url)
    assert greeting.parse(response) == "Good day, {friend}"
    [call] = server.calls
    assert not {"response_format", "output_config", "tools"} & call.body.keys()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(Fault(text="   "), "empty_reply"), (Fault(text="cut", finish_reason="length"), "truncated_reply")],
)
def test_what_is_no_reply(fault: Fault, reason: str, greeting: Task[str], server: LoopbackServer) -> None:
    server.faults = lambda call: fault
    with pytest.raises(Unparsable) as error:
        greeting.parse(_asked(server, greeting))
    assert error.value.reason == reason


def test_the_baseline_answers_by_its_rules(greeting: Task[str]) -> None:
    [response] = Baseline({greeting.name: greeting}, "r1").answer(
        [greeting.request({"who": "Ada"}, endpoint="baseline")]
    )
    assert greeting.parse(response) == "Hello, Ada."


def test_a_failed_request_is_no_reply(greeting: Task[str]) -> None:
    failed = response_to(greeting.request({"who": "Ada"}, endpoint="m"), "too long", reason="context_too_long")
    with pytest.raises(Unparsable, match="context_too_long"):
        greeting.parse(failed)


EXAMPLES = """
examples:
  - slots: {who: Grace}
    reply: |
      Hello, Grace.
"""


def test_examples_are_turns_between_system_and_question() -> None:
    task = Task(Prompt.from_yaml(GREETING + EXAMPLES, "prompts/greet.yaml"), str, greet)
    task.check()
    request = task.request({"who": "Ada"}, endpoint="m")
    assert [(message["role"], message["content"]) for message in request.messages] == [
        ("system", "You greet people."),
        ("user", "Greet Grace."),
        ("assistant", "Hello, Grace."),
        ("user", "Greet Ada."),
    ]
    assert pickle.loads(pickle.dumps(task)).request({"who": "Ada"}, endpoint="m") == request


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("reply: |\n      Hello, Grace.", "reply: {text: Hello}", "an example does not fit: its reply must be a text"),
        ("reply: |\n      Hello, Grace.", 'reply: " "', "an example does not fit: its reply must be a text"),
        ("{who: Grace}", "{whom: Grace}", "an example does not fit: .*slots"),
        ("response: text", "response: GreetReply", "response is 'GreetReply'"),
    ],
)
def test_a_prompt_that_does_not_fit_a_text_task(old: str, new: str, said: str) -> None:
    text = GREETING + EXAMPLES
    assert old in text
    with pytest.raises(PromptError, match=said):
        Task(Prompt.from_yaml(text.replace(old, new), "prompts/greet.yaml"), str, greet).check()


def test_a_prompt_that_wants_a_schema_is_no_text_task() -> None:
    with pytest.raises(PromptError, match="reads 'text'"):
        Task.load("generate_factual", str, greet)


REQUEST = Request(
    key="",
    task="t",
    task_version=1,
    endpoint="e",
    slots={"a": "x", "b": 2},
    messages=[{"role": "user", "content": "x 2"}],
    schema={"type": "object", "properties": {"p": {"type": "string"}, "q": {"type": "string"}}},
    sampling={"temperature": 0.0, "max_tokens": 100},
)
OTHER: dict[str, Any] = {
    "task": "u",
    "task_version": 2,
    "endpoint": "f",
    "slots": {"a": "x", "b": 3},
    "messages": [{"role": "system", "content": "x 2"}],
    "schema": {"type": "array"},
    "sampling": {"temperature": 0.5, "max_tokens": 100},
}


@pytest.mark.parametrize("field", [field.name for field in fields(Request) if field.name != "key"])
def test_each_field_changes_the_key(field: str) -> None:
    assert request_key(replace(REQUEST, **{field: OTHER[field]})) != request_key(REQUEST)


def test_the_key_itself_does_not() -> None:
    assert request_key(replace(REQUEST, key="0")) == request_key(REQUEST)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(slots=st.dictionaries(st.text("abcd", min_size=1), JSON), seed=st.integers())
def test_order_of_keys_does_not_change_it(slots: dict[str, Any], seed: int) -> None:
    pairs = list(slots.items())
    random.Random(seed).shuffle(pairs)
    assert request_key(replace(REQUEST, slots=dict(pairs))) == request_key(replace(REQUEST, slots=slots))


@given(one=st.dictionaries(st.text("ab"), JSON), two=st.dictionaries(st.text("ab"), JSON))
def test_other_slots_other_key(one: dict[str, Any], two: dict[str, Any]) -> None:
    same = request_key(replace(REQUEST, slots=one)) == request_key(replace(REQUEST, slots=two))
    assert same == (repr_sorted(one) == repr_sorted(two))


def repr_sorted(value: Any) -> str:
    """A value's text, where True and 1 differ as they do in JSON, and the order of keys does not count."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{repr_sorted(value[key])}" for key in sorted(value)) + "}"
    return "[" + ",".join(map(repr_sorted, value)) + "]" if isinstance(value, list) else repr(value)


def test_the_digest_of_rules_follows_their_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_rules_package"
    package.mkdir()
    (package / "__init__.py").write_text("A = 1\n")
    monkeypatch.setattr("fdarx_core.llm.task._SOURCES", tmp_path)
    before = source_digest("some_rules_package")
    (package / "notes.txt").write_text("not a rule")
    assert source_digest("some_rules_package") == before
    (package / "words.yaml").write_text("- dose\n")
    with_words = source_digest("some_rules_package")
    (package / "wordings.tsv").write_text("code\twording\n")
    assert len({before, with_words, source_digest("some_rules_package")}) == 3


@pytest.fixture
def store(tmp_path: Path) -> ResponseStore:
    return ResponseStore(Location(tmp_path / "responses"))


def requests(task: Task[Any], words: str, sampling: Mapping[str, Any] | None = None) -> list[Request]:
    return [task.request({"word": word, "times": 1}, endpoint="baseline", sampling=sampling) for word in words.split()]


def test_the_baseline_computes_each_distinct_request_once(task: Task[Any], store: ResponseStore) -> None:
    computed: list[str] = []

    def rules(slots: Mapping[str, Any]) -> Any:
        computed.append(slots["word"])
        return task.baseline(slots)

    for words, expected in (("ab cd ab", ["ab", "cd"]), ("cd ef ab", ["ef"])):
        baseline = Baseline({task.name: replace(task, baseline=rules)}, "r1")
        responses = ask(requests(task, words), baseline, ResponseStore(store.root))
        assert [task.parse(one).text for one in responses] == [word[::-1] for word in words.split()]
        assert computed == expected
        computed.clear()
    assert ask([], baseline, store) == []
    assert [one.text for one in ask(requests(task, "ab"), baseline, None)] == ['{"text":"ba"}']


def test_text_that_no_file_can_hold_is_repaired(task: Task[Any], store: ResponseStore) -> None:
    [request] = requests(task, "a")
    store.put([response_to(request, "cut in half: \ud83d")])
    assert ResponseStore(store.root).get([request.key])[request.key].text == "cut in half: ?"


def test_a_request_to_another_endpoint_is_refused(task: Task[Any], baseline: Baseline) -> None:
    with pytest.raises(ValueError, match="for endpoint recorder, not for baseline"):
        ask([task.request({"word": "a", "times": 1}, endpoint="recorder")], baseline, None)


def test_changed_rules_are_computed_anew(task: Task[Any], store: ResponseStore) -> None:
    for rules in ("r1", "r2", "r1"):
        baseline = Baseline({task.name: task}, rules)
        ask(requests(task, "ab", baseline.sampling), baseline, store)
    assert len(store.index()) == 2
