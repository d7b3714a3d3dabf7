"""Build the pages of a finished run again: of a build, an evaluation, a factuality run or a fine-tuning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from fdarx_core.pipeline.factuality import build_factuality_report
from fdarx_core.pipeline.finetuning import build_tuning_report
from fdarx_core.report import build_report, questions_page
from fdarx_core.report.answers_page import answers_page
from fdarx_core.report.evaluation_page import build_evaluation_report
from fdarx_core.review.tasks import FACTUALITY
from fdarx_core.specs.options import JobConfig
from fdarx_core.storage import RunDirectory
from jobs import stop
from jobs.cli import run_as
from jobs.output import print_json, tell_result

_PAGES: dict[str, dict[str, Callable[[RunDirectory], str]]] = {
    "build_benchmark": {"questions": questions_page, "report": build_report},
    "evaluate": {"answers": answers_page, "report": build_evaluation_report},
    FACTUALITY: {"report": build_factuality_report},
    "finetune_answerer": {"report": build_tuning_report},
}
"""The pages of a run by the name of its job: what makes each of them, by its name."""


def report(run: str, /, *, config: Annotated[JobConfig | None, Parameter(name="*")] = None) -> int:
    """Build the pages of a finished run again: of a build, an evaluation, a factuality run or a fine-tuning.

    A build has two pages, the report and the table of all its questions; an evaluation has the report and the page of
    all answers.

    Parameters
    ----------
    run
        The run directory, on disk or s3://.
    """
    config = config or JobConfig()
    opened = RunDirectory.open(run)
    job, status = str(opened.info()["job"]), opened.info()["status"]
    if job not in _PAGES:
        stop(f"{opened.root} is a run of {job}, whose page only that job writes; give one of {', '.join(_PAGES)}")
    if status not in ("complete", "incomplete"):
        stop(f"{opened.root} is {status}: it has no figures yet; finish it with the command that began it")
    pages = {name: opened.file(f"{name}.html") for name in _PAGES[job]}
    for name, page in pages.items():
        page.write_text(_PAGES[job][name](opened))
    if config.as_json:
        print_json({"run": run, **{name: str(page) for name, page in pages.items()}})
        return 0
    tell_result(str(opened.info().get("result", "")), *map(str, pages.values()))
    return 0


if __name__ == "__main__":
    run_as("report")
