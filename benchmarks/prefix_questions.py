"""Full-label questions of a real build, as a benchmark and as requests."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import PRESCRIPTION_LABELS, json_lines
from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.settings import FULL_LABEL, TokenBudget
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.evaluation_steps import EvalSample, answer_questions
from fdarx_core.pipeline.steps import Address
from fdarx_core.records import Request
from fdarx_core.storage.benchmark_reader import read_benchmark
from jobs import cli

_SPARE = 1.5
"""Labels that are built for each label wanted: not all have enough questions."""


def made_build(folder: Path, labels: int) -> Path:
    """Build questions on so many real labels. Raises FileNotFoundError without the real data."""
    if not PRESCRIPTION_LABELS.is_file():
        raise FileNotFoundError(f"no real labels at {PRESCRIPTION_LABELS}; set FDARX_DATA, or give a build by --run")
    options = f"--sample {int(labels * _SPARE)} --cpus 2 --out {folder}/build"
    cli.main(["build", "--labels", str(PRESCRIPTION_LABELS), *options.split()])
    return folder / "build"


def chosen(build: Path, folder: Path, labels: int, questions: int) -> Path:
    """Write a benchmark in the published format: the first labels of the build with enough questions."""
    asked = defaultdict[str, list[Mapping[str, Any]]](list)
    for row in json_lines(build / "benchmark" / "qa.jsonl"):
        asked[row["set_id"]].append(row)
    enough = (row for row in json_lines(build / "benchmark" / "labels.jsonl") if len(asked[row["set_id"]]) >= questions)
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
