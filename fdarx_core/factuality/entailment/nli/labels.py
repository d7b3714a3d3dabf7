"""Which of a model's outputs is entailment, which neutral, which contradiction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fdarx_core.retrieval.models import ModelMissing

OPTION = "--nli-labels"
_EXAMPLE = f"{OPTION} contradiction,entailment,neutral"

_NOT_LETTER = re.compile(r"[^a-z]+")
_KINDS = {
    "entailment": re.compile(r"entail|support"),
    "not_entailment": re.compile(r"(not?|non)entail"),
    "neutral": re.compile(r"neutral|notenoughinfo|nei$"),
    "contradiction": re.compile(r"contradict|refute"),
}


@dataclass(frozen=True, slots=True)
class Classes:
    """The place of each class among a model's outputs.

    A model of two classes, entailment and not_entailment, can't contradict: `contradiction` is None, and what is not
    entailed counts as neutral.
    """

    entailment: int
    neutral: int
    contradiction: int | None


def classes_of(model: str, outputs: Sequence[str], given: Sequence[str] | None = None) -> Classes:
    """The classes of a model whose configuration names its `outputs` so; `given` names them in their place.

    Names count in any case and form (CONTRADICTION, contradictory), and those of FEVER (SUPPORTS, REFUTES, NOT ENOUGH
    INFO). Raises `ModelMissing`, with the names and the option to give, where they do not say which is which.
    """
    if given is not None and len(given) != len(outputs):
        raise ModelMissing(f"{OPTION} {','.join(given)}: {model} has {len(outputs)} outputs ({', '.join(outputs)})")
    names = outputs if given is None else given
    kinds = [_kind(name) for name in names]
    if sorted(kinds) == ["contradiction", "entailment", "neutral"]:
        return Classes(kinds.index("entailment"), kinds.index("neutral"), kinds.index("contradiction"))
    if sorted(kinds) == ["entailment", "not_entailment"]:
        return Classes(kinds.index("entailment"), kinds.index("not_entailment"), None)
    raise ModelMissing(_unclear(model, names, given is not None))


def _kind(name: str) -> str:
    letters = _NOT_LETTER.sub("", name.lower())
    return next((kind for kind, written in _KINDS.items() if written.match(letters)), "")


def _unclear(model: str, names: Sequence[str], given: bool) -> str:
    expected = "entailment, neutral and contradiction, or entailment and not_entailment"
    if given:
        return f"{OPTION} {','.join(names)}: expected {expected}, in the order of the outputs of {model}"
    remedy = f"give their order as its model card has it, say {_EXAMPLE}" if len(names) in (2, 3) else "take another"
    return f"{model} names its outputs {', '.join(names) or '(none)'}, not {expected}; {remedy}"
