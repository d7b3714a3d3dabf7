"""A benchmark as an evaluation takes it: label by label, with what is asked about each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.records import Passage, QuestionAnswer, Reject, Subject


@dataclass(frozen=True, slots=True)
class Examined:
    """One label: its passages in order of doc_chunk_index, its questions by type and id. Either may be empty."""

    subject: Subject
    passages: list[Passage]
    questions: list[QuestionAnswer]

    @classmethod
    def of(
        cls, set_id: str, drug_name: str, whole: bool, passages: Sequence[Passage], questions: Sequence[QuestionAnswer]
    ) -> Examined:
        """Puts both in order and counts what is at hand."""
        held = sorted(passages, key=lambda passage: passage.doc_chunk_index)
        asked = sorted(questions, key=lambda question: (question.type, question.id))
        characters = sum(len(passage.text) for passage in held)
        return cls(Subject(set_id, drug_name, whole, len(held), characters), held, asked)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is evaluated. `rejects` are the rows that could not be read, and why; they are in none of the labels.

    `about` is what `run.json` keeps of it: name, kind (build_run or published), address, a digest of the content,
    and the numbers of labels, whole labels, passages, questions by type, and rejected rows.
    """

    about: dict[str, Any]
    labels: Callable[[], Iterator[Examined]]
    rejects: list[Reject] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.about["name"])

    def examined(self) -> Iterator[Examined]:
        """The labels in order of set id, read anew at each call; one of them is held at a time."""
        return self.labels()
