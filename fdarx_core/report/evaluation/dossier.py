"""The wrong answers of a page as JSON: questions and passages once, then what each answer adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fdarx_core.evaluation.places import Place, gold_places
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.report.evaluation.evidence import EVIDENCE, asks_for_citations, citation_mark
from fdarx_core.report.evaluation.explain import Explanation, explain, reason_of
from fdarx_core.report.evaluation.sources import Sources, cited_places, shown_places
from fdarx_core.report.evaluation.wording import GROUP_NAMES, setting_name
from fdarx_core.report.evaluation.wrong import KINDS, WrongAnswer
from fdarx_core.report.retention import readable

BUDGET = 6_000_000
"""Characters of all texts together; plotly.js takes 4.9 million more of a page."""
CITED_SHOWN = 12
"""Cited passages with their texts; a model that cites half the label needs no more to be seen to do so."""


class Dossier:
    """Collects wrong answers until the budget is spent. `payload` is what the page's script reads."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._left = BUDGET
        self._questions: dict[str, int] = {}
        self._passages: dict[Place, int] = {}
        self.payload: dict[str, list[Any]] = {"questions": [], "passages": [], "items": []}

    def add(self, wrong: WrongAnswer) -> None:
        """Nothing is added where its texts would go beyond the budget."""
        question = self._sources.questions[wrong.prediction.question_id]
        gold, cited = gold_places(question), cited_places(wrong.prediction)[:CITED_SHOWN]
        need = len(wrong.prediction.answer) + len(wrong.prediction.text) + self._weight(question, [*gold, *cited])
        if need <= self._left:
            self._left -= need
            self.payload["items"].append(self._item(wrong, question, explain(wrong, self._sources)))

    def _weight(self, question: QuestionAnswer, places: Sequence[Place]) -> int:
        fresh = {place for place in self._at_hand(places) if place not in self._passages}
        return 600 + len(question.question) + sum(len(self._sources.passages[place].text) for place in fresh)

    def _item(self, wrong: WrongAnswer, question: QuestionAnswer, why: Explanation) -> dict[str, Any]:
        said = wrong.prediction
        shown = shown_places(said)
        return {
            "id": said.id,
            "model": said.model,
            "setting": setting_name(said.setting, said.retriever),
            "type": GROUP_NAMES.get(question.type, question.type),
            "kind": KINDS[wrong.kind],
            "reason": readable(reason_of(wrong)),
            "evidence": EVIDENCE[why.evidence],
            "question": self._question(question),
            "answer": said.answer if said.outcome == "answered" else said.text,
            "finding": why.finding,
            "detail": why.detail,
            "notes": why.notes,
            "shown": [place in shown for place in self._at_hand(gold_places(question))] if shown else None,
            "cited": self._cited(wrong, question),
        }

    def _cited(self, wrong: WrongAnswer, question: QuestionAnswer) -> dict[str, Any] | None:
        """The cited passages with their marks, and the number of those left out; None where none were asked for."""
        if not asks_for_citations(wrong.prediction.setting):
            return None
        cited = cited_places(wrong.prediction)
        listed = self._at_hand(cited[:CITED_SHOWN])
        passages = [[self._passage(place), *citation_mark(question, place, self._sources)] for place in listed]
        return {"passages": passages, "more": len(cited) - len(listed)}

    def _at_hand(self, places: Sequence[Place]) -> list[Place]:
        return [place for place in places if place in self._sources.passages]

    def _question(self, question: QuestionAnswer) -> int:
        if question.id not in self._questions:
            self._questions[question.id] = len(self._questions)
            gold = [self._passage(place) for place in self._at_hand(gold_places(question))]
            self.payload["questions"].append(
                {
                    "id": question.id,
                    "set_id": question.set_id,
                    "drug": question.drug_name,
                    "category": question.category,
                    "text": question.question,
                    "gold": question.answer,
                    "passages": gold,
                }
            )
        return self._questions[question.id]

    def _passage(self, place: Place) -> int:
        if place not in self._passages:
            self._passages[place] = len(self._passages)
            passage = self._sources.passages[place]
            self.payload["passages"].append([passage.marker, _section(passage), passage.text, passage.set_id])
        return self._passages[place]


def _section(passage: Passage) -> str:
    title = passage.section_path or passage.section_title or SECTION_NAMES.get(passage.core_code, "untitled section")
    return f"{passage.section_number} {title}" if passage.section_number else title
