"""What annotators rejected and remarked, as a change to the judges' criteria, measured on items that it never saw."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from pydantic import Field, model_validator

from fdarx_core.llm import AskingStopped, Baseline, HttpEndpoint, ModelConfig, ModelsError, load_models
from fdarx_core.review.agreement import collect
from fdarx_core.review.criteria.folder import ReviewCriteria
from fdarx_core.review.items import open_review
from fdarx_core.storage import Location, StorageError
from jobs.asking_config import unknown_model
from jobs.exits import STOPPED
from jobs.options import JobConfig, read_options, stop
from jobs.review_arguments import flagged


class ReviewCriteriaConfig(JobConfig):
    """Options of `fdarx review criteria`."""

    review: str = Field(description="folder that `fdarx review sample` wrote; may come first, without --review")
    models: str | None = Field(None, description="YAML file that lists models on servers, see docs/models.md")
    proposer: str = Field(
        Baseline.name, description="who proposes a change: a name of --models; the built-in rules make the table alone"
    )
    table: str | None = Field(
        None, description="criteria.table.csv with changes filled in by hand, in place of a proposer"
    )
    judge: str = Field(
        Baseline.name,
        description="whom to measure by the old and the new criteria: a name of --models, best the run's own judge, "
        "whose answers are read back; the built-in rules read no criteria and measure nothing",
    )
    held_out: float = Field(
        0.5, gt=0, lt=1, description="share of the questions that no proposal sees; more of it narrows the intervals"
    )
    seed: int = Field(0, description="fixes what is held out, and the intervals")
    resamples: int = Field(2000, ge=100, description="bootstrap resamples")
    accept: str | None = Field(
        None, description="write the proposal that stands in the review to this new file, for builds to use"
    )

    @model_validator(mode="after")
    def _one_proposes(self) -> ReviewCriteriaConfig:
        if self.table and self.proposer != Baseline.name:
            raise ValueError("--table and --proposer: give one, either the table or a model proposes the change")
        return self

    def endpoint(self, name: str, role: str, models: Mapping[str, ModelConfig]) -> HttpEndpoint | None:
        """None for the built-in rules. Raises ModelsError for a name that is no model's."""
        if name != Baseline.name and name not in models:
            raise ModelsError(f"--{role} {name}: {unknown_model(models)}")
        return None if name == Baseline.name else HttpEndpoint(models[name])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the step; returns its exit code: 0 done, 2 wrong argument or proposal, 3 stopped while asking."""
    given = flagged(sys.argv[1:] if arguments is None else arguments, "review")
    config = read_options(ReviewCriteriaConfig, given, prog="fdarx review criteria", description=__doc__ or "")
    try:
        return _accept(config.review, config.accept) if config.accept else _propose(config)
    except (StorageError, ValueError) as error:  # models, criteria, proposals and votes that can't be used
        stop(str(error))
    except AskingStopped as error:
        print(f"stopped: {error}", file=sys.stderr)
        return STOPPED


def _propose(config: ReviewCriteriaConfig) -> int:
    models = load_models(config.models) if config.models else {}
    proposer = config.endpoint(config.proposer, "proposer", models)
    judge = config.endpoint(config.judge, "judge", models)
    work = _opened(config)
    place = config.table or work.write_table()
    print(f"table  {place}, of {len(work.learned)} items; {len(work.held)} others are held out")
    if config.table:
        changes = work.filled_in(Location(config.table))
    elif proposer:
        changes = work.proposed_by(proposer)
    else:
        print("The built-in rules word no criteria: fill the table in and give it with --table, or name a --proposer.")
        return 0
    if not changes:
        print("No change is proposed.")
        return 0
    print(work.write_trial(config.table or config.proposer, changes, judge, resamples=config.resamples), end="")
    if judge is None:
        print("Not measured: the built-in rules read no criteria. Name a model with --judge.")
    print(f"\nTo accept it: fdarx review criteria {config.review} --accept FILE")
    return 0


def _opened(config: ReviewCriteriaConfig) -> ReviewCriteria:
    review = open_review(config.review)
    annotations = review.annotations()
    if not annotations:
        stop(f"{review.root} has no annotations; take in the annotators' files with `fdarx review import`")
    voted = collect(review.items(), annotations)
    return ReviewCriteria.of(review, voted, share=config.held_out, seed=config.seed)


def _accept(review: str, file: str) -> int:
    ReviewCriteria.accept(open_review(review), Location(file))
    print(f"accepted  {file}\nuse it with  fdarx build --criteria {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
