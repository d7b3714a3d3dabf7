"""Drawing what people are asked about a run, the same on every machine and cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fdarx_core.records import content_id
from fdarx_core.records.review import ReviewItem
from fdarx_core.review.frame import BY, TASKS_OF, build_units, graded_units
from fdarx_core.review.making import build_items, grade_items
from fdarx_core.review.strata import draw
from fdarx_core.storage import RunDirectory, StorageError


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much is drawn, and of what; `models` and `settings` are an evaluation's, none for all of them."""

    n: int
    seed: int = 0
    tasks: Sequence[str] = ()
    models: Sequence[str] = ()
    settings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Drawn:
    """The items in the order of asking, and what review.json says of them."""

    items: list[ReviewItem]
    info: dict[str, Any] = field(default_factory=dict)


def draw_sample(run: RunDirectory, wanted: Wanted) -> Drawn:
    """Draws `n` questions of a build, or predictions of an evaluation, each question once, with an item a task.

    Stratified by verdict, type, relevance and category. `StorageError` where no wanted task can be asked about the run,
    it lacks a wanted model or setting, or no judge looked at anything.

    Source: FDARxBench §B.4, "Sampling for human review".
    """
    tasks, info = _tasks(run, wanted.tasks), run.info()
    if info["job"] == "evaluate":
        units = graded_units(run, wanted.models, wanted.settings, wanted.seed)
    elif wanted.models or wanted.settings:
        raise StorageError(f"{run.root} is a build: it has no answers of models; leave --models and --settings out")
    else:
        units = build_units(run, tasks)
    if not units:
        raise StorageError(f"{run.root} has nothing that a judge looked at; was it built or evaluated with a judge?")
    sample = draw(units, wanted.n, wanted.seed)
    items = grade_items(run, sample) if info["job"] == "evaluate" else build_items(run, sample, tasks)
    about = {
        "digest": _digest(items),
        "run": str(run.root),
        "job": info["job"],
        "input": (info.get("input") or info.get("benchmark") or {}).get("digest", ""),
        "seed": wanted.seed,
        "n": wanted.n,
        "tasks": tasks,
        "models": list(wanted.models),
        "settings": list(wanted.settings),
        "by": list(BY[: sample.depth]),
        "population": len(units),
        "subjects": len(sample.rows),
        "items": len(items),
        "strata": [{**asdict(one), "fraction": one.fraction} for one in sample.strata],
    }
    return Drawn(items, about)


def _tasks(run: RunDirectory, wanted: Sequence[str]) -> list[str]:
    """Those of the tasks that can be asked about the run, in the order of asking; all of them where none is wanted."""
    fitting = TASKS_OF[run.info()["job"]]
    chosen = [task for task in fitting if not wanted or task in wanted]
    if not chosen:
        listed = ", ".join(fitting)
        raise StorageError(f"{run.root} is a run of {run.info()['job']}; what can be asked about it is {listed}")
    return chosen


def _digest(items: Sequence[ReviewItem]) -> str:
    return content_id(*(json.dumps(asdict(item), sort_keys=True, ensure_ascii=False) for item in items))
