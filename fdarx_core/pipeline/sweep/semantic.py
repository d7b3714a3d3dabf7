"""BERTScore of all answers, by Ray actors that hold the model; kept beside the scores, which rules alone can make."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fdarx_core.evaluation.metrics.semantic import SemanticScorer
from fdarx_core.pipeline.sweep.parts import Parts
from fdarx_core.pipeline.sweep.what import Sweep
from fdarx_core.pipeline.sweep.windows import Tell, by_actors
from fdarx_core.records import Prediction, QuestionAnswer
from fdarx_core.storage import RunDirectory, read_records, read_table, write_table


class Semantics:
    """A Ray actor that holds one BERTScore model."""

    def __init__(self, parts: Parts, directory: str, layers: int | None) -> None:
        self._parts = parts
        self._scorer = SemanticScorer(directory, layers=layers)

    def score(self, place: tuple[str, int]) -> int:
        """Score a model's answers in a part against the gold answers; returns their number."""
        model, part = place
        run = self._parts.run
        questions = read_records(run.part("questions", part), QuestionAnswer)
        answers = {row.id: row.answer for row in questions if row.type != "refusal"}
        told = [
            row
            for row in read_records(run.part(f"predictions/{model}", part), Prediction)
            if row.question_id in answers and row.outcome in ("answered", "refused")
        ]
        scores = self._scorer.scores([row.answer for row in told], [answers[row.question_id] for row in told])
        table = pa.table({"prediction_id": [row.id for row in told], "bert_score": pa.array(scores, pa.float64())})
        write_table(run.part(f"bert_scores/{model}", part), table)
        self._parts.mark(f"bert_scores/{model}", part)
        return len(told)


def score_semantics(parts: Parts, sweep: Sweep, numbers: Sequence[int], tell: Tell) -> None:
    """Score what each model has sat and is not scored yet."""
    places = [
        (model, number)
        for model in sweep.sitters
        for number in sorted(parts.marked(f"sat/{model}", numbers) - parts.marked(f"bert_scores/{model}", numbers))
    ]
    by_actors(Semantics, (parts, sweep.bertscore, sweep.bertscore_layers), "score", places, tell, on_gpus=True)


def with_bert_scores(run: RunDirectory, model: str, scores: pa.Table) -> pa.Table:
    """A Score table with its bert_score column filled in, where answers were scored."""
    found: dict[str, float] = {}
    for place in run.parts(f"bert_scores/{model}"):
        table = read_table(place, ["prediction_id", "bert_score"])
        found.update(zip(table["prediction_id"].to_pylist(), table["bert_score"].to_pylist(), strict=True))
    column = pa.array([found.get(one) for one in scores["prediction_id"].to_pylist()], pa.float64())
    return scores.set_column(scores.schema.get_field_index("bert_score"), "bert_score", column)
