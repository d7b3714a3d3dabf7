"""Models × settings × retrievers on a benchmark: answers, grades, metrics with intervals, and a report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import astuple
from itertools import groupby
from operator import itemgetter
from typing import Any

from fdarx_core.evaluation.cell import CellKey
from fdarx_core.evaluation.grid import as_text
from fdarx_core.evaluation.tables import table_1, table_2
from fdarx_core.pipeline.sweep.evaluation import Evaluation
from fdarx_core.pipeline.sweep.intake import check_input
from fdarx_core.pipeline.sweep.parts import UNDERSTOOD_BY, Given
from fdarx_core.records import Figure, Reject
from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.storage.benchmark import read_benchmark
from fdarx_core.storage.predictions_file import read_predictions
from jobs.deploying import cpus_for, fleet_of, load_deployed
from jobs.evaluate_config import EvaluateConfig
from jobs.exits import STOPPED
from jobs.frame import carried_out, exit_code, is_done, session
from jobs.options import read_options
from jobs.versions import versions

_PHASES = {
    "intake": "labels read",
    "retrieve": "parts searched",
    "plan": "parts planned",
    "sit": "parts answered and graded",
    "bert_scores": "parts scored by BERTScore",
    "publish": "computing figures and intervals",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 some cells are incomplete, 130 interrupted."""
    config = read_options(EvaluateConfig, arguments, prog="fdarx evaluate", description=__doc__ or "")
    return exit_code(lambda: _evaluate(config))


def _evaluate(config: EvaluateConfig) -> int:
    given, rejects = _given(config)
    deployed = load_deployed(config.deploy, to_ask=not config.plan)
    sweep = config.sweep(given, deployed)
    served = {name: model for name, model in deployed.items() if name in sweep.used}
    benchmark = read_benchmark(config.benchmark)
    benchmark.rejects.extend(rejects)
    run = RunDirectory.begin(config.out, job="evaluate", config=config.identity(sweep), versions=versions())
    check_input(run, benchmark.about["digest"], given)
    if is_done(run, UNDERSTOOD_BY):
        return _tell(run)
    with (
        session(
            run,
            _PHASES,
            asking="sit",
            read=astuple(sweep.directories),
            cpus=config.cpus,
            for_models=cpus_for(served, sweep.judge),
        ) as progress,
        fleet_of(served, sweep.judge, progress, gpus=config.gpus, cpus=config.cpus) as fleet,
    ):
        evaluation = Evaluation(
            run,
            benchmark,
            sweep,
            progress,
            given,
            config.sample,
            config.seed,
            config.resamples,
            [RunDirectory.open(other) for other in config.reuse],
            fleet,
        )
        if not carried_out(evaluation, progress, plan=config.plan):
            return 0
    return _tell(run)


def _given(config: EvaluateConfig) -> tuple[Given, list[Reject]]:
    if config.predictions is None:
        return {}, []
    answers, rejects = read_predictions(config.predictions)
    return {(one.question_id, CellKey(one.model, one.setting, one.retriever)): one for one in answers}, rejects


def _tell(run: RunDirectory) -> int:
    info = run.info()
    figures = list(read_records(run.file("metrics.parquet"), Figure))
    for grid in (table_1(figures, judge=info["config"]["judge"]), table_2(figures)):
        if grid.rows:
            print(f"\n{as_text(grid)}")
    for cell in info["cells"]:
        _tell_failures(cell)
    unfinished = [cell for cell in info["cells"] if cell["status"] != "done"]
    _tell_unfinished(unfinished)
    print(f"\nmetrics  {run.file('metrics.json')}\nreport   {run.file('report.html')}")
    if any(cell["status"] == "incomplete" for cell in unfinished):
        print("some cells are incomplete, see above; the same command goes on from there", file=sys.stderr)
        return STOPPED
    return 0


def _tell_unfinished(cells: Sequence[dict[str, Any]]) -> None:
    """A line a model where all its cells have the same reason."""
    for (model, status, reason), group in groupby(cells, key=itemgetter("model", "status", "reason")):
        names = [str(CellKey(model, cell["setting"], cell["retriever"])) for cell in group]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"{status}: {names[0]}{more}: {reason}", file=sys.stderr)


def _tell_failures(cell: dict[str, Any]) -> None:
    if cell["failed"] and cell["status"] == "done":
        name = CellKey(cell["model"], cell["setting"], cell["retriever"])
        remedy = "; give the model's context_length in its models file" if "context" in cell["reason"] else ""
        print(f"{name}: {cell['failed']} of {cell['due']} questions failed: {cell['reason']}{remedy}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
