"""Score the factuality of answers: claims, verdicts by evidence, the Fact-Aligned Score, safety flags, a report."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fdarx_core.specs.factuality import FactualitySpec
from jobs.cli import run_as

if TYPE_CHECKING:
    from fdarx_core.storage import RunDirectory

_PHASES = {"intake": "reading the answers", "check": "parts checked"}


def factuality(*, config: Annotated[FactualitySpec, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something is incomplete, 130 interrupted."""
    from jobs.session import carry_out

    return carry_out(config, _PHASES, _tell, busy_text="reading the answers and the evidence")


def _tell(run: RunDirectory, config: FactualitySpec) -> int:
    """Print the result of a factuality run; return its exit code."""
    from fdarx_core.pipeline.factuality import checks_of, safety_of, tables_of
    from jobs.output import print_json, tell_result, tell_tables
    from jobs.session import end_code, run_result

    checks = checks_of(run)
    for line in checks.sentences():
        print(line, file=sys.stderr)
    if config.as_json:
        print_json(run_result(run))
    else:
        tell_tables(tables_of(run), verbose=config.verbose)
        if found := safety_of(run):
            print(f"\nsafety   {found}")
        tell_result(run.info().get("result", ""), str(run.file("report.html")))
    silent = [f"the verifier {checks.method.engine}"] if 0 < checks.pairs == checks.unjudged.total() else []
    unread = 0 < checks.answers <= checks.unread.total()
    return end_code(run.info(), silent + [f"the model {checks.method.claims}, which extracts claims"] * unread)


if __name__ == "__main__":
    run_as("factuality")
