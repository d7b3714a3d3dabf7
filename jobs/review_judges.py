"""The judges tried on the judged candidates: how often they drop what is bad and keep what is good."""

from __future__ import annotations

import sys
from typing import Annotated, Any, ClassVar, Literal

import orjson
from cyclopts import Parameter
from pydantic import Field

from fdarx_core.evaluation.tables import table_text
from fdarx_core.llm import ModelsError
from fdarx_core.pipeline.build_steps import baseline
from fdarx_core.pipeline.judge_trial import CODE_VERSION, OUTCOMES, SCORES, JudgeTrial
from fdarx_core.review.judged_candidates import StageScore, count_lines, read_judged, score_tables, set_digest
from fdarx_core.specs.build import CriteriaFile, judges_of, judging_identity, judging_prompts, keep_criteria, load_roles
from fdarx_core.specs.options import Names
from fdarx_core.specs.running import AskingSpec, OpenedJob
from fdarx_core.storage import RunDirectory
from jobs.output import print_json
from jobs.session import carry_out

_PHASES = {"judge": "labels judged"}


class ReviewJudgesSpec(AskingSpec):
    """A trial of the judges: the options of `fdarx review judges`."""

    job: ClassVar[str] = "review_judges"

    part: Literal["tune", "test"] = "tune"
    """half of the judged candidates: tune, which may be read and tried as often as wanted; test, of which only figures
    are shown and which should be used once"""
    out: str | None = None  # type: ignore[assignment]
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
    criteria: CriteriaFile = None
    """YAML file with criteria for the judges, in the layout of prompts/criteria.yaml"""

    def open(self) -> OpenedJob:
        """Load the models. Raises ModelsError for models that can't be used or have no run directory."""
        roles = load_roles(self.loaded_models(), reader=self.reader, judge=self.judge, votes=self.votes)
        clients = self.client_pool(baseline(), roles.used)
        if roles.used and self.out is None and not self.plan:
            raise ModelsError(f"--out: give a run directory, in which the replies of {', '.join(roles.used)} are kept")
        judged_by = judges_of(self.criteria)

        def make(*, run: RunDirectory, **how: Any) -> JudgeTrial:
            keep_criteria(self.criteria, run)
            return JudgeTrial(run=run, clients=clients, part=self.part, roles=roles, judges=judged_by, **how)

        return OpenedJob(
            config={"part": self.part, "set": set_digest(), **judging_identity(roles, self.criteria)},
            make=make,
            used=roles.used,
            size=len({candidate.set_id for candidate in read_judged(self.part)}),
            code_version=CODE_VERSION,
            prompts=judging_prompts(judged_by),
        )


def judges(*, config: Annotated[ReviewJudgesSpec | None, Parameter(name="*")] = None) -> int:
    """Measure the rules, judges and round trip of a build on candidate questions that were marked by reading."""
    spec = config or ReviewJudgesSpec()
    return carry_out(spec, _PHASES, _tell, busy_text="reading the judged candidates")


def _tell(run: RunDirectory, config: ReviewJudgesSpec) -> int:
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
    return 0


_NOTES = """
Intervals: 95 %, Wilson. Each stage sees all candidates; the chain drops what any stage drops. Unscored
candidates are neither dropped nor kept here; a build does not keep them. The marks say nothing on
relevance to bioequivalence review, so good candidates that the relevance judge drops are no faults of it."""
