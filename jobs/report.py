"""Build the pages of a finished run again: of a build, an evaluation, a factuality run or a fine-tuning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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

BUILD, EVALUATION = "build_benchmark", "evaluate"
_PAGES: dict[str, Callable[[RunDirectory], str]] = {
    BUILD: build_report,
    EVALUATION: build_evaluation_report,
    FACTUALITY: build_factuality_report,
    "finetune_answerer": build_tuning_report,
}


def report(run: str, /, *, review: str | None = None) -> int:
    """Build the pages of a finished run again: of a build, an evaluation, a factuality run or a fine-tuning.

    A build has two pages, the report and the table of all its questions; an evaluation has the report and the page of
    all answers.

    Parameters
    ----------
    run
        The run directory, on disk or s3://.
    review
        An annotated review of this evaluation or factuality run. The page and the terminal then also show accuracies,
        or Support@k, Contra@k and FAS, corrected by the labels of people.
    """
    opened = RunDirectory.open(run)
    draw = _drawing(opened, review)
    if opened.info()["job"] == BUILD:
        questions = opened.file("questions.html")
        questions.write_text(questions_page(opened))
        print(f"questions  {questions}")
    if opened.info()["job"] == EVALUATION:
        answers = opened.file("answers.html")
        answers.write_text(answers_page(opened))
        print(f"answers  {answers}")
    page = opened.file("report.html")
    page.write_text(draw(opened))
    print(f"report  {page}")
    return 0


def _drawing(run: RunDirectory, review: str | None) -> Callable[[RunDirectory], str]:
    """Return the function that builds the page of the run; print the calibrated tables of a review."""
    job, status = run.info()["job"], run.info()["status"]
    if job not in _PAGES:
        stop(f"{run.root} is a run of {job}, whose page only that job writes; give one of {', '.join(_PAGES)}")
    if status not in ("complete", "incomplete"):
        stop(f"{run.root} is {status}: it has no figures yet; finish it with the command that began it")
    if review is None:
        return _PAGES[job]
    tables = _calibrated(run, review)
    print("\n\n\n".join(map(table_text, tables)), end="\n\n")
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
