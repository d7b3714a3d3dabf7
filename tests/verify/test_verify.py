"""The public function `verify`: verdicts by rules, any engine, and every order of imports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fdarx_core.llm import Model
from fdarx_core.verify import TextPair, Unjudged, open_engine, verify
from fdarx_core.verify.engine import Inference, Judgement
from tests.llm.loopback_server import LoopbackServer, text_of

TEXT = "Warfarin is contraindicated in pregnancy. The maximum dose is 10 mg once daily."


def test_the_default_supports_quotations_and_says_where() -> None:
    same, other, absent = verify(
        [
            (TEXT, "The maximum dose is 10 mg once daily."),
            (TEXT, "The maximum dose is 20 mg once daily."),
            (TEXT, "Store the tablets in a refrigerator."),
        ]
    )
    assert same.verdict == "supported" and same.span and TEXT[slice(*same.span)] in TEXT
    assert other.verdict == "undecided" and other.reason == "number: 20 mg is not in the text"
    assert absent.verdict == "undecided" and absent.span is None
    for one in (same, other, absent):
        assert one.probabilities and sum(one.probabilities) == pytest.approx(1)
        assert one.engine == "exact"
    assert verify([]) == []


class _Engine:
    name = "fixed"

    def judge(self, pairs: Sequence[TextPair]) -> list[Judgement]:
        found: list[Judgement] = [Inference(0.4, 0.3, 0.3, 0, 1), Unjudged("out_of_memory: 9 tokens")]
        return found[: len(pairs)]


def test_an_engine_that_is_unsure_or_fails_is_undecided() -> None:
    unsure, failed = verify([("a", "b"), ("c", "d")], engine=_Engine())
    assert (unsure.verdict, failed.verdict) == ("undecided", "undecided")
    assert failed.probabilities is None and failed.reason.startswith("out_of_memory")


def test_a_language_model_is_asked_once_about_each_statement() -> None:
    with LoopbackServer() as server:
        server.answer = _judge
        pairs = [
            (TEXT, "It is safe."),
            ("Warfarin is safe.", "It is safe."),
            (TEXT, "It is free."),
            (TEXT, "It is safe."),
        ]
        address = f"language-model:tiny@{server.openai_url}"
        by_name = verify(pairs, address)
        with Model("tiny", base_url=server.openai_url) as model:
            assert verify(pairs, model) == by_name
    assert [one.verdict for one in by_name] == ["contradicted", "supported", "undecided", "contradicted"]
    assert by_name[1].span == (0, len("Warfarin is safe.")) and by_name[1].engine == "tiny"
    assert by_name[2].reason.startswith("wrong_passages: ") and len(server.calls) == 4
    with pytest.raises(ValueError, match="names no server"):
        open_engine("language-model:tiny")


def _judge(body: Mapping[str, Any]) -> str:
    shown = text_of(body["messages"][-1])
    if "It is free." in shown:
        return '{"verdicts": []}'
    first = {"passage": 1, "reason": "r", "quote": "", "verdict": "contradicted"}
    return json.dumps({"verdicts": [first, {"passage": 2, "reason": "r", "verdict": "supported"}]})


def test_the_built_in_rules_answer_as_a_model_too() -> None:
    pairs = [(TEXT, "The maximum dose is 10 mg once daily."), (TEXT, "The maximum dose is 20 mg once daily.")]
    assert [one.verdict for one in verify(pairs, Model("baseline"))] == ["supported", "undecided"]


@pytest.mark.parametrize(
    "first",
    [
        "import fdarx_core",
        "import fdarx_core.verify",
        "from fdarx_core.verify import verify",
        "import fdarx_core.verify.engine, fdarx_core",
    ],
)
def test_the_package_can_be_called_in_every_import_order(first: str) -> None:
    code = f"""{first}
import sys, fdarx_core
assert fdarx_core.verify([("Take 5 mg.", "Take 5 mg.")])[0].verdict == "supported"
from fdarx_core.verify import verify
assert verify([("Take 5 mg.", "Take 5 mg.")])[0].verdict == "supported"
assert "ray" not in sys.modules and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
