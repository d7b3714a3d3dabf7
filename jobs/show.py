"""Print everything that a run has on one question.

Of a build: its context, the raw responses and each verdict. Of an evaluation: the answer of each model in each setting
and its grade.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from fdarx_core.report.traces import build_trace, evaluation_trace, trace_text
from fdarx_core.specs.options import JobConfig
from fdarx_core.storage import RunDirectory
from jobs.cli import run_as
from jobs.output import print_json


def show(run: str, question: str, /, *, config: Annotated[JobConfig | None, Parameter(name="*")] = None) -> int:
    """Print everything that a run has on one question.

    Parameters
    ----------
    run
        The run directory, on disk or s3://, of a build or an evaluation.
    question
        The id of the question: 16 hexadecimal digits, the qid of qa.jsonl.
    """
    opened = RunDirectory.open(run)
    trace = (evaluation_trace if opened.info()["job"] == "evaluate" else build_trace)(opened, question)
    if config and config.as_json:
        print_json({"run": run, **trace})
    else:
        print(trace_text(trace), end="")
    return 0


if __name__ == "__main__":
    run_as("show")
