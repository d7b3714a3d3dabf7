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
from fdarx_core.llm import ModelsError
from fdarx_core.pipeline.sweep.evaluation import Evaluation
from fdarx_core.pipeline.sweep.intake import check_input
from fdarx_core.pipeline.sweep.parts import UNDERSTOOD_BY, Given
from fdarx_core.records import Figure, Reject
from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.storage import RunDirectory, StorageError, read_records
from fdarx_core.storage.benchmark import read_benchmark
from fdarx_core.storage.predictions_file import read_predictions
from jobs.build_plan import tell_plan
from jobs.deploying import cpus_for, fleet_of, load_deployed
from jobs.evaluate_config import EvaluateConfig
from jobs.exits import INTERRUPTED, STOPPED
from jobs.options import read_options, stop
from jobs.progress import ProgressLine
from jobs.ray_session import ray_session
from jobs.stoppable import ending, run_stoppable
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
    try:
        return _evaluate(config)
    except (StorageError, ModelsError, ModelMissing) as error:
        stop(str(getattr(error, "cause", error)))  # Ray wraps what a worker raised
    except KeyboardInterrupt:
        print("\ninterrupted; what is done is kept, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED


def _evaluate(config: EvaluateConfig) -> int:
    given, rejects = _given(config)
    deployed = load_deployed(config.deploy, to_ask=not config.plan)
    sweep = config.sweep(given, deployed)
    served = {name: model for name, model in deployed.items() if name in sweep.used}
    benchmark = read_benchmark(config.benchmark)
    benchmark.rejects.extend(rejects)
    run = RunDirectory.begin(config.out, job="evaluate", config=config.identity(sweep), versions=versions())
    check_input(run, benchmark.about["digest"], given)
    if run.complete and run.info()["understood_by"] == UNDERSTOOD_BY:
        print(f"{run.root} is complete already, nothing to do", file=sys.stderr)
        return _tell(run)
    if run.complete:
        print(f"FDARx reads or grades otherwise by now: reading the replies of {run.root} anew", file=sys.stderr)
    elif run.resumed:
        print(f"resuming {run.root}", file=sys.stderr)
    with (
        ending(run),
        ray_session(
            config.cpus, for_models=cpus_for(served, sweep.judge), written=[run.root], read=astuple(sweep.directories)
        ),
        ProgressLine(_PHASES, asking="sit") as progress,
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
        if config.plan:
            tell_plan(evaluation.plan())
            return 0
        run_stoppable(evaluation, progress)
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
