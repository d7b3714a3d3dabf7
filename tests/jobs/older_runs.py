"""An evaluation as FDARx 0.1 wrote it, for the jobs that read runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq


def older_evaluation(run: Path, out: Path) -> Path:
    """Copy an evaluation: scores without `extra`, and figures and differences with their former column names."""
    shutil.copytree(run, out)
    for place in out.glob("scores/*/*.parquet"):
        pq.write_table(pq.read_table(place).drop_columns(["extra"]), place)
    metrics = pq.read_table(out / "metrics.parquet").rename_columns({"clusters": "labels"})
    pq.write_table(metrics, out / "metrics.parquet")
    differences = pq.read_table(out / "comparisons.parquet").drop_columns(["unscored"])
    former = differences.rename_columns({"value": "difference", "clusters": "labels"})
    pq.write_table(former, out / "comparisons.parquet")
    return out
