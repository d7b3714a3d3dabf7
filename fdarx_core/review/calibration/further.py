"""The next answers of an evaluation for people to look at, in the light of what they said of earlier ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from fdarx_core.evaluation.aggregates import Codes, Numbers
from fdarx_core.records import content_id
from fdarx_core.records.review import ReviewItem
from fdarx_core.review.calibration.active import Pool, chances, drawn
from fdarx_core.review.calibration.answered import GRADE
from fdarx_core.review.calibration.answers import Answer, Answers, answers_of, history, rounds_of
from fdarx_core.review.calibration.rounds import held_by
from fdarx_core.review.frame import Unit
from fdarx_core.review.items import Review
from fdarx_core.review.making import grade_items
from fdarx_core.review.sampling import Drawn, Wanted
from fdarx_core.review.strata import Sample, Stratum
from fdarx_core.storage import RunDirectory, StorageError

_BY = ("model, setting and retriever", "type", "verdict")
_IN_ALL = 2.0**64


def draw_next(run: RunDirectory, earlier: Review, wanted: Wanted) -> Drawn:
    """Draws `n` answers that no review so far held, those that should narrow the calibrated accuracies most.

    `earlier` is the last review so far; models and settings are its own. An item's `fraction` is its chance among the
    answers left. Raises `StorageError` where nobody annotated, no answer is left, or the run is another one, and
    ValueError as `rounds_of` does.
    """
    reviews = history(earlier)
    answers = answers_of(run, reviews[0])
    rounds = rounds_of(answers, reviews)
    if not any(len(one.rows) for one in rounds):
        raise StorageError(f"{earlier.root} has no grades yet; import the annotators' files with `fdarx review import`")
    chance = chances(_pool(answers), rounds, wanted.n)
    if not chance.any():
        raise StorageError(f"{earlier.root} leaves no answer to look at: reviews hold all that have a verdict")
    rows = drawn(chance, _dice(answers, earlier, wanted.seed), round(float(chance.sum())))
    strata = _strata(answers, rows, held_by(rounds))
    items = _items(run, answers, rows, strata, chance, wanted.seed)
    return Drawn(items, {**earlier.info, **_info(earlier, items, strata, wanted, int((chance > 0).sum()))})


def _pool(answers: Answers) -> Pool:
    alike = [(one.cell, one.type, one.verdict) for one in answers.rows]
    return Pool(*(_codes(values) for values in ([key[0] for key in alike], alike, [key[2] for key in alike])))


def _codes(values: Sequence[object]) -> Codes:
    number = {value: at for at, value in enumerate(dict.fromkeys(values))}
    return np.array([number[value] for value in values], dtype=np.int64)


def _dice(answers: Answers, earlier: Review, seed: int) -> Numbers:
    """A number between 0 and 1 for each answer, by a hash of its id, the seed, and what was drawn before.

    Without the last, those left over from a round would be those with high numbers.
    """
    hashes = (int(content_id(str(seed), earlier.digest, one.id), 16) for one in answers.rows)
    return np.array([(number + 0.5) / _IN_ALL for number in hashes])


def _items(
    run: RunDirectory, answers: Answers, rows: Codes, strata: Sequence[Stratum], chance: Numbers, seed: int
) -> list[ReviewItem]:
    by_name = {one.name: one for one in strata}
    order = sorted(rows.tolist(), key=lambda row: content_id(str(seed), "order", answers.rows[row].id))
    found = [(_unit(answers.rows[row]), by_name[_stratum(answers.rows[row])]) for row in order]
    items = grade_items(run, Sample(found, list(strata), len(_BY)))
    return [replace(item, fraction=float(chance[row])) for item, row in zip(items, order, strict=True)]


def _unit(one: Answer) -> Unit:
    return Unit(one.id, one.question_id, (one.verdict, one.type), f"predictions/{one.cell.model}", one.part)


def _stratum(one: Answer) -> str:
    return f"{one.cell} · {one.type} · {one.verdict}"


def _strata(answers: Answers, rows: Codes, held: Codes) -> list[Stratum]:
    """Those of the answers left that some are drawn from; the chances within each are the same."""
    before = set(held.tolist())
    left = Counter(_stratum(one) for row, one in enumerate(answers.rows) if row not in before)
    taken = Counter(_stratum(answers.rows[row]) for row in rows.tolist())
    return [Stratum(name, left[name], taken[name]) for name in sorted(taken)]


def _info(
    earlier: Review, items: Sequence[ReviewItem], strata: Sequence[Stratum], wanted: Wanted, left: int
) -> dict[str, Any]:
    """What review.json says otherwise than that of the earlier review."""
    texts = (json.dumps(asdict(item), sort_keys=True, ensure_ascii=False) for item in items)
    return {
        "digest": content_id(earlier.digest, *texts),
        "of": earlier.root.address if earlier.root.is_remote else str(Path(earlier.root.address).absolute()),
        "seed": wanted.seed,
        "n": wanted.n,
        "tasks": [GRADE],
        "annotators": [],
        "by": list(_BY),
        "population": left,
        "subjects": len(items),
        "items": len(items),
        "strata": [{**asdict(one), "fraction": one.fraction} for one in strata],
    }
