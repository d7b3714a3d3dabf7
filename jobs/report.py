"""Build the pages of a finished run again: of a build, an evaluation, a factuality run or a fine-tuning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from fdarx_core.evaluation.tables import ResultTable, table_text
from fdarx_core.pipeline.factuality import build_factuality_report
from fdarx_core.pipeline.tuning.results import build_tuning_report
from fdarx_core.report import build_report, questions_page
from fdarx_core.report.answers_page import answers_page
from fdarx_core.report.evaluation_page import build_evaluation_report
from fdarx_core.review.calibration import calibrated_tables
from fdarx_core.review.prediction_powered import MIN_LABELS
from fdarx_core.review.review_set import open_review
from fdarx_core.review.tasks import FACTUALITY
from fdarx_core.storage import RunDirectory
from jobs import stop
from jobs.cli import run_as
from jobs.options import JobConfig
from jobs.output import print_json

BUILD, EVALUATION = "build_benchmark", "evaluate"
_PAGES: dict[str, Callable[[RunDirectory], str]] = {
    BUILD: build_report,
    EVALUATION: build_evaluation_report,
    FACTUALITY: build_factuality_report,
    "finetune_answerer": build_tuning_report,
}


class ReportConfig(JobConfig):
    """Options of `fdarx report`."""

    review: str | None = None
    """annotated review of this evaluation or factuality run; the page and the terminal then also show accuracies, or
    Support@k, Contra@k and FAS, corrected by the labels of people"""


def report(run: str, /, *, config: Annotated[ReportConfig | None, Parameter(name="*")] = None) -> int:
    """Build the pages of a finished run again: of a build, an evaluation, a factuality run or a fine-tuning.

    A build has two pages, the report and the table of all its questions; an evaluation has the report and the page of
    all answers.

    Parameters
    ----------
    run
        The run directory, on disk or s3://.
    """
    config = config or ReportConfig()
    opened = RunDirectory.open(run)
    job = _checked_job(opened)
    tables = None if config.review is None else _calibrated(opened, config.review)
    pages = {"report": opened.file("report.html")}
    if job == BUILD:
        pages = {"questions": opened.file("questions.html"), **pages}
        pages["questions"].write_text(questions_page(opened))
    if job == EVALUATION:
        pages = {"answers": opened.file("answers.html"), **pages}
        pages["answers"].write_text(answers_page(opened))
    pages["report"].write_text(_draw(job, tables)(opened))
    if config.as_json:
        calibrated = {} if tables is None else {"calibrated": tables}
        print_json({"run": run, **{name: str(page) for name, page in pages.items()}, **calibrated})
        return 0
    if tables is not None:
        print("\n\n\n".join(map(table_text, tables)), end="\n\n")
    for name, page in pages.items():
        print(f"{name}  {page}")
    return 0


def _checked_job(run: RunDirectory) -> str:
    """Return the job of a run whose pages can be built; otherwise end this job."""
    job, status = str(run.info()["job"]), run.info()["status"]
    if job not in _PAGES:
        stop(f"{run.root} is a run of {job}, whose page only that job writes; give one of {', '.join(_PAGES)}")
    if status not in ("complete", "incomplete"):
        stop(f"{run.root} is {status}: it has no figures yet; finish it with the command that began it")
    return job


def _draw(job: str, tables: list[ResultTable] | None) -> Callable[[RunDirectory], str]:
    """Return the function that builds the page of a run, with the calibrated tables of a review where there are any."""
    if tables is None:
        return _PAGES[job]
    return partial(build_factuality_report if job == FACTUALITY else build_evaluation_report, calibrated=tables)


def _calibrated(run: RunDirectory, address: str) -> list[ResultTable]:
    review = open_review(address)
    try:
        tables = calibrated_tables(review, run)
    except ValueError as error:
        stop(f"{review.root}: {error}")
    if not tables:
        stop(
            f"{review.root} has fewer than {MIN_LABELS} answers or claims that people judged, too few for a "
            "correction; import the files of the annotators with `fdarx review import`"
        )
    return tables


if __name__ == "__main__":
    run_as("report")
