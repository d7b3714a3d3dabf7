"""Full-label questions of a real build: so many labels with so many questions each, as a benchmark and as requests."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.settings import FULL_LABEL, TokenBudget
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.evaluation_steps import EvalSample, answer_questions
from fdarx_core.pipeline.steps import Address
from fdarx_core.records import Request
from fdarx_core.storage.benchmark_reader import read_benchmark
from jobs import cli

_SPARE = 1.5
"""Labels built for each that is wanted: not all have questions enough."""


def made_build(folder: Path, labels: int) -> Path:
    """A build of so many of the real labels at FDARX_DATA. Raises FileNotFoundError where they are absent."""
    data = Path(os.environ.get("FDARX_DATA", "../shared/data"))
    archive = data / "spl" / "dm_spl_release_human_rx.zip"
    if not archive.is_file():
        raise FileNotFoundError(f"no real labels at {archive}; set FDARX_DATA, or give a build by --run")
    sample = str(int(labels * _SPARE))
    cli.main(["build", "--labels", str(archive), "--sample", sample, "--cpus", "2", "--out", str(folder / "build")])
    return folder / "build"


def chosen(build: Path, folder: Path, labels: int, questions: int) -> Path:
    """A benchmark in the published format of the build's first labels that have questions enough."""
    asked = defaultdict[str, list[Mapping[str, Any]]](list)
    for row in _rows(build / "benchmark" / "qa.jsonl"):
        asked[row["set_id"]].append(row)
    enough = (row for row in _rows(build / "benchmark" / "labels.jsonl") if len(asked[row["set_id"]]) >= questions)
    folder.mkdir()
    with (folder / "labels.jsonl").open("w") as texts, (folder / "qa.jsonl").open("w") as rows:
        for label in islice(enough, labels):
            texts.write(f"{json.dumps(label)}\n")
            own = asked[label["set_id"]]
            rows.writelines(f"{json.dumps(row)}\n" for row in own[:: len(own) // questions][:questions])
    return folder


def by_label(benchmark: Path, model: ModelConfig, label_chars: int) -> list[list[Request]]:
    """What a sweep asks the model, label by label."""
    step = answer_questions(Address(model.name, model.request_parameters), TokenBudget.of(model, label_chars), top_k=0)
    cell = CellKey(model.name, FULL_LABEL, "")
    labels = read_benchmark(str(benchmark)).items()
    return [step.requests(EvalSample(one, {}, {}, {}, {cell: one.questions})) for one in labels]


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
