"""Figures of an evaluation of many labels: time, memory and file reads of `write_results`, by number of answers.

    python -m benchmarks.evaluation_figures [--sizes 20000 200000 2000000] [--folder DIRECTORY]

The scores are of 10 models in 4 settings with 10 questions a label, in parts of 8 labels, drawn at random; ten labels
have one drug, which is what the bootstrap draws. All runs in one process without Ray, so that the peak is that of the
driver and of one task together. The slope is the logarithm of the ratio of two CPU times over that of the sizes. The
scores are deleted at the end. Exits 1 where memory reaches 1 GB, or where CPU time grows with a slope above 1.2.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks import run
from benchmarks.response_index import MOST_MB, MOST_SLOPE, call_in_process, print_measured
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.pipeline.evaluation_results import write_results
from fdarx_core.pipeline.evaluation_steps import LABELS_PER_PART
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.records import Score, SettingProgress, arrow_schema
from fdarx_core.storage import RunDirectory, write_table

MODELS, QUESTIONS, LABELS_PER_DRUG = 10, 10, 10
PER_LABEL = MODELS * len(SETTINGS) * QUESTIONS
TYPES = ("factual", "factual", "multihop", "refusal")
CATEGORIES = ("Adverse reactions", "Dosage", "Indications", "Interactions", "Pharmacology")


def generate(run_directory: RunDirectory, labels: int) -> None:
    """Write the scores of all models in all parts."""
    dice = np.random.default_rng(0)
    for model in range(MODELS):
        for part in range(-(-labels // LABELS_PER_PART)):
            numbers = range(part * LABELS_PER_PART, min(labels, (part + 1) * LABELS_PER_PART))
            table = _scores(dice, f"model-{model}", np.array(numbers))
            write_table(run_directory.part(f"scores/model-{model}", part), table)


def _scores(dice: np.random.Generator, model: str, labels: NDArray[np.int64]) -> pa.Table:
    label = np.repeat(labels, QUESTIONS * len(SETTINGS))
    setting = np.tile(np.repeat(np.arange(len(SETTINGS)), QUESTIONS), len(labels))
    question, rows = np.tile(np.arange(QUESTIONS), len(labels) * len(SETTINGS)), len(label)
    type_ = np.asarray(TYPES)[(label + question) % len(TYPES)]
    gold = np.where(type_ == "refusal", 0, 1 + question % 3)
    cited = dice.integers(0, 4, rows)
    hits = np.minimum(dice.integers(0, 4, rows), np.minimum(gold, cited))
    questions = [f"q-{one:07d}-{number:02d}" for one, number in zip(label, question, strict=True)]
    columns = {
        "prediction_id": [f"{one}-{number}-{model}" for one, number in zip(questions, setting, strict=True)],
        "question_id": questions,
        "set_id": [f"label-{one:07d}" for one in label],
        "cluster": [f"drug-{one // LABELS_PER_DRUG:06d}" for one in label],
        "model": [model] * rows,
        "setting": np.asarray(SETTINGS)[setting],
        "retriever": [""] * rows,
        "type": type_,
        "answer_kind": type_,
        "category": np.asarray(CATEGORIES)[question % len(CATEGORIES)],
        "section": np.asarray(CATEGORIES)[label % len(CATEGORIES)],
        "numeric": question % 2 == 0,
        "label_characters": 10_000 + label % 997,
        "outcome": dice.choice(["answered", "refused", "failed"], rows, p=[0.8, 0.19, 0.01]),
        "grade": dice.choice(["correct", "incorrect", "not_attempted", ""], rows, p=[0.6, 0.3, 0.09, 0.01]),
        "gold": gold,
        "cited": cited,
        **dict.fromkeys(("hits", "eq_hits", "eq_right"), hits),
        **{name: dice.random(rows) for name in ("bleu", "meteor", "rouge_l")},
        "bert_score": pa.nulls(rows, pa.float64()),
        "prompt_tokens": np.full(rows, 14_000),
        "cached_tokens": np.full(rows, 13_000),
        "completion_tokens": np.full(rows, 40),
        "latency_s": dice.lognormal(0.5, 0.6, rows),
        "cost": np.full(rows, 0.004),
        "extra": [{}] * rows,
    }
    return pa.table(columns, arrow_schema(Score))


def print_figures(address: str, labels: int) -> None:
    """Write the figures in this process, and print what it took as JSON."""
    directory = RunDirectory.open(address)
    models = [f"model-{number}" for number in range(MODELS)]
    cells = [SettingProgress(model, one, "", "done", due=labels * QUESTIONS) for model in models for one in SETTINGS]

    def figures() -> dict[str, int]:
        write_results(LocalExecutor(), directory, cells, [], seed=0, resamples=2000)
        return {}

    print_measured(figures)


def main(sizes: Sequence[int] = (20_000, 200_000, 2_000_000), folder: Path | None = None) -> int:
    print(f"{'answers':>12s} | {'generate':>9s} | {'figures':>9s} | {'CPU s':>7s} | {'MB':>6s} | {'reads':>8s}")
    times, peaks = [], []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            directory = RunDirectory.begin(f"{place}/run", job="evaluate", config={}, versions={})
            began = time.perf_counter()
            generate(directory, size // PER_LABEL)
            generated = time.perf_counter() - began
            call = f"print_figures({str(directory.root)!r}, {size // PER_LABEL})"
            found = call_in_process("benchmarks.evaluation_figures", call)
            times.append(found["cpu_s"])
            peaks.append(found["peak_mb"])
            figures = f"{found['seconds']:9.2f} | {found['cpu_s']:7.2f} | {found['peak_mb']:6,} | {found['reads']:8,}"
            print(f"{size:>12,} | {generated:9.2f} | {figures}", flush=True)
    slopes = [math.log(times[at + 1] / times[at]) / math.log(sizes[at + 1] / sizes[at]) for at in range(len(sizes) - 1)]
    print(f"slopes {', '.join(f'{slope:.2f}' for slope in slopes)}")
    return int(max(peaks) >= MOST_MB or any(slope > MOST_SLOPE for slope in slopes))


if __name__ == "__main__":
    run(main)
