"""Contexts: the pieces of a label that questions are made from. Source: FDARxBench §B.2, §B.3 (context selection)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest
from typing import Any

from fdarx_core.generation.library import role_of, section_pairs
from fdarx_core.generation.multihop import passage_facts, topics
from fdarx_core.generation.refusal import refusal_questions
from fdarx_core.generation.tasks import GENERATE_FACTUAL, GENERATE_MULTIHOP, REPHRASE_REFUSAL
from fdarx_core.labels.loinc import topic_of
from fdarx_core.records import Label, Passage, content_id

_MIN_WORDS = 20
_MAX_LINKED = 8
"""Linked pairs of passages that are kept for a pair of sections: few labels need more."""
_MAX_OF_KIND = 2
"""Linked pairs of a label that lead to the same kind of question."""

PassagePair = tuple[Passage, Passage]
_LinkedPair = tuple[tuple[str, str], PassagePair]


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """Amounts of requests per label: passages, question-answer pairs a passage, section pairs, refusal questions."""

    passages: int = 16
    pairs_per_passage: int = 3
    section_pairs: int = 12
    refusals: int = 6
    seed: int = 0


@dataclass(slots=True)
class Context:
    """A task with its slots, and the indices of the passages that the slots hold.

    `category`, `entity` and `template` are of refusal questions only.
    """

    id: str
    task: str
    slots: dict[str, Any]
    passages: list[int] = field(default_factory=list)
    category: str = ""
    entity: str = ""
    template: str = ""


def make_contexts(label: Label, passages: Sequence[Passage], config: GenerationConfig) -> list[Context]:
    """Return the contexts of a label for all tasks. They depend on this label and the seed alone."""
    return [
        *_factual_contexts(label, passages, config),
        *_multihop_contexts(label, passages, config),
        *_refusal_contexts(label, passages, config),
    ]


def _factual_contexts(label: Label, passages: Sequence[Passage], config: GenerationConfig) -> Iterator[Context]:
    """Yield passages of all sections in turn, so that long sections do not displace short ones."""
    asked = (one for one in passages if topic_of(one.core_code) and one.text.count(" ") >= _MIN_WORDS - 1)
    by_section = _shuffled_groups(((one.core_code, one) for one in asked), config.seed)
    for passage in islice(_in_turn(by_section.values()), config.passages):
        slots = {
            "drug": label.drug_name,
            "section_title": passage.section_title,
            "section_path": passage.section_path,
            "section_code": passage.core_code,
            "context": passage.text,
            "k": config.pairs_per_passage,
        }
        yield _context(label, GENERATE_FACTUAL.name, slots, [passage])


def _multihop_contexts(label: Label, passages: Sequence[Passage], config: GenerationConfig) -> Iterator[Context]:
    for a, b in choose_passage_pairs(passages, config.seed, config.section_pairs):
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


def _refusal_contexts(label: Label, passages: Sequence[Passage], config: GenerationConfig) -> Iterator[Context]:
    text = label_text(label, passages)
    drafts = refusal_questions(text, label.drug_name, label.set_id, config.seed, config.refusals)
    for question, entity, template in drafts:
        slots = {"drug": label.drug_name, "entity": entity, "question": question}
        context = _context(label, REPHRASE_REFUSAL.name, slots, [])
        yield replace(context, category=template.category, entity=entity, template=template.text)


def label_text(label: Label, passages: Sequence[Passage]) -> str:
    """Return the whole text of a label: titles, body and tables, Highlights."""
    titles = (section.title for section in label.sections)
    highlights = (highlight.text for highlight in label.highlights)
    return "\n".join((label.title, *label.aliases, *titles, *highlights, *(passage.text for passage in passages)))


def _context(label: Label, task: str, slots: dict[str, Any], passages: list[Passage]) -> Context:
    indices = [passage.doc_chunk_index for passage in passages]
    content = slots["question"] if not indices else ",".join(map(str, indices))
    return Context(content_id(label.set_id, task, content), task, slots, indices)


def choose_passage_pairs(passages: Sequence[Passage], seed: int, count: int) -> list[PassagePair]:
    """Return at most `count` pairs of a label's passages for multi-hop questions, by the library of section pairs.

    Section pairs take turns. Passages that the baseline can link come first, each topic once in a label; other pairs
    fill up, since a model may see a link that the rules miss. The order is by hashes of seed, set id and indices.
    """
    by_role = _shuffled_groups(((role, one) for one in passages if (role := role_of(one.core_code))), seed)
    pairs = [pair for pair in section_pairs() if by_role.keys() >= {*pair}]
    pairs.sort(key=lambda pair: content_id(str(seed), passages[0].set_id, *pair))
    facts = {p.doc_chunk_index: passage_facts(p.text, p.core_code) for group in by_role.values() for p in group}

    def linked(first: list[Passage], second: list[Passage]) -> Iterator[_LinkedPair]:
        seen: set[tuple[str, str]] = set()
        for a in first:
            for b in second:
                links = topics(facts[a.doc_chunk_index], facts[b.doc_chunk_index])
                if links and links[0] not in seen:
                    seen.add(links[0])
                    yield links[0], (a, b)

    groups = [(by_role[a], by_role[b]) for a, b in pairs]
    first = _new_topics([list(islice(linked(a, b), _MAX_LINKED)) for a, b in groups])
    others = _in_turn([list(zip(a, b, strict=False)) for a, b in groups])
    chosen: dict[tuple[int, int], PassagePair] = {}
    for a, b in chain(first, others):
        if len(chosen) >= count:
            break
        chosen.setdefault((a.doc_chunk_index, b.doc_chunk_index), (a, b))
    return list(chosen.values())


def _new_topics(queues: list[list[_LinkedPair]]) -> Iterator[PassagePair]:
    """Yield pairs of the queues in turn: the first of each topic, at most `_MAX_OF_KIND` of each kind of question."""
    seen: set[tuple[str, str]] = set()
    kinds: Counter[str] = Counter()
    waiting = [iter(queue) for queue in queues]
    while waiting:
        remaining = []
        for queue in waiting:
            new = ((topic, pair) for topic, pair in queue if topic not in seen and kinds[topic[0]] < _MAX_OF_KIND)
            for topic, pair in islice(new, 1):
                seen.add(topic)
                kinds[topic[0]] += 1
                remaining.append(queue)
                yield pair
        waiting = remaining


def _shuffled_groups(keyed: Iterable[tuple[str, Passage]], seed: int) -> dict[str, list[Passage]]:
    """Group passages by key, and order each group by a hash."""
    groups: dict[str, list[Passage]] = defaultdict(list)
    for key, passage in keyed:
        groups[key].append(passage)
    for group in groups.values():
        group.sort(key=lambda p: content_id(str(seed), p.set_id, str(p.doc_chunk_index)))
    return dict(groups)


def _in_turn(queues: Iterable[list[Any]]) -> Iterator[Any]:
    return (one for turn in zip_longest(*queues) for one in turn if one is not None)
