"""What a language model is asked about a claim and its passages, and how its reply is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm import Unparsable
from fdarx_core.records import Response
from fdarx_core.verify import THRESHOLD, Inference, TextPair
from fdarx_core.verify.language_model import JUDGE_CLAIM, judge_slots, read_judged

CLAIM = "The maximum daily dose of Zalvo is 2,550 mg."
PASSAGES = [
    "The maximum recommended daily dose of ZALVO is 2,550 mg in adults.",
    "The maximum daily dose of ZALVO is 2,000 mg.",
    "Store ZALVO at 20 to 25 degrees Celsius.",
]
PAIRS = [TextPair(text, CLAIM) for text in PASSAGES]


def reply(value: Any, **more: Any) -> Response:
    return Response("k", "judge_claim", 1, "judge", value if isinstance(value, str) else json.dumps(value), **more)


def verdicts(*said: str, numbers: list[int] | None = None) -> Response:
    due = numbers or list(range(1, len(said) + 1))
    rows = [{"passage": at, "reason": "r", "verdict": one} for at, one in zip(due, said, strict=True)]
    return reply({"verdicts": rows})


def test_one_request_shows_the_claim_and_its_passages_in_order() -> None:
    pairs = [TextPair(text, CLAIM, "Zalvo", "How much?", "Zalvo > 2 DOSE") for text in PASSAGES]
    shown = JUDGE_CLAIM.request(judge_slots(pairs), endpoint="judge").messages[-1]["content"]
    parts = ('<passage number="1" titles="Zalvo > 2 DOSE">', *PASSAGES, "<drug>\nZalvo", "<question>\nHow much?", CLAIM)
    places = [shown.index(text) for text in parts]
    assert places == sorted(places)
    bare = JUDGE_CLAIM.request(judge_slots(PAIRS), endpoint="judge").messages[-1]["content"]
    assert not any(tag in bare for tag in ("<drug>", "<question>", "titles="))


def test_a_verdict_is_certain() -> None:
    found = read_judged(verdicts("supported", "contradicted", "unsupported"), PAIRS)
    assert found == [
        Inference(1.0, 0.0, 0.0, 0, len(PASSAGES[0]), "r"),
        Inference(0.0, 0.0, 1.0, 0, len(PASSAGES[1]), "r"),
        Inference(0.0, 1.0, 0.0, 0, len(PASSAGES[2]), "r"),
    ]
    [other] = read_judged(verdicts("other_drug"), PAIRS[2:])
    assert other == Inference(0.0, 1.0, 0.0, 0, len(PASSAGES[2]), "r", other_drug=True)


def test_a_verdict_rests_on_the_words_that_it_quotes() -> None:
    rows = [{"passage": 1, "reason": "r", "quote": quote, "verdict": "supported"} for quote in ("2,550\n MG", "3 mg")]
    places = [read_judged(reply({"verdicts": [row]}), PAIRS[:1])[0] for row in rows]
    assert all(isinstance(one, Inference) for one in places)
    assert [PASSAGES[0][one.start : one.end] for one in places] == ["2,550 mg", PASSAGES[0]]  # type: ignore[union-attr]


@given(st.permutations([1, 2, 3]))
def test_verdicts_in_any_order_go_to_their_passages(order: list[int]) -> None:
    said = {1: "supported", 2: "contradicted", 3: "unsupported"}
    response = verdicts(*(said[number] for number in order), numbers=order)
    assert read_judged(response, PAIRS) == read_judged(verdicts(*said.values()), PAIRS)


@given(st.lists(st.integers(-1, 5), max_size=5).filter(lambda numbers: sorted(numbers) != [1, 2, 3]))
def test_every_passage_is_judged_exactly_once(numbers: list[int]) -> None:
    rows = [{"passage": number, "reason": "r", "verdict": "unsupported"} for number in numbers]
    with pytest.raises(Unparsable) as caught:
        read_judged(reply({"verdicts": rows}), PAIRS)
    assert caught.value.reason == "wrong_passages"
    assert "due were 1 to 3" in caught.value.detail


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (reply("They agree."), "invalid_json"),
        (verdicts("supported", "refuted", "unsupported"), "wrong_shape"),
        (reply({"verdicts": []}, finish_reason="length"), "truncated_reply"),
        (reply("", reason="http_500"), "failed_request"),
    ],
)
def test_what_is_no_reply_says_why(response: Response, reason: str) -> None:
    with pytest.raises(Unparsable) as caught:
        read_judged(response, PAIRS)
    assert caught.value.reason == reason


def test_a_number_that_the_text_lacks_is_not_supported() -> None:
    for one in read_judged(verdicts("supported", "supported", "supported"), PAIRS)[1:]:
        assert isinstance(one, Inference) and one.entailment < THRESHOLD
        assert one.reason == "number: 2550 mg is not in the text"
