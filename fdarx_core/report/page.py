"""A finished build as one HTML page that opens from disk and loads nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fdarx_core.records import StageCount
from fdarx_core.report import exhibits
from fdarx_core.report.counts import Counts
from fdarx_core.report.environment import duration, environment
from fdarx_core.report.parts import read_parts
from fdarx_core.report.retention import TYPE_NAMES, check_accounts
from fdarx_core.report.samples import DroppedExample, Example, Samples
from fdarx_core.storage import RunDirectory


@dataclass(frozen=True, slots=True)
class RejectGroup:
    """One reason of a stage; `share` is of the rows that came into the stage."""

    reason: str
    rows: int
    share: float
    examples: list[DroppedExample]


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """The benchmark's questions of one type: how many, and those that the page shows."""

    kind: str
    name: str
    rows: int
    share: float
    examples: list[Example]


def build_report(run: RunDirectory, summary: Mapping[str, Any] | None = None) -> str:
    """The page for a build whose rows are all on disk. Memory is bounded by one part of the run.

    `summary` is what `RunDirectory.finish` will add to run.json, for a page that is written before it.
    Raises ValueError where the stage counts in run.json and the rows on disk disagree.
    """
    info = {**run.info(), **(summary or {})}
    counts, samples = Counts(), Samples(info["config"].get("seed", 0))
    for part in read_parts(run):
        counts.add(part)
        samples.add(part)
    stages = [StageCount(**stage) for stage in info["stages"]]
    check_accounts(stages, counts.dropped)
    return environment().get_template("build.html.j2").render(_content(info, stages, counts, samples))


def _content(info: Mapping[str, Any], stages: list[StageCount], counts: Counts, samples: Samples) -> dict[str, Any]:
    by_stage = {stage.stage: stage for stage in stages}
    return {
        "info": info,
        "counts": counts,
        "took": duration(info),
        "total": sum(counts.questions.values()),
        "steps": _steps(stages, by_stage, counts),
        "types": _types(counts, samples),
        "retention": exhibits.retention(stages, counts),
        "topics": exhibits.topics(counts),
        "coverage": exhibits.coverage(counts),
        "passages": exhibits.passage_lengths(counts),
        "per_label": exhibits.questions_per_label(counts),
        "rejects": _rejects(by_stage, counts, samples),
        "accounts": [list(asdict(stage).values()) for stage in stages],
    }


def _steps(stages: list[StageCount], by_stage: Mapping[str, StageCount], counts: Counts) -> list[tuple[str, int]]:
    return [
        ("label files", by_stage["read"].rows_in),
        ("labels", counts.labels),
        ("passages", counts.passages),
        ("contexts", by_stage["generate"].rows_in),
        ("candidates", counts.candidates.total()),
        ("questions", stages[-1].kept),
    ]


def _types(counts: Counts, samples: Samples) -> list[TypeGroup]:
    rows: Counter[str] = Counter()
    for (kind, _, _), number in counts.questions.items():
        rows[kind] += number
    kinds = [*TYPE_NAMES, *sorted(set(rows) - set(TYPE_NAMES))]
    total = max(rows.total(), 1)
    return [
        TypeGroup(kind, TYPE_NAMES.get(kind, kind), rows[kind], rows[kind] / total, samples.questions(kind))
        for kind in kinds
    ]


def _rejects(by_stage: Mapping[str, StageCount], counts: Counts, samples: Samples) -> dict[str, list[RejectGroup]]:
    """Stages that rejected rows, in the order of the flow, each with its reasons, most frequent first."""
    rows: Counter[tuple[str, str]] = Counter()
    for (stage, reason, _), number in counts.dropped.items():
        rows[stage, reason] += number
    groups: dict[str, list[RejectGroup]] = {stage: [] for stage in by_stage}
    for (stage, reason), number in sorted(rows.items(), key=lambda item: (-item[1], item[0])):
        share = number / by_stage[stage].rows_in
        groups[stage].append(RejectGroup(reason, number, share, samples.rejects(stage, reason)))
    return {stage: found for stage, found in groups.items() if found}
