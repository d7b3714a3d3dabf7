"""Question-answer pairs to tune on: out of a file, or a finished build's questions. Source: QA-RAG §2.3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fdarx_core.rag.questions import read_questions
from fdarx_core.records import QuestionAnswer, Reject
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records

STAGE = "pairs"
_LABEL = re.compile(r"^\s*answer\s*:\s*", re.IGNORECASE)


@dataclass(slots=True)
class Pair:
    """One pair. `about` is the document or label it was written on; `group` names the pairs that it is nearly equal to,
    `part` is train, validation or test; both are "" until it was put somewhere.
    """

    id: str
    question: str
    answer: str
    about: str
    group: str = ""
    part: str = ""


def read_pairs(place: str) -> tuple[list[Pair], list[Reject]]:
    """The pairs of a run of `fdarx build`, or of a file as `read_questions` takes it, and the rows that give none.

    A file's first reference is the answer, less a leading "Answer:". Refusal questions of a build are left out: what
    they ask for is told by their label alone. Raises StorageError where the place can't be read, ValueError where it
    holds no pair.
    """
    found, rejects = _of_build(place) if (Location(place) / "run.json").exists() else _of_file(place)
    pairs = [replace(one, answer=_LABEL.sub("", one.answer).strip()) for one in found]
    empty = [
        Reject(one.id, STAGE, "no_answer", "nothing but a label stands there", source=one.about)
        for one in pairs
        if not one.answer
    ]
    kept = [one for one in pairs if one.answer]
    if not kept:
        raise ValueError(f"{place} holds no pair to tune on: {len(rejects) + len(empty)} rows were left out")
    return kept, [*rejects, *empty]


def _of_file(place: str) -> tuple[list[Pair], list[Reject]]:
    questions, rejects = read_questions(place)
    return [Pair(one.id, one.question, one.references[0], one.title or one.id) for one in questions], rejects


def _of_build(place: str) -> tuple[list[Pair], list[Reject]]:
    run = RunDirectory.open(place)
    if not run.complete or run.info()["job"] != "build_benchmark":
        raise StorageError(f"{place} is no finished run of fdarx build; give one, or a file of pairs")
    pairs: list[Pair] = []
    rejects: list[Reject] = []
    for one in _questions(run):
        if one.type == "refusal":
            rejects.append(Reject(one.id, STAGE, "refusal", one.question, set_id=one.set_id))
        else:
            pairs.append(Pair(one.id, one.question, one.answer, one.set_id))
    return pairs, rejects


def _questions(run: RunDirectory) -> Iterator[QuestionAnswer]:
    for part in run.parts("questions"):
        yield from read_records(part, QuestionAnswer)
