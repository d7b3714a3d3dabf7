"""Draw the page of a finished run anew: of a build, an evaluation, a scoring of factuality or a fine-tuning."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial

from fdarx_core.evaluation.grid import Grid, as_text
from fdarx_core.pipeline.factuality.results import build_factuality_report
from fdarx_core.pipeline.tuning.results import build_tuning_report
from fdarx_core.report import build_report
from fdarx_core.report.evaluation import build_evaluation_report
from fdarx_core.review.calibration.ppi import FEWEST
from fdarx_core.review.calibration.tables import calibrated_tables
from fdarx_core.review.items import open_review
from fdarx_core.storage import RunDirectory, StorageError
from jobs.options import stop

_PAGES: dict[str, Callable[[RunDirectory], str]] = {
    "build_benchmark": build_report,
    "evaluate": build_evaluation_report,
    "score_factuality": build_factuality_report,
    "finetune_answerer": build_tuning_report,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code."""
    parser = argparse.ArgumentParser(prog="fdarx report", description=__doc__, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="the run directory, on disk or s3://")
    parser.add_argument(
        "--review",
        help="an annotated review of this evaluation: its page and the terminal show accuracies corrected by people's "
        "labels beside the judge's own",
    )
    given = parser.parse_args(arguments)
    try:
        run = RunDirectory.open(given.run)
        draw = _drawing(run, given.review)
        page = run.file("report.html")
        page.write_text(draw(run))
    except StorageError as error:
        stop(str(error))
    print(f"report  {page}")
    return 0


def _drawing(run: RunDirectory, review: str | None) -> Callable[[RunDirectory], str]:
    """What draws the page of this run. Tables by people's labels are printed here."""
    job, status = run.info()["job"], run.info()["status"]
    if job not in _PAGES:
        stop(f"{run.root} is a run of {job}, whose page is drawn by that job alone; give one of {', '.join(_PAGES)}")
    if status not in ("complete", "incomplete"):
        stop(f"{run.root} is {status}: it has no figures yet; finish it with the command that began it")
    if review is None:
        return _PAGES[job]
    tables = _calibrated(run, review)
    print("\n\n\n".join(map(as_text, tables)), end="\n\n")
    return partial(build_evaluation_report, calibrated=tables)


def _calibrated(run: RunDirectory, address: str) -> list[Grid]:
    review = open_review(address)
    try:
        tables = calibrated_tables(review, run)
    except ValueError as error:
        stop(f"{review.root}: {error}")
    if not tables:
        stop(
            f"{review.root} has fewer than {FEWEST} answers that people graded, too few to correct anything; take in "
            "what annotators saved with `fdarx review import`"
        )
    return tables


if __name__ == "__main__":
    sys.exit(main())
