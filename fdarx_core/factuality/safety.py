"""Flags statements of an answer that contradict the label of its drug, by a language model. Source: FAS §3.2, §4.

The model reads the answer and the sections of the label on contraindications, the boxed warning, interactions and
dosage. Code checks only that its quotations are verbatim. Without a language model nothing is flagged.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from fdarx_core.factuality.claims import quote_pattern
from fdarx_core.factuality.evidence.sources import evidence_of_passage, with_list_leads
from fdarx_core.labels.drugs import Drug, DrugNames, drug_of
from fdarx_core.labels.loinc import DOSAGE_SECTION
from fdarx_core.llm import Quote, Reply, Task
from fdarx_core.records import CheckedAnswer, Evidence, FactualityScore, Label, Passage, Response, SafetyFlag

SECTIONS = ("34066-1", "34070-3", "34073-7", DOSAGE_SECTION)
"""Boxed Warning, Contraindications, Drug Interactions, Dosage and Administration."""
MAX_LABELS = 3
"""The most labels that an answer is checked against, one for each drug that it names."""


class ContradictedStatement(Reply):
    """A statement of the answer and the words of a label that contradict it, both quoted verbatim."""

    kind: Literal["contraindication", "interaction", "dose", "warning"]
    answer_quote: Quote
    label_quote: Quote


class CheckSafetyReply(Reply):
    """The contradicted statements of an answer, mostly none, and whether it lacks a dose that it should give."""

    statements: Annotated[list[ContradictedStatement], Field(max_length=100)]
    dose_missing: bool = False


CHECK_SAFETY = Task.load("check_safety", CheckSafetyReply)


class SafetyPassages:
    """The passages of labels on safety, by the drug that an answer is about.

    Args:
        labels: labels, each with its passages; they are read once.
        synonyms: names that no label has, each with its drug (`read_rxnorm`).
    """

    def __init__(
        self, labels: Iterable[tuple[Label, Sequence[Passage]]], synonyms: Iterable[tuple[str, Drug]] = ()
    ) -> None:
        self._passages: dict[str, list[Evidence]] = {}
        labels_of: dict[Drug, list[str]] = defaultdict(list)

        def products_and_texts() -> Iterable[tuple[Any, Iterable[str]]]:
            for label, passages in labels:
                shown = (passage for passage in passages if passage.core_code in SECTIONS)
                self._passages[label.set_id] = [
                    evidence_of_passage(passage, label.drug_name, lead) for passage, lead in with_list_leads(shown)
                ]
                for drug in {drug_of(*label.products), *map(drug_of, label.products)}:
                    labels_of[drug].append(label.set_id)
                yield label.products, (passage.text for passage in passages)

        self._names = DrugNames(products_and_texts(), synonyms)
        self._first_label = {drug: set_ids[0] for drug, set_ids in labels_of.items()}

    def find(self, answer: CheckedAnswer) -> list[Evidence]:
        """Return the passages that an answer is checked against, in the order of the labels.

        They are those of the label with the answer's `set_id`. If there is none, the first label is used of each drug
        that is named in the field `drug`, or if none is, in the question, or in the answer. An answer that failed,
        refused or names no drug of the labels has no passages.
        """
        if answer.outcome != "answered" or not answer.answer.strip():
            return []
        if answer.set_id in self._passages:
            return list(self._passages[answer.set_id])
        for text in (answer.drug, answer.question, answer.answer):
            drugs = dict.fromkeys(drug for mention in self._names.find(text) for drug in mention.drugs)
            set_ids = dict.fromkeys(self._first_label[drug] for drug in drugs if drug in self._first_label)
            if set_ids:
                return [passage for set_id in list(set_ids)[:MAX_LABELS] for passage in self._passages[set_id]]
        return []


def safety_slots(answer: CheckedAnswer, passages: Sequence[Evidence]) -> dict[str, Any]:
    """Return the slots of the task that checks an answer; `read_safety` reads the response."""
    shown = [{"heading": passage.heading, "text": passage.text} for passage in passages]
    return {"question": answer.question, "answer": answer.answer, "passages": shown}


def read_safety(
    answer: CheckedAnswer, passages: Sequence[Evidence], response: Response
) -> tuple[list[SafetyFlag], int]:
    """Return the flags of a response in the order of the answer, and the number of dropped statements.

    A statement is dropped if its `answer_quote` is not in the answer, or its `label_quote` in no passage. White space
    and the shapes of quotation marks, apostrophes and dashes are ignored. Raises Unparsable as `Task.parse` does.
    """
    reply, flags = CHECK_SAFETY.parse(response), list[SafetyFlag]()
    for statement in reply.statements:
        in_answer = _find_quote(statement.answer_quote, answer.answer)
        searched = ((passage, _find_quote(statement.label_quote, passage.text)) for passage in passages)
        passage, in_label = next((found for found in searched if found[1]), (None, None))
        if in_answer and passage and in_label:
            title = passage.section.rpartition(" > ")[2]
            source = passage.drug, title, in_label[0], passage.set_id, passage.place
            flags.append(SafetyFlag(answer.id, statement.kind, *in_answer.span(), in_answer[0], *source))
    dropped = len(reply.statements) - len(flags)
    if reply.dose_missing:
        flags.append(SafetyFlag(answer.id, "dose_missing", 0, 0, "", passages[0].drug, "dose", "", passages[0].set_id))
    return sorted(flags, key=lambda flag: (flag.start, flag.end, flag.kind)), dropped


def _find_quote(quote: str, text: str) -> re.Match[str] | None:
    bare = quote.strip(" .…")
    return quote_pattern(bare).search(text) if bare else None


def safety_counts(score: FactualityScore) -> Counter[str]:
    """Return the numbers of flags and dropped statements of an answer; "flagged" and "unchecked" are 0 or 1."""
    unchecked = any(reason.startswith("flags: ") for reason in score.unscored)
    return Counter(flagged=score.flags > 0, flags=score.flags, dropped=score.dropped_flags, unchecked=unchecked)


def safety_sentence(counts: Mapping[str, int], *, by_model: bool) -> str:
    """Return in words what the check of answers found. `by_model` says whether a language model made it."""
    if not by_model:
        return "Not checked: no judge model. Name a language model with --entailment."
    return (
        f"Flags: {counts['flags']:,}; dropped, because a quotation of them is not verbatim: {counts['dropped']:,}. "
        f"Answers that are not checked, because the judge's reply is not usable: {counts['unchecked']:,}."
    )
