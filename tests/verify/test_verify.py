"""The public function `verify`: verdicts by rules, any engine, and every order of imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from fdarx_core.verify import TextPair, Unjudged, verify
from fdarx_core.verify.engine import Inference, Judgement

TEXT = "Warfarin is contraindicated in pregnancy. The maximum dose is 10 mg once daily."


def test_rules_support_contradict_and_say_where() -> None:
    same, other, absent = verify(
        [
            (TEXT, "The maximum dose is 10 mg once daily."),
            (TEXT, "The maximum dose is 20 mg once daily."),
            (TEXT, "Store the tablets in a refrigerator."),
        ]
    )
    assert same.verdict == "supported" and same.span and TEXT[slice(*same.span)] in TEXT
    assert other.verdict == "contradicted" and other.reason
    assert absent.verdict == "unsupported" and absent.span is None
    for one in (same, other, absent):
        assert one.probabilities and sum(one.probabilities) == pytest.approx(1)
        assert one.engine == "baseline"
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
