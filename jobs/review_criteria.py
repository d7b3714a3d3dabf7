"""What people rejected and remarked in a review turned into new criteria, measured on items that were held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field, model_validator

from fdarx_core.llm import Baseline, ModelConfig, load_models
from fdarx_core.pipeline.rejudging import judge_twice, propose_changes
from fdarx_core.report.review_pages import trial_text
from fdarx_core.review.agreement_metrics import collect_votes
from fdarx_core.review.criteria import CriteriaTrial, ReviewCriteria, compare_criteria, trial_json
from fdarx_core.review.criteria_proposals import apply_changes
from fdarx_core.review.review_set import open_review
from fdarx_core.storage import Location
from jobs.options import JobConfig, check_roles
from jobs.output import print_json
from jobs.review import annotations_of
from jobs.session import asking_session

_PHASES = {"propose": "asking for changes", "judge": "parts of the items judged"}


class ReviewCriteriaConfig(JobConfig):
    """Options of `fdarx review criteria`."""

    models: str | None = None
    """YAML file that lists models on servers, see docs/models.md"""
    proposer: str = Baseline.name
    """model that proposes changes: a name of --models; baseline only writes the table"""
    table: str | None = None
    """criteria.table.csv with changes that a person filled in, instead of a proposer"""
    judge: str = Baseline.name
    """judge to measure with the old and the new criteria: a name of --models; the run's own judge is best, because its
    responses are reused; baseline uses no criteria and measures nothing"""
    held_out: float = Field(0.5, gt=0, lt=1)
    """share of the questions that no proposal uses; a larger share gives narrower intervals"""
    seed: int = 0
    """random seed of the held-out questions and the intervals"""
    resamples: int = Field(2000, ge=100)
    """bootstrap resamples"""
    accept: str | None = None
    """write the proposal of the review to this new file, for builds to use"""

    @model_validator(mode="after")
    def _one_proposes(self) -> ReviewCriteriaConfig:
        if self.table and self.proposer != Baseline.name:
            raise ValueError("--table and --proposer: give one, either the table or a model proposes the change")
        return self


def criteria(review: str, *, config: Annotated[ReviewCriteriaConfig | None, Parameter(name="*")] = None) -> int:
    """Turn what annotators rejected and remarked into new criteria, measured on items that were held out.

    Parameters
    ----------
    review
        The folder that `fdarx review sample` wrote.
    """
    config = config or ReviewCriteriaConfig()
    return _accept(review, config, config.accept) if config.accept else _propose(review, config)


def _propose(review: str, config: ReviewCriteriaConfig) -> int:
    models = load_models(config.models) if config.models else {}
    check_roles({"proposer": config.proposer, "judge": config.judge}, models)
    work = _opened(review, config)
    place = config.table or work.write_table()
    counts = {"learned": len(work.learned), "held_out": len(work.held_out)}
    print(f"table  {place}, of {counts['learned']} items; {counts['held_out']} others are held out")
    trial = _trial(work, config, models)
    if config.as_json:
        print_json({"review": review, "table": str(place), **counts, **({} if trial is None else trial_json(trial))})
    elif trial is not None and not trial.judge:
        print("Not measured: the built-in rules read no criteria. Name a model with --judge.")
    if trial is not None:
        print(f"\nTo accept it: fdarx review criteria {review} --accept FILE")
    return 0


def _trial(
    work: ReviewCriteria, config: ReviewCriteriaConfig, models: Mapping[str, ModelConfig]
) -> CriteriaTrial | None:
    """Return the trial of the proposed changes, whose files are written; None, with a line that says why, for none."""
    proposer, judge = models.get(config.proposer), models.get(config.judge)  # None: the built-in rules
    with asking_session(config, _PHASES) as (progress, executor):
        if config.table:
            changes = work.filled_in(Location(config.table))
        elif proposer:
            progress("propose", 0, 1)
            changes = propose_changes(work, proposer, executor)
        else:
            print(
                "The built-in rules word no criteria: fill the table in and give it with --table, or name a --proposer."
            )
            return None
        if not changes:
            print("No change is proposed.")
            return None
        trial = CriteriaTrial(config.table or config.proposer, changes, apply_changes(work.criteria, changes))
        if judge is not None:
            items, sent = judge_twice(work, trial.proposed, judge, executor, partial(progress, "judge"))
            progress("publish", 0, 1)
            compared = compare_criteria(items, seed=config.seed, resamples=config.resamples)
            trial = replace(trial, judge=judge.name, items=items, comparisons=compared, sent=sent)
        text = trial_text(trial)
        work.write_trial(trial, text)
    print(text, end="")
    return trial


def _opened(address: str, config: ReviewCriteriaConfig) -> ReviewCriteria:
    review = open_review(address)
    voted = collect_votes(review.items(), annotations_of(review))
    return ReviewCriteria.of(review, voted, share=config.held_out, seed=config.seed)


def _accept(review: str, config: ReviewCriteriaConfig, file: str) -> int:
    ReviewCriteria.accept(open_review(review), Location(file))
    if config.as_json:
        print_json({"review": review, "accepted": file})
    else:
        print(f"accepted  {file}\nuse it with  fdarx build --criteria {file}")
    return 0
