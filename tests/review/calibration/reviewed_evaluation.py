"""A finished evaluation, and people who grade its answers: right but for a few, as a hash of the answer says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fdarx_core.records import Score, content_id
from fdarx_core.records.review import Annotation, ReviewItem
from fdarx_core.review.items import Review
from fdarx_core.review.sampling import Drawn
from fdarx_core.review.writing import write_review
from fdarx_core.storage import RunDirectory, write_records
from tests.report.synthetic_evaluation import SyntheticEvaluation

PEOPLE = ("anna", "ben", "cleo")
Says = Callable[[str, ReviewItem], str]


def evaluation(root: Path, labels: int = 9, seed: int = 0) -> RunDirectory:
    """With the Score rows that a sweep leaves, in the parts that its predictions are in."""
    made = SyntheticEvaluation(root, labels, seed)
    parts: dict[tuple[str, int], list[Score]] = defaultdict(list)
    for rows in made.scores.values():
        for row in rows:
            parts[row.model, int(row.set_id.rpartition("-")[2])].append(row)
    for (model, number), held in parts.items():
        write_records(made.run.part(f"scores/{model}", number), held, Score)
    return made.finish()


def hashed(*parts: str) -> float:
    """From 0 to 1."""
    return int(content_id(*parts), 16) / 2**64


def fair(annotator: str, item: ReviewItem) -> str:
    """What all say: the judge is wrong on a quarter of what it found correct, and on a tenth of what it did not."""
    wrong = hashed("truth", item.subject) < (0.25 if item.decision == "correct" else 0.1)
    return "correct" if (item.decision == "correct") != wrong else "incorrect"


def reviewed(
    root: Path, drawn: Drawn, says: Says = fair, people: Sequence[str] = PEOPLE, annotated: int | None = None
) -> Review:
    """The sample as a review of which all have annotated the first items (None: all of them)."""

    def page(info: Mapping[str, Any], items: Sequence[ReviewItem], name: str) -> str:
        return name

    review = write_review(str(root), drawn, people, {}, page)
    for name in people:
        rows = [Annotation(item.id, name, item.task, says(name, item)) for item in review.items()[:annotated]]
        write_records(review.root / f"annotations/{name}-0.parquet", rows, Annotation)
    return review
