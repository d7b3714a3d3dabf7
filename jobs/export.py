"""Export a benchmark as a package for another evaluation harness."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from fdarx_core.evaluation.settings import SETTINGS, needs_whole_label
from fdarx_core.harnesses.packages import write_package
from fdarx_core.harnesses.samples import ExportOptions
from fdarx_core.storage import Location
from fdarx_core.storage.benchmark_reader import read_benchmark
from jobs.cli import run_as
from jobs.options import JobConfig, Names, one_of
from jobs.output import print_json
from jobs.progress import busy

_WHOLE_LABELS = ", because the benchmark has no complete text of its labels (labels.jsonl)"


class ExportConfig(JobConfig):
    """Options of `fdarx export`."""

    to: Literal["inspect", "lm-eval"]
    """harness that the package is for: inspect, lm-eval"""
    out: str
    """folder to write, on disk or s3://; it must be empty"""
    settings: Annotated[Names, one_of(SETTINGS, "setting")] = Field(list(SETTINGS))
    """evidence to show: closed_book, full_label, oracle, retrieved; separated by commas or spaces"""
    top_k: int = Field(5, ge=1)
    """number of passages that BM25 finds for the setting `retrieved`"""
    label_chars: int | None = Field(None, ge=1)
    """maximum number of characters of a label's text (complete text)"""


def export(benchmark: str, /, *, config: Annotated[ExportConfig, Parameter(name="*")]) -> int:
    """Export a benchmark as a package that runs in inspect or lm-eval, with the prompts and scores of FDARx.

    Parameters
    ----------
    benchmark
        A run of `fdarx build`, or a folder (or file) with qa*.jsonl and labels.jsonl in FDARxBench's published format;
        on disk or s3://.
    """
    with busy("reading the benchmark", quiet=config.quiet):
        opened = read_benchmark(benchmark)
    options = ExportOptions(config.settings, config.top_k, config.label_chars)
    with busy("writing the package", quiet=config.quiet):
        counts = write_package(config.to, opened, Location(config.out), options)
    if config.as_json:
        print_json({"out": config.out, "samples": dict(counts), "rejected": len(opened.rejects)})
        return 0
    for setting in config.settings:
        why = "" if counts[setting] or not needs_whole_label(setting) else _WHOLE_LABELS
        print(f"{setting:12} {counts[setting]:,} questions{why}")
    if opened.rejects:
        print(f"{len(opened.rejects):,} rows of the benchmark cannot be read and are left out")
    print(f"README       {Location(config.out) / 'README.md'}")
    return 0


if __name__ == "__main__":
    run_as("export")
