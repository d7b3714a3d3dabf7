"""Compare evaluations: their tables in one, and the differences between their models with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.evaluation.comparability import Barrier
from fdarx_core.evaluation.tables import added_metrics_table, table_1, table_2, table_text
from fdarx_core.pipeline.evaluation import compare_runs
from fdarx_core.records import Difference, Figure
from fdarx_core.report.evaluation_page import barrier_notes, build_comparison_page, named_figure, run_names
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records
from jobs import stop
from jobs.cli import run_as

_SHOWN = 20
_FEWEST = 100


def compare(runs: list[str], /, *, out: str = "compare.html", seed: int = 0, resamples: int = 2000) -> int:
    """Compare evaluations side by side: their tables in one, and differences between their models with intervals.

    Parameters
    ----------
    runs
        Two or more runs of `fdarx evaluate`, on disk or s3://.
    out
        The page to write.
    seed
        Fixes the intervals.
    resamples
        Bootstrap resamples; more make steadier intervals.
    """
    if len(runs) < 2:
        stop("give two runs or more")
    if resamples < _FEWEST:
        stop(f"--resamples {resamples}: give {_FEWEST} or more, fewer make no interval")
    opened = [_evaluation(address) for address in runs]
    names = run_names(opened)
    compared, barriers = compare_runs(opened, names, seed=seed, resamples=resamples)
    Location(out).write_text(build_comparison_page(opened, compared, barriers))
    _tell(opened, names, compared, barriers)
    print(f"\npage  {out}")
    return 0


def _evaluation(address: str) -> RunDirectory:
    run = RunDirectory.open(address)
    job = run.info()["job"]
    if job != "evaluate":
        raise StorageError(f"{address} is a run of {job}, not of evaluate")
    if not run.file("metrics.parquet").exists():
        raise StorageError(f"{address} has no metrics yet; finish it with the command that began it")
    return run


def _tell(
    runs: Sequence[RunDirectory], names: Sequence[str], compared: Sequence[Difference], barriers: Sequence[Barrier]
) -> None:
    figures = [
        named_figure(name, one)
        for run, name in zip(runs, names, strict=True)
        for one in read_records(run.file("metrics.parquet"), Figure)
    ]
    judges = list(dict.fromkeys(run.info()["config"]["judge"] for run in runs))
    for grid in (table_1(figures, judge=", ".join(judges)), table_2(figures), added_metrics_table(figures)):
        if grid.rows:
            print(f"\n{table_text(grid)}")
    for note in barrier_notes(barriers):
        print(f"\n{note}")
    if not compared and not barriers:
        print("\nThe runs share no questions, so no differences: are they of the same benchmark?")
    for one in sorted(compared, key=lambda row: row.p_holm or 0)[:_SHOWN]:
        cell = " · ".join(filter(None, (one.first["setting"], one.first["retriever"])))
        interval = f"{one.value:+.3f} [{one.low:+.3f}, {one.high:+.3f}], p {one.p_holm:.4f} (Holm)"
        print(f"{one.metric}, {one.keys['group']}, {cell}: {one.first['model']} − {one.second['model']} {interval}")


if __name__ == "__main__":
    run_as("compare")
