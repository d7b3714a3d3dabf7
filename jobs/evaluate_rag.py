"""Ways of retrieving and answering compared on one index: strategies × post-processing, on a file of questions."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from fdarx_core.pipeline.rag import comparison_tables
from fdarx_core.records import Figure, RagUsage
from fdarx_core.specs.evaluate_rag import EvaluateRagSpec
from fdarx_core.specs.options import BASELINE
from fdarx_core.storage import RunDirectory, read_records
from jobs.cli import run_as
from jobs.output import print_json, tell_result, tell_tables
from jobs.session import carry_out, end_code, run_result

_PHASES = {"answer": "parts answered and judged"}


def evaluate_rag(*, config: Annotated[EvaluateRagSpec, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something is incomplete, 130 interrupted."""
    return carry_out(config, _PHASES, _tell, busy_text="reading the index")


def _tell(run: RunDirectory, config: EvaluateRagSpec) -> int:
    """Print the result of a comparison; return its exit code."""
    usage = list(read_records(run.file("usage.parquet"), RagUsage))
    if config.as_json:
        print_json(run_result(run, usage=usage))
    else:
        tell_tables(comparison_tables(run), verbose=config.verbose)
        tell_result(run.info().get("result", ""), str(run.file("report.html")))
    silent = {row.model for row in usage if row.failed} - {row.model for row in usage if row.answered + row.refused}
    figures = read_records(run.file("figures.parquet"), Figure)
    judged = [row for row in figures if row.metric in ("context_precision", "context_recall")]
    judge = run.info()["config"]["judge"]
    if judge != BASELINE and any(row.unscored for row in judged) and not any(row.rows for row in judged):
        silent.add(f"the judge {judge}")
    return end_code(run.info(), silent)


if __name__ == "__main__":
    run_as("evaluate-rag")
