"""Preference pairs for DPO: answers of an evaluation that a judge graded, correct ones over incorrect ones.

Source: Rafailov et al. 2023 (DPO).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from fdarx_core.records import Grade, Prediction, QuestionAnswer, Reject, SettingProgress, content_id
from fdarx_core.storage import RunDirectory, StorageError, read_records
from fdarx_core.tuning.pairs import STAGE, TrainingPair, closed_book_messages


def read_preferences(place: str) -> tuple[list[TrainingPair], list[Reject]]:
    """Return a pair for each incorrect answer of an evaluation, and the questions that give none.

    The better answer is one that was graded correct, in turn by a hash, or else the gold answer. Equal answers count
    once. The prompt is that of a question without passages. Refusal questions are left out.

    Args:
        place: the run of `fdarx evaluate`.

    Raises:
        StorageError: the place is not a finished run of an evaluation.
        ValueError: no question has an incorrect answer.
    """
    run = RunDirectory.open(place)
    if not run.complete or run.info()["job"] != "evaluate":
        raise StorageError(f"{place} is not a finished run of fdarx evaluate, whose graded answers DPO needs")
    answers = _graded_answers(run)
    pairs: list[TrainingPair] = []
    rejects: list[Reject] = []
    for question in (one for part in run.parts("questions") for one in read_records(part, QuestionAnswer)):
        wrong = [] if question.type == "refusal" else sorted(answers[question.id, "incorrect"])
        if not wrong:
            reason = "refusal" if question.type == "refusal" else "no_incorrect_answer"
            rejects.append(Reject(question.id, STAGE, reason, question.question, set_id=question.set_id))
        pairs += _pairs_of(question, wrong, sorted(answers[question.id, "correct"] - {*wrong}))
    if not pairs:
        raise ValueError(f"{place} holds no answer that was graded incorrect")
    return pairs, rejects


def _pairs_of(question: QuestionAnswer, wrong: list[str], right: list[str]) -> Iterator[TrainingPair]:
    better = sorted(right, key=lambda text: content_id(question.id, text)) or [question.answer]
    for number, rejected in enumerate(wrong):
        yield TrainingPair(
            content_id(question.id, rejected),
            question.question,
            better[number % len(better)],
            question.set_id,
            messages=closed_book_messages(question.question),
            rejected=rejected,
        )


def _graded_answers(run: RunDirectory) -> defaultdict[tuple[str, str], set[str]]:
    """Return the distinct answers by question id and grade."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for model in sorted({cell.model for cell in read_records(run.file("cells.parquet"), SettingProgress)}):
        for part in run.parts(f"predictions/{model}"):
            grades = run.file(f"grades/{model}/{part.name}")
            graded = {one.prediction_id: one.outcome for one in read_records(grades, Grade)} if grades.exists() else {}
            for one in read_records(part, Prediction):
                if one.outcome == "answered" and one.answer.strip():
                    found[one.question_id, graded.get(one.id, "")].add(one.answer.strip())
    return found
