"""Draw what people are to judge of a finished build or evaluation: stratified, reproducible, a page for each person."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from pydantic import Field, field_validator

from fdarx_core.report.review import annotator_page
from fdarx_core.review.calibration.further import draw_next
from fdarx_core.review.frame import reviewable
from fdarx_core.review.items import Review, open_review
from fdarx_core.review.sampling import Wanted, draw_sample
from fdarx_core.review.tasks import REVIEW_TASKS
from fdarx_core.review.writing import write_review
from fdarx_core.storage import StorageError
from jobs.measuring_config import at_commas
from jobs.options import JobConfig, read_options, stop
from jobs.review_arguments import flagged
from jobs.versions import versions

_AGREEMENT = "agreement"
"""What `fdarx review report` calls its page."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class ReviewSampleConfig(JobConfig):
    """Options of `fdarx review sample`."""

    run: str = Field(description="a finished run of `fdarx build` or `fdarx evaluate`; may come first, without --run")
    out: str = Field(description="folder to write, on disk or s3://")
    annotators: list[str] = Field(
        description="who judges: names of letters, digits, dots and dashes; commas or spaces between. All get the same "
        "items; three make a majority. The same command with more names adds pages for those who join",
    )
    n: int = Field(
        150,
        ge=1,
        description="questions to draw (of an evaluation: predictions, one a question); each is asked about once "
        "a task. More narrow the intervals, and take the annotators' time",
    )
    tasks: list[str] = Field(
        list(REVIEW_TASKS),
        description="what to ask, of those that fit the run: a build's relevance, category, correctness, quality; an "
        "evaluation's grade",
    )
    seed: int = Field(0, description="fixes what is drawn")
    models: list[str] = Field(default_factory=list, description="an evaluation's: only answers of these models (all)")
    settings: list[str] = Field(default_factory=list, description="an evaluation's: only answers in these (all)")

    after: str | None = Field(
        None,
        description="an evaluation's: the last review of it; draw, of its models and settings, answers that none "
        "held so far and that should narrow the calibrated accuracies most, going by what people said",
    )

    @field_validator("annotators", "tasks", "models", "settings", mode="after")
    @classmethod
    def _at_commas(cls, given: list[str]) -> list[str]:
        return list(dict.fromkeys(at_commas(given)))

    @field_validator("annotators", mode="after")
    @classmethod
    def _named(cls, given: list[str]) -> list[str]:
        for name in given:
            if not _NAME.fullmatch(name) or name == _AGREEMENT:
                raise ValueError(f"{name!r} can't name a page; use up to 40 letters, digits, dots, dashes, no space")
        if not given:
            raise ValueError("name at least one")
        if len({name.lower() for name in given}) < len(given):
            raise ValueError("two names differ in case alone, and some disks would write both to one file")
        return given

    @field_validator("tasks", mode="after")
    @classmethod
    def _known_tasks(cls, given: list[str]) -> list[str]:
        if unknown := [one for one in given if one not in REVIEW_TASKS]:
            raise ValueError(f"there is no task {unknown[0]}; known are {', '.join(REVIEW_TASKS)}")
        return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the step; returns its exit code."""
    given = flagged(sys.argv[1:] if arguments is None else arguments, "run")
    config = read_options(ReviewSampleConfig, given, prog="fdarx review sample", description=__doc__ or "")
    try:
        review = _sample(config)
    except (StorageError, ValueError) as error:
        stop(str(error))
    _tell(review)
    return 0


def _sample(config: ReviewSampleConfig) -> Review:
    wanted = Wanted(config.n, config.seed, config.tasks, config.models, config.settings)
    run = reviewable(config.run)
    if config.after and (config.models or config.settings):
        raise ValueError(f"--after {config.after} goes on with its own models and settings; give none")
    drawn = draw_next(run, open_review(config.after), wanted) if config.after else draw_sample(run, wanted)
    return write_review(config.out, drawn, config.annotators, versions(), annotator_page)


def _tell(review: Review) -> None:
    info = review.info
    print(f"{info['subjects']} of {info['population']} drawn, {info['items']} items: {', '.join(info['tasks'])}")
    print(f"{len(info['strata'])} strata, by {', '.join(info['by']) or 'nothing'}")
    for name in info["annotators"]:
        print(f"page    {review.root}/{name}.html")
    print(f"sheet   {review.root}/items.csv\nrows    {review.root}/items.jsonl")


if __name__ == "__main__":
    sys.exit(main())
