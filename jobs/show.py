"""Print everything that a run has on one question.

Of a build: its context, the raw responses and each verdict. Of an evaluation: the answer of each model in each setting
and its grade. Of a factuality run: the answers, and the verdict on each claim with the passage that decided.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from fdarx_core.report.traces import PAGES, build_trace, evaluation_trace, factuality_trace, some_ids, trace_text
from fdarx_core.specs.options import JobConfig
from fdarx_core.storage import RunDirectory
from jobs import stop
from jobs.cli import run_as
from jobs.output import print_json, printable

_FIRST = 5
_TRACES = {"build_benchmark": build_trace, "evaluate": evaluation_trace, "score_factuality": factuality_trace}


def show(run: str, question: str = "", /, *, config: Annotated[JobConfig | None, Parameter(name="*")] = None) -> int:
    """Print everything that a run has on one question.

    Parameters
    ----------
    run
        The run directory, on disk or s3://, of a build, an evaluation or a factuality run.
    question
        The id of the question: 16 hexadecimal digits, the qid of qa.jsonl; of a factuality run also that of an answer.
        Without one, the first ids are printed, and which page has all of them.
    """
    opened = RunDirectory.open(run)
    if (job := opened.info()["job"]) not in _TRACES:
        stop(f"{run} is a run of {job}; show prints questions of builds, evaluations and factuality runs")
    if not question:
        ids = some_ids(opened, _FIRST)
        page = opened.file(PAGES.get(job, "questions.html"))
        if config and config.as_json:
            print_json({"run": run, "ids": ids, "page": str(page)})
        else:
            print("\n".join(f"{id}  {printable(text)}" for id, text in ids.items()))
            print(f"\nGive one of these ids, or another: {page} has all of them.")
        return 0
    trace = _TRACES[job](opened, question)
    if config and config.as_json:
        print_json({"run": run, **trace})
    else:
        print(trace_text(trace), end="")
    return 0


if __name__ == "__main__":
    run_as("show")
