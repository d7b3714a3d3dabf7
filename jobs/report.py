"""Draw the page of a finished run anew: of a build, of an evaluation or of a scoring of factuality."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from fdarx_core.pipeline.factuality.results import build_factuality_report
from fdarx_core.report import build_report
from fdarx_core.report.evaluation import build_evaluation_report
from fdarx_core.storage import RunDirectory, StorageError
from jobs.options import stop

_PAGES: dict[str, Callable[[RunDirectory], str]] = {
    "build_benchmark": build_report,
    "evaluate": build_evaluation_report,
    "score_factuality": build_factuality_report,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code."""
    parser = argparse.ArgumentParser(prog="fdarx report", description=__doc__, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="the run directory, on disk or s3://")
    given = parser.parse_args(arguments)
    try:
        run = RunDirectory.open(given.run)
        job, status = run.info()["job"], run.info()["status"]
        if job not in _PAGES:
            stop(
                f"{run.root} is a run of {job}, whose page is drawn by that job alone; give one of {', '.join(_PAGES)}"
            )
        if status not in ("complete", "incomplete"):
            stop(f"{run.root} is {status}: it has no figures yet; finish it with the command that began it")
        page = run.file("report.html")
        page.write_text(_PAGES[job](run))
    except StorageError as error:
        stop(str(error))
    print(f"report  {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
