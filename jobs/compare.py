"""Evaluations side by side: their tables in one, and the differences between their models with intervals."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from fdarx_core.evaluation.grid import as_text
from fdarx_core.evaluation.tables import table_1, table_2
from fdarx_core.pipeline.sweep.results import compare_runs
from fdarx_core.records import Comparison, Figure
from fdarx_core.report.evaluation import build_comparison_page, row_name, run_names
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records
from jobs.options import stop

_SHOWN = 20
_FEWEST = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code."""
    parser = argparse.ArgumentParser(prog="fdarx compare", description=__doc__, allow_abbrev=False)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="two or more runs of `fdarx evaluate`, disk or s3://")
    parser.add_argument(
        "--out", metavar="FILE", default="compare.html", help="the page to write (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="fixes the intervals (default: %(default)s)")
    parser.add_argument("--resamples", type=int, default=2000, help="bootstrap resamples (default: %(default)s)")
    given = parser.parse_args(arguments)
    if len(given.runs) < 2:
        stop("give two runs or more")
    if given.resamples < _FEWEST:
        stop(f"--resamples {given.resamples}: give {_FEWEST} or more, fewer make no interval")
    try:
        runs = [_evaluation(address) for address in given.runs]
        names = run_names(runs)
        compared = compare_runs(runs, names, seed=given.seed, resamples=given.resamples)
        Location(given.out).write_text(build_comparison_page(runs, compared))
        _tell(runs, names, compared)
    except StorageError as error:
        stop(str(error))
    print(f"\npage  {given.out}")
    return 0


def _evaluation(address: str) -> RunDirectory:
    run = RunDirectory.open(address)
    job = run.info()["job"]
    if job != "evaluate":
        raise StorageError(f"{address} is a run of {job}, not of evaluate")
    if not run.file("metrics.parquet").exists():
        raise StorageError(f"{address} has no metrics yet; finish it with the command that began it")
    return run


def _tell(runs: Sequence[RunDirectory], names: Sequence[str], compared: Sequence[Comparison]) -> None:
    figures = [
        _named(name, one)
        for run, name in zip(runs, names, strict=True)
        for one in read_records(run.file("metrics.parquet"), Figure)
    ]
    judges = list(dict.fromkeys(run.info()["config"]["judge"] for run in runs))
    for grid in (table_1(figures, judge=", ".join(judges)), table_2(figures)):
        if grid.rows:
            print(f"\n{as_text(grid)}")
    if not compared:
        print("\nThe runs share no questions, so no differences: are they of the same benchmark?")
    for one in sorted(compared, key=lambda row: row.p_holm)[:_SHOWN]:
        cell = " · ".join(filter(None, (one.setting_a, one.retriever_a)))
        interval = f"{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}], p {one.p_holm:.4f} (Holm)"
        print(f"{one.metric}, {one.group}, {cell}: {one.model_a} − {one.model_b} {interval}")


def _named(run: str, one: Figure) -> Figure:
    """Rows go by model; those of retrieval alone have none, and go by retriever."""
    if one.model:
        return replace(one, model=row_name(run, one.model))
    return replace(one, retriever=row_name(run, one.retriever))


if __name__ == "__main__":
    sys.exit(main())
