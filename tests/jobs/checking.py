"""What the tests of `fdarx factuality` share: invented answers, gold and evidence, the command as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fdarx_core.records import CheckedAnswer, ClaimVerdict, FactualityScore, PairVerdict, SafetyFlag
from tests.jobs.evaluating import rows_of
from tests.jobs.in_process import run_job

PASSAGES = [
    "The recommended dose of Examplol in adults is 20 mg once daily.",
    "Examplol is contraindicated in patients with severe hepatic impairment.",
    "Examplol was not teratogenic in rats.",
    "The most common adverse reactions to Examplol are headache, nausea and dizziness.",
    "Store Examplol tablets at 20°C to 25°C.",
    "Somnivex reduced the time to sleep onset by 12 minutes.",
]
QUESTIONS = [
    "What is the recommended dose of Examplol in adults?",
    "Who must not take Examplol?",
    "Is Examplol teratogenic?",
    "Which adverse reactions does Examplol cause?",
    "How is Examplol stored?",
    "Does Somnivex shorten the time to sleep onset?",
]
RIGHT = [
    "The recommended dose of Examplol in adults is 20 mg once daily.",
    "Examplol is contraindicated in patients with severe hepatic impairment.",
    "Examplol was not teratogenic in rats.",
    "The most common adverse reactions to Examplol are headache, nausea and dizziness.",
    "Store Examplol tablets at 20°C to 25°C.",
    "Somnivex reduced the time to sleep onset by 12 minutes.",
]
WRONG = [
    "The recommended dose of Examplol in adults is 80 mg once daily.",
    "Examplol is contraindicated in patients with severe hepatic impairment.",
    "Examplol was teratogenic in rats. The moon shines on the sleeping harbour at night.",
    "The most common adverse reactions to Examplol are headache, nausea and dizziness.",
    "I'm sorry, but I can't answer this question.",
    "Somnivex reduced the time to sleep onset by 12 minutes.",
]


def lines(path: Path, rows: Iterable[Mapping[str, Any] | str]) -> Path:
    """A file of JSON lines; a string stands as it is."""
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


NO_ANSWERS: list[Mapping[str, Any] | str] = ["{", {"question": "Why?"}, {"answer": "So."}]
"""Rows, of which nothing can be checked."""


def made_files(folder: Path, *more: Mapping[str, Any] | str) -> list[object]:
    """Answers of two models, `more` rows, gold and evidence; returns the options that name them."""
    answers = [
        lines(folder / f"gold.{model}.jsonl", [*map(_row, QUESTIONS, said), *more])
        for model, said in (("careful", RIGHT), ("careless", WRONG))
    ]
    gold = lines(
        folder / "gold.jsonl",
        [
            {"Question": question, "Free_form_answer": right, "Must_have": [right], "Nice_to_have": [passage]}
            for question, right, passage in zip(QUESTIONS, RIGHT, PASSAGES, strict=True)
        ],
    )
    evidence = lines(folder / "evidence.jsonl", [*({"text": passage} for passage in PASSAGES), {"pmid": "7"}])
    return ["--predictions", *answers, "--references", gold, "--evidence", f"file:{evidence}"]


def _row(question: str, answer: str) -> dict[str, str]:
    return {"question": question, "answer": answer, "drug": "Somnivex" if "Somnivex" in question else "Examplol"}


def command(out: object, *options: object) -> list[str]:
    """The job as a process of its own."""
    return [sys.executable, "-m", "jobs.cli", *_arguments(out, *options)]


def _arguments(out: object, *options: object) -> list[str]:
    return [str(part) for part in ("factuality", "--out", out, "--resamples", 200, "--cpus", 2, *options)]


def score(out: object, *options: object) -> subprocess.CompletedProcess[str]:
    """Score in this process."""
    return run_job(*_arguments(out, *options))


def scores(out: object) -> dict[tuple[str, str], FactualityScore]:
    """By model and question."""
    asked = {row.id: row for row in rows_of(out, "answers", CheckedAnswer)}
    return {(row.model, asked[row.answer_id].question): row for row in rows_of(out, "scores", FactualityScore)}


def made(out: object) -> list[list[Any]]:
    """All rows that were made of the answers, to compare runs by."""
    kinds = (("verdicts", ClaimVerdict), ("pairs", PairVerdict), ("scores", FactualityScore), ("flags", SafetyFlag))
    return [rows_of(out, kind, record) for kind, record in kinds]
