"""Safety flags: what in an answer a language model finds contradicted by the label of its drug. Source: FAS §3.2, §4.

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
MOST_LABELS = 3
"""The most labels that an answer is checked against, one for each drug that it is about."""


class ContradictedStatement(Reply):
    """A statement of the answer and the words of a label that contradict it, both letter for letter."""

    kind: Literal["contraindication", "interaction", "dose", "warning"]
    answer_quote: Quote
    label_quote: Quote


class CheckSafetyReply(Reply):
    """Empty and false for most answers."""

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

        They are of the answer's own label; else of the first label of its drug; else of those of the drugs that the
        question names, else the answer. An answer that failed, refused or is about no drug of the labels has none.
        """
        if answer.outcome != "answered" or not answer.answer.strip():
            return []
        if answer.set_id in self._passages:
            return list(self._passages[answer.set_id])
        for text in (answer.drug, answer.question, answer.answer):
            drugs = dict.fromkeys(drug for mention in self._names.find(text) for drug in mention.drugs)
            set_ids = dict.fromkeys(self._first_label[drug] for drug in drugs if drug in self._first_label)
            if set_ids:
                return [passage for set_id in list(set_ids)[:MOST_LABELS] for passage in self._passages[set_id]]
        return []


def safety_slots(answer: CheckedAnswer, passages: Sequence[Evidence]) -> dict[str, Any]:
    """Return the slots of the request that checks an answer; `read_safety` reads the response."""
    shown = [{"heading": passage.heading, "text": passage.text} for passage in passages]
    return {"question": answer.question, "answer": answer.answer, "passages": shown}


def read_safety(
    answer: CheckedAnswer, passages: Sequence[Evidence], response: Response
) -> tuple[list[SafetyFlag], int]:
    """Return the flags of a response in the order of the answer, and how many statements are dropped.

    A statement is dropped if a quotation of it is not in the answer, or in no passage. White space and the shapes of
    quotation marks, apostrophes and dashes are ignored. Raises Unparsable as `Task.parse` does.
    """
    reply, flags, dropped = CHECK_SAFETY.parse(response), list[SafetyFlag](), 0
    for statement in reply.statements:
        words = _place(statement.answer_quote, answer.answer)
        in_labels = ((passage, _place(statement.label_quote, passage.text)) for passage in passages)
        passage, because = next((found for found in in_labels if found[1]), (None, None))
        if words and passage and because:
            title = passage.section.rpartition(" > ")[2]
            source = passage.drug, title, because[0], passage.set_id, passage.place
            flags.append(SafetyFlag(answer.id, statement.kind, *words.span(), words[0], *source))
        else:
            dropped += 1
    if reply.dose_missing:
        flags.append(SafetyFlag(answer.id, "dose_missing", 0, 0, "", passages[0].drug, "dose", "", passages[0].set_id))
    return sorted(flags, key=lambda flag: (flag.start, flag.end, flag.kind)), dropped


def _place(quote: str, text: str) -> re.Match[str] | None:
    bare = quote.strip(" .…")
    return quote_pattern(bare).search(text) if bare else None


def safety_counts(score: FactualityScore) -> Counter[str]:
    """Return what the check of an answer found, 0 or 1 for "flagged" and "unchecked", the numbers of the others."""
    unchecked = any(why.startswith("flags: ") for why in score.unscored)
    return Counter(flagged=score.flags > 0, flags=score.flags, dropped=score.dropped_flags, unchecked=unchecked)


def safety_sentence(counts: Mapping[str, int], *, by_model: bool) -> str:
    """Return in words what was found in answers. `by_model` says whether a language model checks them."""
    if not by_model:
        return "Not checked: no judge model. Name a language model with --entailment."
    return (
        f"{counts['flags']:,} flags; {counts['dropped']:,} more are dropped, because a quotation of them is not "
        f"verbatim. {counts['unchecked']:,} answers are not checked, because the judge's reply is not usable."
    )
