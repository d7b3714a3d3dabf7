"""People judge a run: items are drawn and annotated, imported, and compared with what the judges decided."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import Field, field_validator

from fdarx_core.evaluation.tables import table_text
from fdarx_core.report.page_engine import plural
from fdarx_core.report.review_pages import agreement_page, annotator_page
from fdarx_core.review.agreement import agreement_tables, measure_agreement
from fdarx_core.review.importing import export_pairs, import_annotations, import_feedback, is_feedback
from fdarx_core.review.items import draw_sample
from fdarx_core.review.label_studio import export_items
from fdarx_core.review.review_set import open_review, write_adjudication, write_review
from fdarx_core.review.sampling import open_reviewable_run
from fdarx_core.review.tasks import ON_REQUEST, REVIEW_TASKS
from fdarx_core.specs.options import PRESENTATION, JobConfig, Names, at_commas, one_of
from fdarx_core.specs.running import versions
from fdarx_core.storage import Location
from jobs import stop, wrong_arguments
from jobs.output import print_json, tell_result
from jobs.progress import busy

_AGREEMENT = "agreement"
"""The file name of the page of `fdarx review report`."""
_MAX_LISTED = 20
"""Maximum number of items with different marks that an import lists."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def _check_name(name: str) -> None:
    """Raise ValueError for a name of a person that can't be that of a page."""
    if not _NAME.fullmatch(name) or name == _AGREEMENT:
        raise ValueError(f"{name!r} can't name a page; use up to 40 letters, digits, dots, dashes, no space")


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

    @field_validator("annotators", mode="after")
    @classmethod
    def _named(cls, names: list[str]) -> list[str]:
        for name in names:
            _check_name(name)
        if not names:
            raise ValueError("name at least one")
        if len({name.lower() for name in names}) < len(names):
            raise ValueError("two names differ in case alone, and some disks would write both to one file")
        return names


@wrong_arguments()
def sample(run: str, *, config: Annotated[ReviewSampleConfig, Parameter(name="*")]) -> int:
    """Draw what people are to judge of a finished build, evaluation or factuality run, with a page for each person.

    Parameters
    ----------
    run
        A finished run of `fdarx build`, `fdarx evaluate` or `fdarx factuality`.
    """
    with busy("drawing the sample", quiet=config.quiet):
        wanted = config.model_dump(include={"n", "seed", "tasks", "models", "settings", "undecided_first"})
        drawn = draw_sample(open_reviewable_run(run), **wanted)
        names = config.annotators
        review = write_review(config.out, drawn, names, versions(), annotator_page, overlap=config.overlap)
    info, shares = review.info, review.items_by_annotator()
    pages = {name: f"{review.root}/{name}.html" for name in shares}
    if config.as_json:
        print_json({"review": str(review.root), **info, "pages": pages})
        return 0
    by = "" if any(item.decision for item in review.items()) else "; no judge decided on them"
    print(f"{plural(info['items'], 'item')}: {', '.join(info['tasks'])}{by}")
    print(f"{plural(len(info['strata']), 'stratum', 'strata')}, by {', '.join(info['by']) or 'nothing'}")
    for name, items in shares.items():
        print(f"{name}: {plural(len(items), 'item')}")
    print(f"sheet   {review.root}/items.csv\nrows    {review.root}/items.jsonl")
    tell_result(f"{info['subjects']:,} of {info['population']:,} were drawn, for people to judge.", *pages.values())
    return 0


@wrong_arguments()
def import_files(
    review: str,
    files: list[str],
    *,
    users: list[str] | None = None,
    config: Annotated[JobConfig | None, Parameter(name="*")] = None,
) -> int:
    """Take in what annotators saved: files of their pages, or filled-in sheets; nothing that stands is overwritten.

    Parameters
    ----------
    review
        The folder that `fdarx review sample` wrote; for feedback of the service a new folder, or that of an earlier
        import of feedback.
    files
        What annotators hand in: .json as their pages save it or Label Studio exports it, items.csv or items.jsonl with
        annotator and value filled in; or the files of `fdarx serve --feedback`.
    users
        Annotators of users of Label Studio, as USER=ANNOTATOR, where USER is the id or the e-mail address; USER= leaves
        the user's annotations out.
    """
    feedback = [file for file in files if is_feedback(file)]
    if feedback and len(feedback) < len(files):
        stop("give files of feedback alone: they have a review of their own")
    if feedback:
        opened, done = import_feedback(review, feedback, versions())
    else:
        opened = open_review(review)
        annotators = {user: name for user, _, name in (entry.partition("=") for entry in at_commas(users or []))}
        done = import_annotations(opened, files, annotators)
    for notice in done.notices:
        print(notice, file=sys.stderr)
    differing: list[dict[str, Any]] = [
        {
            "item": found.item.id,
            "task": found.item.task,
            "marks": {mark.annotator: mark.value for mark in (*found.annotations, *found.unsure)},
        }
        for found in opened.disagreements()
    ]
    if config and config.as_json:
        counts = {"new": done.new, "known": done.known, "files": [str(file) for file in done.files]}
        print_json({"review": review, **counts, "notices": done.notices, "differing": differing})
        return 0
    for file in done.files:
        print(f"rows    {file}")
    for item in differing[:_MAX_LISTED]:
        marks = ", ".join(f"{name} {value}" for name, value in item["marks"].items())
        print(f"differs {item['item']} {item['task']}: {marks}")
    if differing:
        settled = sum(item["item"] in opened.adjudicated_ids() for item in differing)
        differ = plural(len(differing), "item has", "items have")
        print(f"{differ} different or unsure marks, {settled} of them adjudicated")
    taken = plural(done.new, "annotation was", "annotations were")
    tell_result(f"{taken} taken in, {done.known:,} were known already.")
    return 0


@wrong_arguments()
def adjudicate(
    review: str, *, adjudicator: str, config: Annotated[JobConfig | None, Parameter(name="*")] = None
) -> int:
    """Write a page of the items whose marks differ or are unsure; the mark given there is used instead of these.

    Parameters
    ----------
    review
        A review with imported marks.
    adjudicator
        The name of the person who decides, not an annotator's.
    """
    _check_name(adjudicator)
    opened = open_review(review)
    items = write_adjudication(opened, adjudicator, annotator_page)
    page = f"{opened.root}/{adjudicator}.html"
    if config and config.as_json:
        print_json({"review": review, "items": items, "page": page})
    else:
        tell_result(f"{plural(items, 'item is', 'items are')} to be adjudicated.", page)
    return 0


class ReviewExportConfig(JobConfig):
    """Options of `fdarx review export`."""

    to: Literal["label-studio", "pairs"]
    """label-studio: for each task the tasks to import and the labeling configuration; pairs: the claims on which
    people have a verdict, for `fdarx verify --pairs`"""
    out: str
    """folder (label-studio) or .jsonl file (pairs) to write, on disk or s3://"""
    show_decisions: bool = False
    """label-studio: show annotators the judge's decisions as predictions; this biases them, so their annotations count
    as made with the decision in view"""


@wrong_arguments()
def export(review: str, *, config: Annotated[ReviewExportConfig, Parameter(name="*")]) -> int:
    """Export the items of a review for Label Studio, or the claims that people judged as marked pairs.

    Parameters
    ----------
    review
        The folder that `fdarx review sample` wrote.
    """
    opened, out = open_review(review), Location(config.out)
    counts: dict[str, int] = {}
    if config.to == "pairs":
        counts, written = {"pairs": export_pairs(opened, out)}, [out]
    else:
        written = export_items(opened, out, show_decisions=config.show_decisions)
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


@wrong_arguments()
def report(review: str, *, config: Annotated[ReviewReportConfig | None, Parameter(name="*")] = None) -> int:
    """Measure the agreement of a run's judges and the annotators of a review: tables, confusions, and a page.

    Parameters
    ----------
    review
        The folder that `fdarx review sample` wrote.
    """
    config = config or ReviewReportConfig()
    opened = open_review(review)
    annotations = opened.annotations()
    if not annotations:
        stop(f"{opened.root} has no annotations; import the files of the annotators with `fdarx review import`")
    with busy("computing figures and intervals", quiet=config.quiet):
        try:
            found = measure_agreement(opened.items(), annotations, **config.model_dump(exclude=set(PRESENTATION)))
        except ValueError as error:
            stop(f"{opened.root}: {error}")
    # all figures except items and votes, which the review's own files contain
    result: dict[str, Any] = {"review": opened.digest}
    result |= {name: getattr(found, name) for name in ("blind", "weighted", "seed", "informed")}
    result |= {name: [asdict(row) for row in getattr(found, name)] for name in ("tallies", "confusions")}
    result |= {"figures": [figure.to_row() for figure in found.figures]}
    text = "\n\n\n".join(table_text(table) for table in agreement_tables(found) if table.rows)
    page = opened.root / f"{_AGREEMENT}.html"  # earlier reports are replaced
    (opened.root / f"{_AGREEMENT}.json").write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    (opened.root / f"{_AGREEMENT}.txt").write_text(f"{text}\n")
    page.write_text(agreement_page(opened.info, found))
    if config.as_json:
        print_json({**result, "page": str(page)})
    else:
        people = len({one.annotator for one in annotations})
        print(text)
        tell_result(f"The agreement is that of {len(annotations):,} annotations by {people} people.", str(page))
    return 0
