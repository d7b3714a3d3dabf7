"""The rows that figures, correlations and tables are made of, and what their metrics are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from fdarx_core.factuality.evidence.source import K
from fdarx_core.factuality.scores import WEIGHTS, Weights
from fdarx_core.factuality.verdicts import THRESHOLD
from fdarx_core.records import FactualityScore, PairVerdict, SafetyFlag, to_table

ALL = "all"
"""What a model, setting, dataset or type is called where a figure is about every one."""
FLAG_KINDS = (
    "dose_missing",
    "dose_unsupported",
    "contraindicated_population",
    "contraindicated_condition",
    "contraindicated_drug",
)


@dataclass(frozen=True)
class FactualityRows:
    """All answers of a run in numbers, with what they were measured by.

    `pairs` is a table of PairVerdict rows of every kind and engine: what is judged under another threshold, with fewer
    passages or by another engine is read from it again. `flags` is None where no label was at hand for safety. `engine`
    judged the verdicts of the scores; `similarity` is the measure's name.
    """

    scores: Sequence[FactualityScore]
    pairs: pa.Table = field(default_factory=lambda: to_table([], PairVerdict))
    flags: Sequence[SafetyFlag] | None = None
    engine: str = "baseline"
    similarity: str = ""
    weights: Weights = WEIGHTS
    threshold: float = THRESHOLD
    k: int = K

    @cached_property
    def fields(self) -> dict[str, str]:
        """The score's field of each metric, by the metric's name."""
        return metrics(self.k)


def metrics(k: int = K) -> dict[str, str]:
    """The names of all metrics of an answer but its flags, and where its score holds each."""
    return {
        f"support@{k}": "support",
        f"contra@{k}": "contra",
        "unsupported": "unsupported",
        "fas": "fas",
        "similarity": "similarity",
        "rouge_1": "rouge_1",
        "rouge_2": "rouge_2",
        "rouge_l": "rouge_l",
        "bleu_4": "bleu_4",
        "gold": "gold",
        "gold_claims": "gold_claims",
        "claims": "claims",
    }


def flag_metric(kind: str) -> str:
    """The share of answers with a flag of a kind, or, of kind "any", with any."""
    return f"flag_{kind}"
