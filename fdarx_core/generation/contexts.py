"""Contexts: the pieces of a label that questions are made from. Source: FDARxBench §B.2, §B.3 (context selection)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any

from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.generation.label_reader import TopicAnswer
from fdarx_core.generation.library import SectionPair, role_of, section_pairs
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.tasks import GENERATE_FACTUAL, GENERATE_MULTIHOP
from fdarx_core.generation.topic_questions import product_name, topic_question
from fdarx_core.generation.topic_sections import category_of
from fdarx_core.generation.topics import LabelTopics, find_topics
from fdarx_core.labels.loinc import topic_of
from fdarx_core.records import Label, Passage, content_id

_MIN_WORDS = 20
_CELL = " | "


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """Amounts per label: passages that a model writes on and the questions on each, section pairs, and refusals.

    `twins` is the largest number of pairs of an answerable question and one that the label does not answer, whose
    topics the structure of the labels gives; `topic_labels` is the largest number of labels of one drug that are asked
    about the same topic. `transfers` is the largest number of questions that a model wrote on other labels and that
    are asked of a label which is silent on them.
    """

    passages: int = 16
    pairs_per_passage: int = 3
    section_pairs: int = 12
    twins: int = 20
    topic_labels: int = 60
    seed: int = 0
    transfers: int = 12


@dataclass(slots=True)
class Context:
    """A task with its slots, and the indices of the passages that the slots hold.

    `template` is the wording of the questions that the structure of the label gives, before
    names are put in; "" for what a model writes. `category` and `twin_category` are the label topics of the questions,
    "" for that of the first passage. `near_miss` says that the label names what the twin asks about.
    """

    id: str
    task: str
    slots: dict[str, Any]
    passages: list[int] = field(default_factory=list)
    template: str = ""
    category: str = ""
    twin_category: str = ""
    near_miss: bool = False


def make_contexts(
    label: Label,
    passages: Sequence[Passage],
    config: GenerationConfig,
    pairs: Sequence[TopicPair],
    *,
    by_model: bool = False,
) -> list[Context]:
    """Return the contexts of a label for all tasks.

    Args:
        label: the label.
        passages: its passages, in document order.
        config: the amounts.
        pairs: the topics to ask of this label, see `pair_topics`.
        by_model: whether a model writes the questions: then passages of all sections follow those of the topics.
    """
    topics = {topic for pair in pairs for topic in (pair.answered, pair.silent) if topic is not None}
    found = find_topics(label, passages, topics) if pairs else LabelTopics()
    contexts = [
        _topic_context(label, passages, pair, found)
        for pair in pairs
        if pair.answered in found.answers and (pair.silent is None or pair.silent in (*found.silent, *found.near))
    ]
    if by_model:
        contexts += _factual_contexts(label, passages, config)
        contexts += _multihop_contexts(label, passages, config)
    asked = {passages[index].section_path for one in contexts for index in one.passages}
    outline = _outline(label, asked)
    for one in contexts:
        one.slots["outline"] = outline
    return contexts


def _slots(label: Label, passages: Sequence[Passage], absent: str = "") -> dict[str, Any]:
    """Return the slots with these passages; `absent` is what a twin should ask about, "" for no twin."""
    return {
        "drug": product_name(label),
        "ingredients": ", ".join(dict.fromkeys(label.substances)),
        "forms": ", ".join([*dict.fromkeys(label.dosage_forms), *dict.fromkeys(label.routes)]).lower(),
        "outline": "",
        "passages": [{"section": one.section_path, "text": one.text} for one in passages],
        "about": "",
        "absent": [absent] if absent else [],
        "written": [],
    }


def _outline(label: Label, asked: set[str]) -> str:
    paths = dict.fromkeys(section.path for section in label.sections if section.path)
    return "\n".join(f"{path} (asked)" if path in asked else path for path in paths)


def _topic_context(label: Label, passages: Sequence[Passage], pair: TopicPair, found: LabelTopics) -> Context:
    """Return the context of a pair of topics, with the questions that the structure of the label gives."""
    answer = found.answers[pair.answered]
    drug, gold = product_name(label), [passages[index] for index in answer.passages]
    difficulty = _difficulty(answer)
    item: dict[str, Any] = {
        "question": topic_question(pair.answered, drug, pair.wording),
        "answer": answer.text,
        "evidence": [quote for one in answer.statements for quote in one.quotes],
        "type": "numeric" if pair.answered.kind in ("quantity", "reaction") else _answer_kind(answer),
        "difficulty": difficulty,
        "twin": None,
    }
    if pair.silent is not None:
        item["twin"] = {"question": topic_question(pair.silent, drug, pair.wording), "changed": pair.silent.name}
    # A model that is told what the label lacks would believe that the label does not name the term of a near miss.
    absent = "" if pair.silent is None or pair.near else pair.silent.name
    slots = _slots(label, gold, absent) | {"k": 1, "difficulty": difficulty}
    slots |= {"about": pair.answered.name, "written": [item]}
    made = _context(label, GENERATE_FACTUAL.name, slots, gold, f"{pair.answered.kind}:{pair.answered.name}")
    made.template, made.category, made.near_miss = pair.wording, category_of(pair.answered), pair.near
    if pair.silent is not None:
        made.twin_category = category_of(pair.silent)
    return made


def _answer_kind(answer: TopicAnswer) -> str:
    return "list" if any(one.items for one in answer.statements) else "factual"


def _difficulty(answer: TopicAnswer) -> str:
    if any(one.is_row for one in answer.statements):
        return "table"
    return "direct" if len(answer.statements) == 1 else "several"


def _factual_contexts(label: Label, passages: Sequence[Passage], config: GenerationConfig) -> Iterator[Context]:
    """Yield passages for a model: as many of each section as its share of the label's words, in an order by a hash."""
    asked = [one for one in passages if topic_of(one.core_code) and one.text.count(" ") >= _MIN_WORDS - 1]
    groups = _shuffled_groups(((one.core_code, one) for one in asked), config.seed)
    for code, count in _shares({code: _words(group) for code, group in groups.items()}, config.passages).items():
        for passage in groups[code][:count]:
            slots = _slots(label, [passage]) | {"k": config.pairs_per_passage, "difficulty": _asked_difficulty(passage)}
            yield _context(label, GENERATE_FACTUAL.name, slots, [passage])


def _words(passages: Iterable[Passage]) -> int:
    return sum(one.text.count(" ") + 1 for one in passages)


def _shares(weights: Mapping[str, int], count: int) -> dict[str, int]:
    """Return how many of `count` things fall to each key by its weight; the largest remainders get what is left."""
    total = sum(weights.values()) or 1
    shares = {key: count * weight // total for key, weight in weights.items()}
    remainders = sorted(weights, key=lambda key: (-(count * weights[key] % total), key))
    for key in remainders[: count - sum(shares.values())]:
        shares[key] += 1
    return shares


def _asked_difficulty(passage: Passage) -> str:
    if _CELL in passage.text:
        return "table"
    return ("direct", "several")[int(content_id(passage.set_id, str(passage.doc_chunk_index)), 16) % 2]


def _multihop_contexts(label: Label, passages: Sequence[Passage], config: GenerationConfig) -> Iterator[Context]:
    for pair, a, b in choose_passage_pairs(passages, config.seed, config.section_pairs):
        slots = _slots(label, [a, b]) | {"reason": pair.why, "link": pair.links}
        yield _context(label, GENERATE_MULTIHOP.name, slots, [a, b])


def label_text(label: Label, passages: Sequence[Passage]) -> str:
    """Return the whole text of a label: titles, body and tables, Highlights."""
    titles = (section.title for section in label.sections)
    highlights = (highlight.text for highlight in label.highlights)
    return "\n".join((label.title, *label.aliases, *titles, *highlights, *(passage.text for passage in passages)))


def _context(label: Label, task: str, slots: dict[str, Any], passages: Sequence[Passage], topic: str = "") -> Context:
    indices = [passage.doc_chunk_index for passage in passages]
    return Context(content_id(label.set_id, task, ",".join(map(str, indices)), topic), task, slots, indices)


def choose_passage_pairs(
    passages: Sequence[Passage], seed: int, count: int
) -> list[tuple[SectionPair, Passage, Passage]]:
    """Return at most `count` pairs of a label's passages for multi-hop questions, with the pair of their sections.

    The section pairs of the library take turns. The order is by hashes of seed, set id and indices.
    """
    by_role = _shuffled_groups(((role, one) for one in passages if (role := role_of(one.core_code))), seed)
    pairs = [pair for pair in section_pairs() if by_role.keys() >= {pair.a, pair.b}]
    pairs.sort(key=lambda pair: content_id(str(seed), passages[0].set_id, pair.a, pair.b))
    groups = [
        [(pair, a, b) for a, b in zip(by_role[pair.a], by_role[pair.b], strict=False)] for pair in pairs
    ]  # fmt: skip
    return list(islice(_in_turn(groups), count))


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


def expected_items(context: Context) -> list[dict[str, Any]]:
    """Return items in place of those that a model will write on a context, for a plan.

    They are as many as it is asked for; the first has a twin where there is something that the label is silent on.
    """
    drug, passages, absent = (context.slots[name] for name in ("drug", "passages", "absent"))
    where = ", ".join(map(str, context.passages))
    question = f"What does the label of {drug} say about {absent[0]}, beside passage {where}?" if absent else ""
    twin = {"question": question, "changed": absent[0]} if absent else None
    sentences = [(split_sentences(one["text"], "label") or [one["text"]])[0] for one in passages]
    if context.task == GENERATE_MULTIHOP.name:
        item = {"evidence_a": sentences[:1], "evidence_b": sentences[1:], "answer": " ".join(sentences), "twin": twin}
        return [{**item, "question": f"What follows for {drug} from passages {where}?", "kind": "comparison"}]
    return [
        {
            "evidence": sentences,
            "question": f"What is statement {number} of passage {where} on {drug}?",
            "answer": sentences[0],
            "type": "factual",
            "difficulty": context.slots["difficulty"],
            "twin": None if number else twin,
        }
        for number in range(context.slots["k"])
    ]
