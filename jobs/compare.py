"""Compare evaluations, or the models of one: their tables, and the differences between models with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field

from fdarx_core.evaluation.figures import MIN_QUESTIONS, compared_metrics
from fdarx_core.pipeline.evaluation import compare_runs
from fdarx_core.records import Difference, Figure
from fdarx_core.report.evaluation_page import build_comparison_page, mismatch_notes, named_figure, run_names
from fdarx_core.report.figure_limits import ungraded_notes
from fdarx_core.report.page_engine import SIGNIFICANT, by_significance
from fdarx_core.report.result_sentences import hallucination_sentence
from fdarx_core.specs.options import JobConfig, Names, one_of
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records
from jobs import stop
from jobs.cli import run_as
from jobs.evaluate import evaluation_tables
from jobs.output import print_json, tell_result, tell_tables

_MAX_ROWS = 20


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
    """print all differences of these metrics, such as hallucination_rate or accuracy (default: the 20 differences
    with the smallest p)"""
    topic: Annotated[Names, one_of(dict.fromkeys(group for _, group in compared_metrics()), "topic")] = Field(
        default_factory=list
    )
    """print all differences on these topics of labels, such as Contraindications, or on these question types: factual,
    multihop, refusal, answerable, all (default: the 20 differences with the smallest p)"""


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
            raise StorageError(f"{address} is a run of {job}, not of evaluate; give runs of evaluate or grade")
        if not run.file("metrics.parquet").exists():
            raise StorageError(f"{address} has no metrics yet; finish it with the command that started it")
    if len(opened) == 1 and len({cell["model"] for cell in opened[0].info()["cells"]}) < 2:
        stop(f"{opened[0].root} holds only one model; give at least two runs")
    names = run_names(opened)
    asked = {name: {*run.rows("questions", "id")} for name, run in zip(names, opened, strict=True)}
    pairs = list(combinations(names, 2))
    if pairs and not any(asked[a] & asked[b] for a, b in pairs):
        stop(f"{' and '.join(names)} have no question in common; give runs on the same questions")
    overlaps = [f"{a} and {b} share {len(asked[a] & asked[b])} questions" for a, b in pairs if asked[a] != asked[b]]
    compared, mismatches = compare_runs(opened, names, seed=config.seed, resamples=config.resamples)
    if config.out:
        Location(config.out).write_text(build_comparison_page(opened, compared, mismatches))
    figures_by_run = [list(read_records(run.file("metrics.parquet"), Figure)) for run in opened]
    figures = [named_figure(name, one) for name, rows in zip(names, figures_by_run, strict=True) for one in rows]
    not_compared = [*overlaps, *mismatch_notes(mismatches), *ungraded_notes(names, figures_by_run)]
    sentence = hallucination_sentence(compared, config.topic[0] if len(config.topic) == 1 else "all")
    if config.as_json:
        result = {
            "result": sentence,
            "runs": dict(zip(names, map(str, runs), strict=True)),
            "not_compared": not_compared,
            "figures": [figure.to_row() for figure in figures],
            "differences": [row.to_row() for row in compared],
            "page": config.out,
        }
        print_json(result)
        return 0
    _print_comparison(figures, [run.info()["config"]["judge"] for run in opened], compared, not_compared, config)
    tell_result(sentence, config.out or "")
    return 0


def _print_comparison(
    figures: Sequence[Figure],
    judges: Sequence[str],
    compared: Sequence[Difference],
    not_compared: Sequence[str],
    config: CompareConfig,
) -> None:
    tell_tables(evaluation_tables(figures, ", ".join(dict.fromkeys(judges))), verbose=config.verbose)
    for note in not_compared:
        print(f"\n{note}")
    if not compared:
        print("\nNothing to compare. Check that the runs use the same benchmark, with questions on several drugs.")
    chosen = [
        row
        for row in by_significance(compared)
        if row.metric in (config.metric or {row.metric}) and row.keys["group"] in (config.topic or {row.keys["group"]})
    ]
    if compared and not chosen:
        why = "the reasons are above" if not_compared else "too few graded questions or drugs in common"
        print(f"\nNo comparison was possible for these metrics and topics: {why}.")
    if compared:
        significant = sum((row.p_holm or 0) < SIGNIFICANT for row in compared)
        print(f"\n{significant:,} of {len(compared):,} differences have p below {SIGNIFICANT} after Holm's correction.")
    print()
    for row in chosen if config.metric or config.topic else chosen[:_MAX_ROWS]:
        conditions = " · ".join(filter(None, (row.first["setting"], row.first["retriever"])))
        few_note = f", only {row.rows} questions" if row.rows < MIN_QUESTIONS else ""
        interval = f"{row.value:+.3f} [{row.low:+.3f}, {row.high:+.3f}], p {row.p_holm:.4f} (Holm){few_note}"
        models = f"{row.first['model']} − {row.second['model']}"
        print(f"{row.metric}, {row.keys['group']}, {conditions}: {models} {interval}")


if __name__ == "__main__":
    run_as("compare")
