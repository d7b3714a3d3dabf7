"""People judge a run: items are drawn and annotated, imported, and compared with what the judges decided."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import Field, field_validator

from fdarx_core.evaluation.tables import ResultTable, table_text
from fdarx_core.records.benchmark import Annotation
from fdarx_core.report.review_pages import agreement_page, annotator_page
from fdarx_core.review.active_sampling import draw_next
from fdarx_core.review.agreement import Agreement, measure_agreement, table_3, table_4, table_5
from fdarx_core.review.agreement_metrics import AnnotatedItem
from fdarx_core.review.argilla import export_argilla
from fdarx_core.review.calibration import calibrated_tables
from fdarx_core.review.feedback import import_feedback, is_feedback
from fdarx_core.review.importing import ImportResult, export_pairs, import_annotations
from fdarx_core.review.items import draw_sample
from fdarx_core.review.label_studio import export_label_studio
from fdarx_core.review.review_set import Review, open_review, write_adjudication, write_review
from fdarx_core.review.sampling import open_reviewable_run
from fdarx_core.review.tasks import EVALUATE, FACTUALITY, ON_REQUEST, REVIEW_TASKS
from fdarx_core.storage import Location, RunDirectory, StorageError
from jobs import stop
from jobs.options import PRESENTATION, JobConfig, Names, one_of
from jobs.output import print_json
from jobs.progress import busy
from jobs.session import versions

_AGREEMENT = "agreement"
"""The file name of the page of `fdarx review report`."""
_MAX_LISTED = 20
"""Maximum number of items with different marks that an import lists."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class ReviewSampleConfig(JobConfig):
    """Options of `fdarx review sample`."""

    out: str
    """folder to write, on disk or s3://"""
    annotators: Names
    """names of the annotators, of letters, digits, dots and dashes, separated by commas or spaces. All get the same
    items unless --overlap is given; three annotators allow a majority. Repeat the command with more names to add
    pages"""
    overlap: float = Field(1.0, ge=0, le=1)
    """share of the questions, answers, claims and flags that all annotators get, to measure agreement; the others are
    shared out, each to one annotator"""
    undecided_first: bool = False
    """show the items first that the judge or engine left undecided, all others after them"""
    n: int = Field(150, ge=1)
    """number of questions to draw (of an evaluation: predictions, one per question; of a factuality run: claims, and as
    many flags); each becomes one item per task. More questions give narrower intervals, and take more of the
    annotators' time"""
    tasks: Annotated[Names, one_of(REVIEW_TASKS, "task")] = Field(
        [name for name in REVIEW_TASKS if name not in ON_REQUEST]
    )
    """tasks, of those that fit the run: correctness and quality for a build, and if named relevance and category; grade
    for an evaluation; claim and flag for a factuality run"""
    seed: int = 0
    """random seed of the sample"""
    models: Names = Field(default_factory=list)
    """only answers of these models (all)"""
    settings: Names = Field(default_factory=list)
    """only answers in these settings (all)"""
    after: str | None = None
    """for an evaluation: its latest review; draws further answers of the same models and settings, namely those that
    are expected to narrow the calibrated accuracies most"""

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


def sample(run: str, *, config: Annotated[ReviewSampleConfig, Parameter(name="*")]) -> int:
    """Draw what people are to judge of a finished build, evaluation or factuality run, with a page for each person.

    Parameters
    ----------
    run
        A finished run of `fdarx build`, `fdarx evaluate` or `fdarx factuality`.
    """
    with busy("drawing the sample", quiet=config.quiet):
        drawn = _draw(run, config)
    if config.as_json:
        pages = {name: f"{drawn.root}/{name}.html" for name in drawn.shares()}
        print_json({"review": str(drawn.root), **drawn.info, "pages": pages})
    else:
        _tell(drawn)
    return 0


def _draw(address: str, config: ReviewSampleConfig) -> Review:
    run = open_reviewable_run(address)
    if config.after and (config.models or config.settings):
        raise ValueError(f"--after {config.after} uses its own models and settings; give none")
    if config.after:
        drawn = draw_next(run, open_review(config.after), config.n, config.seed)
    else:
        wanted = config.model_dump(include={"n", "seed", "tasks", "models", "settings", "undecided_first"})
        drawn = draw_sample(run, **wanted)
    return write_review(config.out, drawn, config.annotators, versions(), annotator_page, overlap=config.overlap)


def _tell(review: Review) -> None:
    info = review.info
    print(f"{info['subjects']} of {info['population']} drawn, {info['items']} items: {', '.join(info['tasks'])}")
    print(f"{len(info['strata'])} strata, by {', '.join(info['by']) or 'nothing'}")
    for name, items in review.shares().items():
        print(f"page    {review.root}/{name}.html  ({len(items)} items)")
    print(f"sheet   {review.root}/items.csv\nrows    {review.root}/items.jsonl")


class ReviewImportConfig(JobConfig):
    """Options of `fdarx review import`."""

    users: Names = Field(default_factory=list)
    """annotators of users of Label Studio or Argilla, as USER=ANNOTATOR, where USER is the id or, in Label Studio, the
    e-mail address; USER= leaves the user's annotations out"""

    @property
    def annotator_of(self) -> dict[str, str]:
        """The annotators by user."""
        return {user: name for user, _, name in (one.partition("=") for one in self.users)}


def import_files(
    review: str, files: list[str], *, config: Annotated[ReviewImportConfig | None, Parameter(name="*")] = None
) -> int:
    """Take in what annotators saved: files of their pages, or filled-in sheets; nothing that stands is overwritten.

    Parameters
    ----------
    review
        The folder that `fdarx review sample` wrote; for feedback of the service a new folder, or that of an earlier
        import of feedback.
    files
        What annotators hand in: .json as their pages save it, .json or .jsonl as Label Studio and Argilla export it,
        items.csv or items.jsonl with annotator and value filled in; or the files of `fdarx serve --feedback`.
    """
    config = config or ReviewImportConfig()
    feedback = [file for file in files if is_feedback(file)]
    if feedback and len(feedback) < len(files):
        stop("give files of feedback alone: they have a review of their own")
    if feedback:
        opened, done = import_feedback(review, feedback, versions())
    else:
        opened = open_review(review)
        done = import_annotations(opened, files, config.annotator_of)
    for notice in done.notices:
        print(notice, file=sys.stderr)
    if config.as_json:
        counts = {"new": done.new, "known": done.known, "files": [str(file) for file in done.files]}
        differing = [
            {"item": one.item.id, "task": one.item.task, "marks": {mark.annotator: mark.value for mark in _marks(one)}}
            for one in opened.disagreements()
        ]
        print_json({"review": review, **counts, "notices": done.notices, "differing": differing})
    else:
        _tell_import(opened, done)
    return 0


def _tell_import(opened: Review, done: ImportResult) -> None:
    print(f"{done.new} annotations taken in, {done.known} were known already")
    differing = opened.disagreements()
    for file in done.files:
        print(f"rows    {file}")
    for one in differing[:_MAX_LISTED]:
        marks = ", ".join(f"{mark.annotator} {mark.value}" for mark in _marks(one))
        print(f"differs {one.item.id} {one.item.task}: {marks}")
    if differing:
        settled = sum(one.item.id in opened.adjudicated() for one in differing)
        print(f"{len(differing)} items have different or unsure marks, {settled} of them adjudicated")


def _marks(one: AnnotatedItem) -> list[Annotation]:
    return [*one.annotations, *one.unsure]


class ReviewAdjudicateConfig(JobConfig):
    """Options of `fdarx review adjudicate`."""

    adjudicator: str = Field(pattern=_NAME.pattern + "$")
    """name of the person who decides, not an annotator's"""


def adjudicate(review: str, *, config: Annotated[ReviewAdjudicateConfig, Parameter(name="*")]) -> int:
    """Write a page of the items whose marks differ or are unsure; the mark given there is used instead of these.

    Parameters
    ----------
    review
        A review with imported marks.
    """
    opened = open_review(review)
    if config.adjudicator == _AGREEMENT:
        stop(f"{_AGREEMENT} is the name of the report's page; give another name")
    items = write_adjudication(opened, config.adjudicator, annotator_page)
    page = f"{opened.root}/{config.adjudicator}.html"
    if config.as_json:
        print_json({"review": review, "items": items, "page": page})
    else:
        print(f"{items} items to adjudicate\npage    {page}")
    return 0


class ReviewExportConfig(JobConfig):
    """Options of `fdarx review export`."""

    to: Literal["label-studio", "argilla", "pairs"]
    """label-studio: for each task the tasks to import and the labeling configuration; argilla: for each task a dataset
    for `rg.Dataset.from_disk`; pairs: the claims on which people have a verdict, for `fdarx verify --pairs`"""
    out: str
    """folder (label-studio, argilla) or .jsonl file (pairs) to write, on disk or s3://"""
    show_decisions: bool = False
    """label-studio, argilla: show annotators the judge's decisions, as predictions or suggestions; this biases them, so
    their annotations count as made with the decision in view"""


def export(review: str, *, config: Annotated[ReviewExportConfig, Parameter(name="*")]) -> int:
    """Export the items of a review for Label Studio or Argilla, or the claims that people judged as marked pairs.

    Parameters
    ----------
    review
        The folder that `fdarx review sample` wrote.
    """
    opened, out = open_review(review), Location(config.out)
    counts: dict[str, int] = {}
    if config.to == "pairs":
        counts, written = {"pairs": export_pairs(opened, out)}, [out]
    elif config.to == "argilla":
        written = export_argilla(opened, out, show_decisions=config.show_decisions)
    else:
        written = export_label_studio(opened, out, show_decisions=config.show_decisions)
    if config.as_json:
        print_json({"review": review, **counts, "written": [str(place) for place in written]})
        return 0
    for name, count in counts.items():
        print(f"{count} {name}")
    for place in written:
        print(f"written {place}")
    return 0


class ReviewReportConfig(JobConfig):
    """Options of `fdarx review report`."""

    blind: bool = False
    """leave out votes of annotators who saw the judge's decision"""
    weighted: bool = False
    """weight each item by the inverse of its sampling fraction: figures are then for the whole run, with wider
    intervals; without this option each item counts once, as in the paper"""
    seed: int = 0
    """fixes the intervals"""
    resamples: int = Field(2000, ge=100)
    """number of bootstrap resamples; more give more stable intervals"""


def report(review: str, *, config: Annotated[ReviewReportConfig | None, Parameter(name="*")] = None) -> int:
    """Measure the agreement of a run's judges and the annotators of a review: tables, confusions, and a page.

    Parameters
    ----------
    review
        The folder that `fdarx review sample` wrote.
    """
    config = config or ReviewReportConfig()
    opened = open_review(review)
    annotations = annotations_of(opened)
    with busy("computing figures and intervals", quiet=config.quiet):
        found, calibrated = _measured(opened, annotations, config), _calibrated(opened, config)
    result = _as_data(opened, found, calibrated)
    page, text = _write(opened, found, calibrated, result)
    if config.as_json:
        print_json({**result, "page": str(page)})
    else:
        print(f"{text}\n\npage    {page}")
    return 0


def annotations_of(review: Review) -> list[Annotation]:
    """Return the imported marks; end the job where there are none."""
    annotations = review.annotations()
    if not annotations:
        stop(f"{review.root} has no annotations; import the files of the annotators with `fdarx review import`")
    return annotations


def _measured(review: Review, annotations: Sequence[Annotation], config: ReviewReportConfig) -> Agreement:
    try:
        return measure_agreement(review.items(), annotations, **config.model_dump(exclude=set(PRESENTATION)))
    except ValueError as error:
        stop(f"{review.root}: {error}")


def _calibrated(review: Review, config: ReviewReportConfig) -> list[ResultTable]:
    """Return the calibrated tables of an evaluation or a factuality run; none if the run does not exist."""
    if review.info["job"] not in (EVALUATE, FACTUALITY):
        return []
    try:
        return calibrated_tables(review, RunDirectory.open(str(review.info["run"])), blind=config.blind)
    except (StorageError, ValueError) as error:
        print(f"no calibrated figures: {error}", file=sys.stderr)
        return []


def _write(
    review: Review, found: Agreement, calibrated: Sequence[ResultTable], result: dict[str, Any]
) -> tuple[Location, str]:
    """Write agreement.json, .txt and .html to the review's folder, and return the page and the text.

    Earlier reports are replaced.
    """
    grids = [grid for grid in (table_3(found), table_4(found), table_5(found), *calibrated) if grid.rows]
    text = "\n\n\n".join(map(table_text, grids))
    page = review.root / "agreement.html"
    (review.root / "agreement.json").write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    (review.root / "agreement.txt").write_text(f"{text}\n")
    page.write_text(agreement_page(review.info, found, calibrated))
    return page, text


def _as_data(review: Review, found: Agreement, calibrated: Sequence[ResultTable]) -> dict[str, Any]:
    """Return all figures except items and votes, which the review's own files contain."""
    how = {name: getattr(found, name) for name in ("blind", "weighted", "seed", "informed")}
    rows = {name: [asdict(one) for one in getattr(found, name)] for name in ("tallies", "confusions")}
    rows["figures"] = [one.to_row() for one in found.figures]
    return {"review": review.digest, **how, **rows, "calibrated": [asdict(one) for one in calibrated]}
