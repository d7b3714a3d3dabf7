"""Similarity of answers and references before and after tuning: means, and differences with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from fdarx_core.evaluation.bootstrap import contrast, estimate
from fdarx_core.evaluation.metrics import Measure, ScoreColumns, mean_metric, measure_table
from fdarx_core.evaluation.similarity import AnswerSimilarity, rouge_l
from fdarx_core.records import Difference, Figure

BASE, TUNED = "base", "tuned"


@dataclass(slots=True)
class TunedAnswer:
    """The answer of a model to a question of the test part.

    `model` is `BASE` or `TUNED`; `loss` is the mean cross-entropy of the tokens of the reference, in nats. Similarities
    are None if no model for them was given.
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


MEASURES = {
    "loss": "Loss, nats per token",
    "rouge_l": "ROUGE-L",
    "embedding_similarity": "Embedding similarity",
    "bert_precision": "BERTScore precision",
    "bert_recall": "BERTScore recall",
    "bert_f1": "BERTScore F1",
}
"""The measures by the names of the fields of `TunedAnswer`; a lower loss is better."""


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
    ids = [{one.id for one in rows if one.model == model} for model in (BASE, TUNED)]
    if ids[0] != ids[1] or len(rows) != 2 * len(ids[0]):
        raise ValueError("the answers of the base model and the tuned one are not to the same questions, each once")
    measures: dict[str, Measure] = {
        name: (name, attrgetter(name)) for name in MEASURES if rows and getattr(rows[0], name) is not None
    }
    if not measures:
        return []
    table = measure_table(rows, measures, cluster=attrgetter("group"), question=attrgetter("id"), keys=["model"])
    columns = ScoreColumns(table)
    models = {model: columns.is_in("model", model) for model in (BASE, TUNED)}
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
