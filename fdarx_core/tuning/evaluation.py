"""Similarity of answers and references before and after tuning: means, and differences with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from fdarx_core.evaluation.bootstrap import contrast, estimate
from fdarx_core.evaluation.metrics import Measure, ScoreColumns, mean_metric, measure_table
from fdarx_core.evaluation.similarity import AnswerSimilarity, rouge_l
from fdarx_core.records import Difference, Figure

BASE, TUNED = "base", "tuned"
_MODELS = (BASE, TUNED)


@dataclass(slots=True)
class TunedAnswer:
    """The answer of a model to a question of the test part.

    `model` is `BASE` or `TUNED`; `loss` is the mean cross-entropy of the tokens of the reference, in nats, and
    `rejected_loss` that of the worse answer of a preference pair. Similarities are None if no model for them was given.
    """

    id: str
    group: str
    model: str
    question: str
    reference: str
    answer: str
    loss: float
    rouge_l: float
    embedding_similarity: float | None = None
    bert_precision: float | None = None
    bert_recall: float | None = None
    bert_f1: float | None = None
    rejected_loss: float | None = None

    @property
    def preferred(self) -> float | None:
        """1 if the reference is likelier a token than the worse answer, else 0; None without a worse answer."""
        return None if self.rejected_loss is None else float(self.loss < self.rejected_loss)


MEASURES = {
    "loss": "Loss, nats per token",
    "preferred": "Better answer preferred",
    "rouge_l": "ROUGE-L",
    "embedding_similarity": "Embedding similarity",
    "bert_precision": "BERTScore precision",
    "bert_recall": "BERTScore recall",
    "bert_f1": "BERTScore F1",
}
"""The measures by the names of the attributes of `TunedAnswer`; a lower loss is better."""


Change = tuple[str, Figure, Figure, Difference]
"""A measure, its means for the base model and for the tuned one, and the difference of tuned from base."""


def score_answers(
    rows: Sequence[TunedAnswer], *, encoder: str | None, bertscore: str | None, layers: int | None
) -> list[TunedAnswer]:
    """Return the rows with ROUGE-L and the similarities by the models of these directories."""
    models = AnswerSimilarity(bertscore, layers, encoder)
    measured = models.measure([one.answer for one in rows], [one.reference for one in rows])
    return [
        replace(one, rouge_l=rouge_l(one.answer, one.reference), **found)
        for one, found in zip(rows, measured, strict=True)
    ]


def tuning_figures(rows: Sequence[TunedAnswer], *, seed: int, resamples: int) -> list[Change]:
    """Return the means of each measure over the test part, with intervals by bootstrap over groups of similar pairs.

    The key of a figure is model. Raises ValueError unless both models answered each question once.
    """
    measures: dict[str, Measure] = {
        name: (name, attrgetter(name)) for name in MEASURES if rows and getattr(rows[0], name) is not None
    }
    fields = RowFields(model="model", cluster="group", question="id")
    return base_and_tuned(rows, measures, fields, seed=seed, resamples=resamples)


class RowFields(NamedTuple):
    """The names of the fields of a row that tell whose it is: `BASE` or `TUNED`, its cluster, and its question."""

    model: str
    cluster: str
    question: str


def base_and_tuned(
    rows: Sequence[Any], measures: Mapping[str, Measure], fields: RowFields, *, seed: int, resamples: int
) -> list[Change]:
    """Return the means of measures for the base model and the tuned one, and their differences, with intervals.

    Raises ValueError unless there is a row of both models for each question, each once.
    """
    ids = [{getattr(one, fields.question) for one in rows if getattr(one, fields.model) == name} for name in _MODELS]
    if ids[0] != ids[1] or len(rows) != 2 * len(ids[0]):
        raise ValueError("the answers of the base model and the tuned one are not to the same questions, each once")
    if not measures:
        return []
    cluster, question = attrgetter(fields.cluster), attrgetter(fields.question)
    table = measure_table(rows, measures, cluster=cluster, question=question, keys=[fields.model])
    columns = ScoreColumns(table)
    models = {model: columns.is_in(fields.model, model) for model in _MODELS}
    slices = [[(mean_metric(name), mask) for mask in models.values()] for name in measures]
    means = estimate(columns, [one for pair in slices for one in pair], seed=seed, resamples=resamples)
    differ = contrast(columns, [(tuned, base) for base, tuned in slices], seed=seed, resamples=resamples)
    sides = {"first": {"model": TUNED}, "second": {"model": BASE}}
    return [
        (
            name,
            Figure.of(name, {"model": BASE}, base),
            Figure.of(name, {"model": TUNED}, tuned),
            Difference.of(name, {}, difference, **sides),
        )
        for name, base, tuned, difference in zip(measures, means[::2], means[1::2], differ, strict=True)
    ]


def read_changes(figures: Iterable[Figure], differences: Iterable[Difference]) -> list[Change]:
    """Return the changes whose figures and differences were stored."""
    means = {(one.metric, one.keys["model"]): one for one in figures}
    return [(one.metric, means[one.metric, BASE], means[one.metric, TUNED], one) for one in differences]
