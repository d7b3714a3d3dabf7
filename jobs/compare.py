"""Compare evaluations, or the models of one: their tables, and the differences between models with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field

from fdarx_core.evaluation.figures import SMALLEST, compared_metrics
from fdarx_core.pipeline.evaluation import compare_runs
from fdarx_core.records import Difference, Figure
from fdarx_core.report.evaluation_page import barrier_notes, build_comparison_page, named_figure, run_names
from fdarx_core.report.figure_limits import ungraded_notes
from fdarx_core.report.page_engine import SIGNIFICANT
from fdarx_core.specs.options import JobConfig, Names, one_of
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records
from jobs import stop
from jobs.cli import run_as
from jobs.evaluate import print_tables
from jobs.output import print_json

_SHOWN = 20


class CompareConfig(JobConfig):
    """Options of `fdarx compare`."""

    out: str | None = None
    """page to write, with all tables, differences and figures (none)"""
    seed: int = 0
    """random seed of the intervals"""
    resamples: int = Field(2000, ge=100)
    """number of bootstrap resamples; more give more stable intervals"""
    metric: Annotated[Names, one_of(dict.fromkeys(name for name, _ in compared_metrics()), "metric")] = Field(
        default_factory=list
    )
    """print all differences of these metrics, such as hallucination_rate or accuracy (those with the smallest p of any
    metric)"""
    topic: Annotated[Names, one_of(dict.fromkeys(group for _, group in compared_metrics()), "topic")] = Field(
        default_factory=list
    )
    """print all differences on these topics of labels, such as Contraindications, or on these question types: factual,
    multihop, refusal, answerable, all (those with the smallest p on any)"""


def compare(runs: list[str], /, *, config: Annotated[CompareConfig | None, Parameter(name="*")] = None) -> int:
    """Compare evaluations side by side: their tables in one, and differences between their models with intervals.

    Parameters
    ----------
    runs
        Runs of `fdarx evaluate`, on disk or s3://; of a single run, its models are compared.
    """
    config = config or CompareConfig()
    opened = [RunDirectory.open(address) for address in runs]
    for address, run in zip(runs, opened, strict=True):
        if (job := run.info()["job"]) != "evaluate":
            raise StorageError(f"{address} is a run of {job}, not of evaluate")
        if not run.file("metrics.parquet").exists():
            raise StorageError(f"{address} has no metrics yet; finish it with the command that began it")
    if len(opened) == 1 and len({cell["model"] for cell in opened[0].info()["cells"]}) < 2:
        stop(f"{opened[0].root} has the answers of one model; give two runs or more")
    names = run_names(opened)
    compared, barriers = compare_runs(opened, names, seed=config.seed, resamples=config.resamples)
    if config.out:
        Location(config.out).write_text(build_comparison_page(opened, compared, barriers))
    of_runs = [list(read_records(run.file("metrics.parquet"), Figure)) for run in opened]
    figures = [named_figure(name, figure) for name, listed in zip(names, of_runs, strict=True) for figure in listed]
    not_compared = [*barrier_notes(barriers), *ungraded_notes(names, of_runs)]
    if config.as_json:
        result = {
            "runs": dict(zip(names, map(str, runs), strict=True)),
            "not_compared": not_compared,
            "figures": [figure.to_row() for figure in figures],
            "differences": [row.to_row() for row in compared],
            "page": config.out,
        }
        print_json(result)
        return 0
    _tell(figures, [run.info()["config"]["judge"] for run in opened], compared, not_compared, config)
    if config.out:
        print(f"\npage  {config.out}")
    return 0


def _tell(
    figures: Sequence[Figure],
    judges: Sequence[str],
    compared: Sequence[Difference],
    not_compared: Sequence[str],
    config: CompareConfig,
) -> None:
    print_tables(figures, ", ".join(dict.fromkeys(judges)))
    for note in not_compared:
        print(f"\n{note}")
    if not compared and not not_compared:
        print("\nThe models share no questions, so no differences: are the runs of the same benchmark?")
    chosen = [
        row
        for row in sorted(compared, key=lambda row: row.p_holm or 0)
        if row.metric in (config.metric or {row.metric}) and row.keys["group"] in (config.topic or {row.keys["group"]})
    ]
    if compared and not chosen and not_compared:
        print("\nNo difference in these metrics and topics; see above what is not compared, and why.")
    elif compared and not chosen:
        print("\nNo difference: these topics or types have no graded questions in common, or all are on one drug.")
    if compared:
        small = sum(row.p_holm is not None and row.p_holm < SIGNIFICANT for row in compared)
        print(f"\n{small:,} of {len(compared):,} differences have p below {SIGNIFICANT} after Holm's correction.")
    print()
    for row in chosen if config.metric or config.topic else chosen[:_SHOWN]:
        cell = " · ".join(filter(None, (row.first["setting"], row.first["retriever"])))
        few = f", only {row.rows} questions" if row.rows < SMALLEST else ""
        interval = f"{row.value:+.3f} [{row.low:+.3f}, {row.high:+.3f}], p {row.p_holm:.4f} (Holm){few}"
        print(f"{row.metric}, {row.keys['group']}, {cell}: {row.first['model']} − {row.second['model']} {interval}")


if __name__ == "__main__":
    run_as("compare")
