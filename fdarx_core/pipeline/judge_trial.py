"""The trial of judges: every judged candidate goes through the rules, judges and round trip of a build."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any, ClassVar

import orjson

from fdarx_core.filters.judges import Judge
from fdarx_core.filters.round_trip import STAGE as ROUND_TRIP
from fdarx_core.llm import AskingStopped, source_digest
from fdarx_core.pipeline.build_steps import Roles, filter_by_rules, judging_steps
from fdarx_core.pipeline.executor import Stages
from fdarx_core.pipeline.job import PipelineJob
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Part, Stage, Step
from fdarx_core.review.judged_candidates import (
    JudgedCandidate,
    PartName,
    StageOutcome,
    chain_outcomes,
    judged_labels,
    read_judged,
    score_stages,
)

CODE_VERSION = source_digest(
    "fdarx_core.labels",
    "fdarx_core.baseline",
    "fdarx_core.text",
    "fdarx_core.generation",
    "fdarx_core.filters",
    "fdarx_core.verify",
    "fdarx_core.pipeline.build_steps",
    "fdarx_core.pipeline.round_trip_steps",
    "prompts",
)
"""A digest of all that decides what becomes of a candidate, so that a trial is made anew after a change of a filter."""
SCORES, OUTCOMES = "scores.json", "outcomes.jsonl"
"""The files of a finished trial: the scores, and what each stage made of each candidate."""
RULES = "rules"
_UNSCORED = "unscored_"
_OUTCOME = ("outcome", "reason", "detail")
_CANDIDATE = ("id", "type", "good", "failure", "reason", "question", "answer")


def _take_all(state: LabelState) -> None:
    """Take all candidates of a label as its questions again."""
    state.questions = list(state.candidates)


@dataclass(slots=True, kw_only=True)
class JudgeTrial(PipelineJob):
    """One trial into a run directory; see `PipelineJob`. A part is a label with its candidates.

    `part` is the half of the judged candidates to try; `roles` say who judges and who answers again.
    """

    phase: ClassVar[str] = "judge"
    code_version: ClassVar[str] = CODE_VERSION

    part: PartName
    roles: Roles
    judges: Sequence[Judge]
    candidates: list[JudgedCandidate] = field(init=False, repr=False)
    set_ids: list[str] = field(init=False, repr=False)

    def prepare(self, *, planned: bool) -> None:
        self.candidates = read_judged(self.part)
        self.set_ids = sorted({candidate.set_id for candidate in self.candidates})
        self.numbers = range(len(self.set_ids))

    def stages(self, *, planned: bool) -> Stages:
        parts = []
        for number, set_id in enumerate(self.set_ids):
            found = judged_labels()[set_id]
            mine = [candidate for candidate in self.candidates if candidate.set_id == set_id]
            asked = [candidate.question_of(found.label, found.passages) for candidate in mine]
            state = LabelState(found.identity, label=found.label, passages=found.passages, candidates=asked)
            parts.append(Part(number, [state]))
        # All candidates come back before each stage. Duplicates and twins are left out: these stages decide about sets
        # of questions, not about a question.
        judging = judging_steps(replace(self.roles, strict=True), self.judges)
        steps: list[Step[LabelState]] = [filter_by_rules, *(one for step in judging for one in (_take_all, step))]
        judged = [judge.stage for judge in self.judges] if self.roles.judges else []
        names = [RULES, *judged, *([ROUND_TRIP] if self.roles.reader else [])]
        write = partial(_write_part, self.parts, names)
        return [(Stage(self.phase, attrgetter("inputs"), steps, write), parts)]

    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        """Write the scores, and for the half to tune on what was made of each candidate; mark the run complete.

        Raises AskingStopped where asking ended.
        """
        if ended:
            raise AskingStopped(ended[self.phase])
        self.progress("publish", 0, 1, "")
        outcomes = self.parts.read_all(self.parts.mark_kind(""), self.numbers, StageOutcome)
        scores = [score.to_row() for score in score_stages(self.candidates, outcomes)]
        self.run.file(SCORES).write_bytes(orjson.dumps(scores, option=orjson.OPT_INDENT_2))
        if self.part == "tune":
            made: dict[str, dict[str, Any]] = {}
            for row in (*outcomes, *chain_outcomes(outcomes)):
                made.setdefault(row.id, {})[row.stage] = {name: getattr(row, name) for name in _OUTCOME}
            lines = (
                {**{name: getattr(candidate, name) for name in _CANDIDATE}, "stages": made[candidate.id]}
                for candidate in self.candidates
            )
            self.run.file(OUTCOMES).write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
        summary = {
            "code_version": CODE_VERSION,
            "candidates": len(self.candidates),
            "timings": self.timings,
            "asked": self.request_counts(),
        }
        return self.end(summary, complete=True)


def _write_part(parts: PartFiles, stages: Collection[str], part: int, states: Sequence[LabelState]) -> None:
    """Write what each stage made of each candidate of a label; the file marks the part as whole."""
    [state] = states
    rejects = {(reject.id, reject.stage): reject for reject in state.rejects}
    rows = []
    for stage, candidate in product(stages, state.candidates):
        reject = rejects.get((candidate.id, stage))
        if reject is None:
            rows.append(StageOutcome(candidate.id, stage, "kept"))
        else:
            outcome = "unscored" if reject.reason.startswith(_UNSCORED) else "dropped"
            reason = reject.reason.removeprefix(_UNSCORED)
            rows.append(StageOutcome(candidate.id, stage, outcome, reason, reject.detail))
    parts.mark_complete("", part, rows, StageOutcome)
