"""Exported samples: one question in one setting, with its prompt and what is needed to score a reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from fdarx_core.evaluation.gold import equivalences, equivalents_by_gold, gold_indices
from fdarx_core.evaluation.predictions import ANSWER_TASKS
from fdarx_core.evaluation.settings import (
    RETRIEVED,
    SETTINGS,
    TokenBudget,
    is_due,
    needs_whole_label,
    prompt_context,
)
from fdarx_core.records import Equivalence, Passage, QuestionAnswer
from fdarx_core.retrieval.retrievers import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.storage.benchmark_reader import BenchmarkItem

RETRIEVER = "bm25"
"""The retriever of the setting `retrieved`."""


@dataclass(frozen=True, slots=True)
class HarnessSample:
    """One question in one setting.

    `gold` are the gold passages, `equivalents` pairs of a gold passage and one that may replace it, `citable` the
    passages that the prompt marks, all as doc_chunk_index values of the label. `system` and `user` are the two messages
    of the prompt.
    """

    id: str
    setting: str
    retriever: str
    type: str
    set_id: str
    drug: str
    question: str
    target: str
    gold: list[int]
    equivalents: list[list[int]]
    citable: list[int]
    system: str = ""
    user: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> HarnessSample:
        """Return the sample of a row; other fields are ignored. Raises KeyError for a missing one."""
        optional = {name: row[name] for name in ("system", "user") if name in row}
        needed = {field.name: row[field.name] for field in fields(cls) if field.name not in ("system", "user")}
        return cls(**needed, **optional)

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def qa(self) -> QuestionAnswer:
        """The question with the fields that scoring reads."""
        return QuestionAnswer(
            id=self.id,
            type=self.type,
            answer_kind="",
            source="",
            category="",
            set_id=self.set_id,
            drug_name=self.drug,
            question=self.question,
            answer=self.target,
            gold_passages=self.gold,
            gold_has_answer=[True] * len(self.gold),
        )

    @property
    def equivalence(self) -> Equivalence:
        pairs = self.equivalents
        return Equivalence(self.id, self.set_id, [gold for gold, _ in pairs], [member for _, member in pairs])


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported: the settings, the passages of `retrieved`, and the limit of a label's characters or None."""

    settings: Sequence[str] = SETTINGS
    top_k: int = 5
    label_chars: int | None = None


def samples_of(item: BenchmarkItem, options: ExportOptions) -> Iterator[HarnessSample]:
    """Yield the samples of a label, setting by setting, with the messages that `fdarx evaluate` sends.

    Settings that need the whole label have none where it is not known.
    """
    equal = {one.question_id: one for one in equivalences(item.questions, item.passages)}
    budget = TokenBudget(options.label_chars)
    for setting in options.settings:
        if needs_whole_label(setting) and not item.subject.whole:
            continue
        due = [question for question in item.questions if is_due(setting, question)]
        ranked = _ranked(due, item.passages, options.top_k) if setting == RETRIEVED else {}
        for question in due:
            context = prompt_context(setting, question, item.passages, ranked.get(question.id, ()), budget)
            messages = ANSWER_TASKS[setting].request(context.slots, endpoint="").messages
            system, user = (message["content"] for message in messages)
            yield HarnessSample(
                id=question.id,
                setting=setting,
                retriever=RETRIEVER if setting == RETRIEVED else "",
                type=question.type,
                set_id=question.set_id,
                drug=question.drug_name,
                question=question.question,
                target=question.answer,
                gold=gold_indices(question),
                equivalents=_pairs(equal.get(question.id)),
                citable=list(context.numbered),
                system=system,
                user=user,
            )


def _pairs(equivalence: Equivalence | None) -> list[list[int]]:
    found = equivalents_by_gold(equivalence)
    return [[gold, member] for (_, gold), members in found.items() for _, member in sorted(members)]


def _ranked(questions: Sequence[QuestionAnswer], passages: Sequence[Passage], top_k: int) -> dict[str, list[Passage]]:
    """Return the first passages of the label for each question, by its id."""
    if not questions:
        return {}
    collection = Collection([passage_search_text(passage) for passage in passages])
    ranked = get_retriever(RETRIEVER).rank(Queries([one.question for one in questions]), collection, top_k)
    return {
        question.id: [passages[place] for place, _ in found] for question, found in zip(questions, ranked, strict=True)
    }
