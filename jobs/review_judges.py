"""The judges tried on the judged candidates: how often they drop what is bad and keep what is good."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import orjson
from cyclopts import Parameter
from pydantic import Field, field_validator

from fdarx_core.evaluation.tables import table_text
from fdarx_core.llm import ModelsError
from fdarx_core.pipeline.build_steps import Roles
from fdarx_core.pipeline.judge_trial import CODE_VERSION, OUTCOMES, SCORES, JudgeTrial, TrialSpec
from fdarx_core.review.judge_scores import StageScore, count_lines, score_tables
from fdarx_core.review.judged_candidates import read_judged, set_digest
from fdarx_core.storage import RunDirectory
from jobs.judging import judges_of, judging_identity, keep_criteria, load_roles, usable_criteria
from jobs.options import AskingConfig, Names
from jobs.output import print_json
from jobs.session import carried_out, is_done, run_folder, session, versions

_PHASES = {"judge": "labels judged"}
_JOB = "review_judges"


class ReviewJudgesConfig(AskingConfig):
    """Options of `fdarx review judges`."""

    part: Literal["tune", "test"] = "tune"
    """half of the judged candidates: tune, which may be read and tried as often as wanted; test, of which only figures
    are shown and which should be used once"""
    out: str | None = None
    """run directory to write, on disk or s3://; repeat the command to resume a run; required for models, whose replies
    are kept there"""
    models: str | None = None
    """YAML file that lists models on servers, see docs/models.md"""
    judge: Names = Field([])
    """models of --models to try as judges; of several the majority decides (none: only the rules are measured)"""
    votes: int = Field(1, ge=1)
    """how often each judge votes on a candidate; the number of judges times votes must be odd"""
    reader: str | None = None
    """model of --models that answers each candidate again (none: there is no round trip)"""
    criteria: str | None = None
    """YAML file with criteria for the judges, as `fdarx review criteria` writes it (prompts/criteria.yaml)"""

    @field_validator("criteria")
    @classmethod
    def _is_usable(cls, file: str | None) -> str | None:
        return usable_criteria(file)

    def load_roles(self) -> Roles:
        """Return the models of the roles. Raises ModelsError as `jobs.judging.load_roles`, and for models without a
        run directory."""
        roles = load_roles(self.models, reader=self.reader, judge=self.judge, votes=self.votes)
        self.check_prices(roles.used)
        if roles.used and self.out is None and not self.plan:
            raise ModelsError(f"--out: give a run directory, in which the replies of {', '.join(roles.used)} are kept")
        return roles


def judges(*, config: Annotated[ReviewJudgesConfig | None, Parameter(name="*")] = None) -> int:
    """Measure the rules, judges and round trip of a build on candidate questions that were marked by reading."""
    config = config or ReviewJudgesConfig()
    spec = TrialSpec(config.part, config.load_roles(), judges_of(config.criteria), config.max_requests, config.max_cost)
    identity = {"part": config.part, "set": set_digest(), **judging_identity(spec.roles, config.criteria)}
    reuse = [RunDirectory.open(other) for other in config.reuse]
    with run_folder(config.out, plan=config.plan) as out:
        run = RunDirectory.begin(out, job=_JOB, config=identity, versions=versions())
        if is_done(run, CODE_VERSION) or _tried(config, spec, run, reuse):
            _tell(config, run)
    return 0


def _tried(config: ReviewJudgesConfig, spec: TrialSpec, run: RunDirectory, reuse: Sequence[RunDirectory]) -> bool:
    keep_criteria(config.criteria, run)
    labels = len({one.set_id for one in read_judged(config.part)})
    with session(config, _PHASES, read=[], executor=config.executor, asking="judge", size=labels, run=run) as (
        progress,
        executor,
    ):
        trial = JudgeTrial(run=run, executor=executor, progress=progress, reuse=reuse, spec=spec)
        return carried_out(trial, progress, plan=config.plan)


def _tell(config: ReviewJudgesConfig, run: RunDirectory) -> None:
    scores = [StageScore.from_row(row) for row in orjson.loads(run.file(SCORES).read_bytes())]
    if config.as_json:
        print_json({"config": run.info()["config"], "scores": [score.to_row() for score in scores]})
    else:
        print("\n".join(count_lines(scores)))
        for table in score_tables(scores):
            print(f"\n{table_text(table)}")
        print(_NOTES)
    if config.part == "test":
        print("This is the half for testing: use it once, when nothing is tuned any more.", file=sys.stderr)
    if config.out is not None and not config.as_json:
        for name in (SCORES, OUTCOMES)[: 1 if config.part == "test" else 2]:
            print(f"rows  {run.file(name)}")


_NOTES = """
Intervals: 95 %, Wilson. Each stage sees all candidates; the chain drops what any stage drops. Unscored
candidates are neither dropped nor kept here; a build does not keep them. The marks say nothing on
relevance to bioequivalence review, so good candidates that the relevance judge drops are no faults of it."""
