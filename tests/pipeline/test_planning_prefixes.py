"""What a plan says of shared prefixes, against counting them letter by letter."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm.model_config import FRAME_TOKENS
from fdarx_core.pipeline.asking import Counted, count_prompt

TEXTS = st.text("ab", max_size=12)
PROMPTS = st.lists(st.tuples(TEXTS, TEXTS), max_size=6)


def common(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def messages(prompt: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in prompt]


@given(PROMPTS)
def test_shared_is_what_the_prompt_before_begins_with(prompts: list[tuple[str, str]]) -> None:
    prefixes: dict[str, Counted] = {}
    before = ("", "")
    for place, prompt in enumerate(prompts):
        tokens, shared = count_prompt(prefixes, "m", messages(prompt), len)
        assert tokens == sum(map(len, prompt)) + 2 * FRAME_TOKENS
        expected = common(before[0], prompt[0])
        if before[0] == prompt[0]:
            expected += FRAME_TOKENS + common(before[1], prompt[1])
            expected += FRAME_TOKENS if before == prompt else 0
        assert shared == (expected if place else 0)
        before = prompt


def test_endpoints_do_not_share() -> None:
    prefixes: dict[str, Counted] = {}
    count_prompt(prefixes, "one", messages(("label", "a")), len)
    assert count_prompt(prefixes, "other", messages(("label", "b")), len)[1] == 0
    assert count_prompt(prefixes, "one", messages(("label", "b")), len)[1] == len("label") + FRAME_TOKENS


def test_a_label_in_many_prompts_is_counted_once() -> None:
    counted: list[str] = []

    def counter(text: str) -> int:
        counted.append(text)
        return len(text)

    prefixes: dict[str, Counted] = {}
    for question in ("a", "b", "c"):
        count_prompt(prefixes, "m", messages(("label", question)), counter)
    assert counted.count("label") == 1
