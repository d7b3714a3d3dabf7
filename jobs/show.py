"""Print everything that a run has on one question.

Of a build: its context, the raw responses and each verdict. Of an evaluation: the answer of each model in each setting
and its grade. Of a factuality run: the answers, and the verdict on each claim with the passage that decided.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from cyclopts import Parameter

from fdarx_core.report.traces import build_trace, evaluation_trace, factuality_trace, trace_text
from fdarx_core.specs.options import JobConfig
from fdarx_core.storage import RunDirectory
from jobs import stop
from jobs.cli import run_as
from jobs.output import print_json, printable

_KINDS = {
    "build_benchmark": (build_trace, "questions", "questions.html"),
    "evaluate": (evaluation_trace, "questions", "answers.html"),
    "score_factuality": (factuality_trace, "answers", "report.html"),
}  # by the job of a run: what reads a question, the table with ids, and the page with all of them


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
    if (job := opened.info()["job"]) not in _KINDS:
        stop(f"{run} is a run of {job}; show prints questions of builds, evaluations and factuality runs")
    read, table, page = _KINDS[job]
    if question:
        trace = read(opened, question)
        text = trace_text(trace)
    else:
        trace = {"ids": dict(islice(opened.rows(table, "id", "question"), 5)), "page": str(opened.file(page))}
        text = "".join(f"{id}  {printable(asked)}\n" for id, asked in trace["ids"].items())
        text += f"\nGive one of these ids, or another: {trace['page']} has all of them.\n"
    print_json({"run": run, **trace}) if config and config.as_json else print(text, end="")
    return 0


if __name__ == "__main__":
    run_as("show")
