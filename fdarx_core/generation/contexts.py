"""What to ask about: pieces of one label chosen to make questions from. Source: FDARxBench §B.3 (context selection)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from fdarx_core.generation.pairs import choose_pairs
from fdarx_core.generation.refusal import refusal_questions
from fdarx_core.generation.tasks import GENERATE_FACTUAL, GENERATE_MULTIHOP, REPHRASE_REFUSAL
from fdarx_core.labels.topics import topic_of
from fdarx_core.records import Label, Passage, content_id

_FEWEST_WORDS = 20


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much to ask of each label: passages and pairs an asked passage, section pairs, refusal questions."""

    passages: int = 16
    pairs_per_passage: int = 3
    section_pairs: int = 12
    refusals: int = 6
    seed: int = 0


@dataclass(slots=True)
class Context:
    """One piece to ask about: the task that asks, its slots, the passages it rests on.

    `category`, `entity` and `template` are known beforehand for refusal questions only.
    """

    id: str
    task: str
    slots: dict[str, Any]
    passages: list[int] = field(default_factory=list)
    category: str = ""
    entity: str = ""
    template: str = ""


def contexts(label: Label, passages: Sequence[Passage], amounts: Amounts) -> list[Context]:
    """The contexts of one label for all tasks, the same for a label whatever else is in the run."""
    return [
        *_factual(label, passages, amounts),
        *_multihop(label, passages, amounts),
        *_refusal(label, passages, amounts),
    ]


def _factual(label: Label, passages: Sequence[Passage], amounts: Amounts) -> Iterator[Context]:
    """Passages of all sections in turn, so that long sections don't crowd out short ones."""
    by_section: dict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        if topic_of(passage.core_code) and passage.text.count(" ") >= _FEWEST_WORDS - 1:
            by_section[passage.core_code].append(passage)
    for listed in by_section.values():
        listed.sort(key=lambda p: content_id(str(amounts.seed), p.set_id, str(p.doc_chunk_index)))
    turns = (p for turn in zip_longest(*by_section.values()) for p in turn if p is not None)
    for passage, _ in zip(turns, range(amounts.passages), strict=False):
        slots = {
            "drug": label.drug_name,
            "section_title": passage.section_title,
            "section_path": passage.section_path,
            "section_code": passage.core_code,
            "context": passage.text,
            "k": amounts.pairs_per_passage,
        }
        yield _context(label, GENERATE_FACTUAL.name, slots, [passage])


def _multihop(label: Label, passages: Sequence[Passage], amounts: Amounts) -> Iterator[Context]:
    if not passages:
        return
    for a, b in choose_pairs(passages, amounts.seed, amounts.section_pairs):
        slots = {
            "drug": label.drug_name,
            "section_title_a": a.section_title,
            "section_code_a": a.core_code,
            "context_a": a.text,
            "section_title_b": b.section_title,
            "section_code_b": b.core_code,
            "context_b": b.text,
        }
        yield _context(label, GENERATE_MULTIHOP.name, slots, [a, b])


def _refusal(label: Label, passages: Sequence[Passage], amounts: Amounts) -> Iterator[Context]:
    text = label_text(label, passages)
    for draft in refusal_questions(text, label.drug_name, label.set_id, amounts.seed, amounts.refusals):
        slots = {"drug": label.drug_name, "entity": draft.entity, "question": draft.question}
        context = _context(label, REPHRASE_REFUSAL.name, slots, [])
        context.category, context.entity, context.template = draft.category, draft.entity, draft.template
        yield context


def label_text(label: Label, passages: Sequence[Passage]) -> str:
    """All that the label says: titles, body and tables, Highlights."""
    titles = (section.title for section in label.sections)
    highlights = (highlight.text for highlight in label.highlights)
    return "\n".join((label.title, *label.aliases, *titles, *highlights, *(passage.text for passage in passages)))


def _context(label: Label, task: str, slots: dict[str, Any], passages: list[Passage]) -> Context:
    indices = [passage.doc_chunk_index for passage in passages]
    what = slots["question"] if not indices else ",".join(map(str, indices))
    return Context(content_id(label.set_id, task, what), task, slots, indices)
