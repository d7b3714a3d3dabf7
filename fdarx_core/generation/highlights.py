"""Factual questions from the Highlights: the statement is the answer, the full section its evidence.

Source: FDARxBench §B.2 (factual), §B.3 (context selection).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fdarx_core.generation.baseline.factual import factual_questions
from fdarx_core.generation.baseline.naming import running_title
from fdarx_core.generation.baseline.scene import MAX_ANSWER
from fdarx_core.generation.baseline.text import decapitalise, written_numbers
from fdarx_core.generation.evidence import find_evidence
from fdarx_core.generation.highlight_statements import Statement, statements
from fdarx_core.generation.highlight_templates import HeadingTemplates, highlight_templates
from fdarx_core.records import Label, Passage, content_id


@dataclass(slots=True)
class Highlighted:
    """A question on the Highlights. `template` is the wording it was made from, "" where a rule read the statement.

    `code` is the heading's LOINC code, `category` its label topic; `gold` are doc_chunk_index values, ascending, with,
    position by position, whether the answer stands there in `has_answer`.
    """

    question: str
    answer: str
    template: str
    code: str
    category: str
    gold: list[int]
    has_answer: list[bool]


def highlight_questions(label: Label, passages: Sequence[Passage]) -> list[Highlighted]:
    """One question a topic and one a heading, where the answer is at most 600 characters and the body supports it.

    A statement without a topic, under a heading too long to be asked whole, is asked as the rules read it. The choice
    of wording depends on the label's set id and the statement alone. No two questions of a label are equal.
    """
    found: dict[str, Highlighted] = {}
    by_code: dict[str, list[Statement]] = {}
    for one in statements(label):
        by_code.setdefault(one.code, []).append(one)
    for code, group in by_code.items():
        if templates := highlight_templates().get(code):
            for draft in _drafts(label, group, templates):
                if 10 <= len(draft.question) <= 200 and _supported(draft, group, label, passages):
                    found.setdefault(draft.question, draft)
    return list(found.values())


def _drafts(label: Label, group: list[Statement], templates: HeadingTemplates) -> Iterable[Highlighted]:
    whole = " ".join(one.text for one in group)
    asked_whole = 5 <= len(whole) <= MAX_ANSWER and (len(group) > 1 or not group[0].topic)
    if asked_whole:
        template = _pick(templates.whole, label.set_id, group[0].code, whole)
        yield _draft(template.format(drug=label.drug_name), whole, template, group[0], templates)
    for one in group:
        if one.topic:
            template = _pick(templates.topic, label.set_id, one.code, one.topic)
            topic = decapitalise(running_title(one.topic, label.drug_name), keep=label.drug_name)
            yield _draft(template.format(drug=label.drug_name, topic=topic), one.text, template, one, templates)
        elif not asked_whole:
            for question, answer, _ in factual_questions(_slots(label, one)):
                yield _draft(question, answer, "", one, templates)


def _pick(templates: Sequence[str], *content: str) -> str:
    return templates[int(content_id(*content), 16) % len(templates)]


def _draft(question: str, answer: str, template: str, one: Statement, templates: HeadingTemplates) -> Highlighted:
    return Highlighted(question, answer, template, one.code, templates.category, [], [])


def _slots(label: Label, one: Statement) -> dict[str, object]:
    return {
        "drug": label.drug_name,
        "section_title": "",
        "section_path": label.drug_name,
        "section_code": one.code,
        "context": one.text,
        "k": 1,
    }


def _supported(draft: Highlighted, group: list[Statement], label: Label, passages: Sequence[Passage]) -> bool:
    """Fills in the evidence; False where the body does not bear the answer out."""
    if not 5 <= len(draft.answer) <= MAX_ANSWER:
        return False
    references = [
        number for one in group if one.text in draft.answer or draft.answer in one.text for number in one.references
    ]
    evidence = find_evidence(draft.answer, draft.code, references, label, passages)
    draft.gold, draft.has_answer = [index for index, _ in evidence], [stands for _, stands in evidence]
    texts = " ".join(one.text for one in passages if one.doc_chunk_index in draft.gold)
    return bool(evidence) and written_numbers(draft.answer) <= written_numbers(texts)
