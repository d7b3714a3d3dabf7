"""Which output of an NLI model is which class."""

from __future__ import annotations

import pytest

from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.verify.nli_model import OutputClasses, classes_of


@pytest.mark.parametrize(
    ("outputs", "classes"),
    [
        (["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], OutputClasses(2, 1, 0)),
        (["contradiction", "entailment", "neutral"], OutputClasses(1, 2, 0)),
        (["Entailed", "Neutral", "contradictory"], OutputClasses(0, 1, 2)),
        (["entailment", "not_entailment"], OutputClasses(0, 1, None)),
        (["NOT-ENTAILMENT", "ENTAILMENT"], OutputClasses(1, 0, None)),
        (["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"], OutputClasses(0, 2, 1)),
    ],
)
def test_outputs_are_known_by_their_names(outputs: list[str], classes: OutputClasses) -> None:
    assert classes_of("m", outputs) == classes


def test_numbers_need_the_users_order() -> None:
    outputs = ["LABEL_0", "LABEL_1", "LABEL_2"]
    with pytest.raises(ModelMissing, match=r"^models/m names its outputs LABEL_0, LABEL_1, LABEL_2.*--nli-labels"):
        classes_of("models/m", outputs)
    assert classes_of("m", outputs, ["contradiction", "entailment", "neutral"]) == OutputClasses(1, 2, 0)


def test_the_users_order_comes_before_the_models() -> None:
    given = ["neutral", "entailment", "contradiction"]
    assert classes_of("m", ["entailment", "neutral", "contradiction"], given) == OutputClasses(1, 0, 2)


@pytest.mark.parametrize(
    ("outputs", "given", "said"),
    [
        (["positive", "negative"], None, "names its outputs positive, negative"),
        (["a", "b", "c", "d"], None, "take another"),
        (["entailment", "neutral", "neutral"], None, "names its outputs"),
        (["LABEL_0", "LABEL_1", "LABEL_2"], ["entailment", "neutral"], "has 3 outputs"),
        (
            ["LABEL_0", "LABEL_1", "LABEL_2"],
            ["entailment", "neutral", "maybe"],
            "--nli-labels entailment,neutral,maybe",
        ),
        (["LABEL_0"], None, "take another"),
    ],
)
def test_what_is_not_clear_is_refused_with_its_names(outputs: list[str], given: list[str] | None, said: str) -> None:
    with pytest.raises(ModelMissing, match=said):
        classes_of("m", outputs, given)
