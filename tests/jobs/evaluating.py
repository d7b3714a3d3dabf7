"""What the tests of `fdarx evaluate` share: models on a loopback server, and the command as a user types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from fdarx_core.records import Figure, SettingProgress
from fdarx_core.storage import Location, RunDirectory, read_records
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import text_of

Row = TypeVar("Row")
JUDGEMENT = json.dumps({"reason": "It says what the gold answer says.", "grade": "CORRECT"})


def respond(body: Mapping[str, Any]) -> str:
    """As a model that always answers, and cites the first passage it is shown; as a judge that is always content."""
    if "response_format" in body:
        return JUDGEMENT
    text = "\n".join(text_of(message) for message in body["messages"])
    shown = re.search(r"^\|\|PASSAGE_(\d{4})\|\| ", text, re.MULTILINE)
    cited = f"\nCITED_PASSAGES: [PASSAGE_{shown[1]}]" if shown else ""
    return f"Take 5 mg once daily.{cited}"


def models_file(folder: Path, url: str, *models: Mapping[str, Any]) -> Path:
    """A models.yaml; each model goes by its name on the server too."""
    file = folder / "models.yaml"
    common = {"base_url": url, "max_in_flight": 8, "max_tries": 2}
    file.write_text(yaml.safe_dump([{**common, "model": model["name"], **model} for model in models]))
    return file


def command(benchmark: object, out: object, *more: object) -> list[str]:
    """The evaluation as a process of its own."""
    return [sys.executable, "-m", "jobs.cli", *_arguments(benchmark, out, *more)]


def _arguments(benchmark: object, out: object, *more: object) -> list[str]:
    line = ("evaluate", "--benchmark", benchmark, "--out", out, "--cpus", 2, "--resamples", 200, *more)
    return [str(part) for part in line]


def evaluate(benchmark: object, out: object, *more: object) -> subprocess.CompletedProcess[str]:
    """Evaluate in this process."""
    return run_job(*_arguments(benchmark, out, *more))


def cells(out: Path) -> dict[tuple[str, str, str], SettingProgress]:
    rows: Sequence[SettingProgress] = list(read_records(Location(out) / "cells.parquet", SettingProgress))
    return {(row.model, row.setting, row.retriever): row for row in rows}


def rows_of(out: object, kind: str, record: type[Row]) -> list[Row]:
    """All rows of one kind, part by part."""
    return [row for place in RunDirectory.open(str(out)).parts(kind) for row in read_records(place, record)]


def by_type(out: object) -> dict[tuple[str, str, str, str, str], Figure]:
    """The figures by question type, by model, setting, retriever, metric and type."""
    figures: list[Figure] = list(read_records(Location(str(out)) / "metrics.parquet", Figure))
    return {
        (one.keys["model"], one.keys["setting"], one.keys["retriever"], one.metric, one.keys["group"]): one
        for one in figures
        if one.keys["group_by"] == "type"
    }


def untimed(out: object) -> dict[tuple[str, str, str, str, str], Figure]:
    """As `by_type`, without how long answers took, which is another time in another run."""
    return {key: figure for key, figure in by_type(out).items() if figure.metric != "latency_s"}


def reopen(out: Path) -> None:
    """Make a complete run one that was stopped before its end, so that the same command resumes the job with it."""
    info = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps({**info, "status": "interrupted"}))
