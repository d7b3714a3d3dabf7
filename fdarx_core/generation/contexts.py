"""Contexts: the pieces of a label that questions are made from. Source: FDARxBench §B.2, §B.3 (context selection)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.generation.label_reader import TopicAnswer
from fdarx_core.generation.library import role_of
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.passage_choice import choose_passage_pairs, choose_passages
from fdarx_core.generation.tasks import (
    GENERATE_FACTUAL,
    GENERATE_MULTIHOP,
    forms_and_routes,
    passage_slots,
    section_name,
)
from fdarx_core.generation.terminology import Topic, fold
from fdarx_core.generation.topic_questions import product_name, topic_question
from fdarx_core.generation.topic_sections import category_of
from fdarx_core.generation.topics import LabelTopics, find_topics
from fdarx_core.labels.loinc import PATIENT_SECTIONS
from fdarx_core.records import Label, Passage, content_id


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
    "" for that of the first passage.
    """

    id: str
    task: str
    slots: dict[str, Any]
    passages: list[int] = field(default_factory=list)
    template: str = ""
    category: str = ""
    twin_category: str = ""


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
        contexts += _factual_contexts(label, passages, config, found.silent)
        contexts += _multihop_contexts(label, passages, config)
    asked = Counter(path for one in contexts for path in _paths(one, passages))
    for one in contexts:
        own = _paths(one, passages)
        one.slots["outline"] = _outline(label, own, {path for path in asked if asked[path] > (path in own)})
    return contexts


def _paths(context: Context, passages: Sequence[Passage]) -> set[str]:
    return {section_name(passages[index]) for index in context.passages}


def _slots(label: Label, passages: Sequence[Passage], absent: Sequence[str] = ()) -> dict[str, Any]:
    """Return the slots with these passages; `absent` are things that a twin may ask about."""
    return {
        "drug": product_name(label),
        "ingredients": ", ".join(dict.fromkeys(label.substances)),
        "forms": forms_and_routes(label),
        "outline": "",
        "passages": passage_slots(passages),
        "about": "",
        "absent": list(absent),
        "twin": "absent" if absent else "near_miss",
        "written": [],
    }


def _outline(label: Label, own: Collection[str], asked: Collection[str]) -> str:
    """Return the titles of the sections; those of the passages and those that other questions are about are marked.

    What patients read repeats the others, and is left out.
    """
    listed = (one for one in label.sections if one.core_code not in PATIENT_SECTIONS)
    paths = dict.fromkeys(path for one in listed if (path := section_name(one)))
    return "\n".join(path + (" (here)" if path in own else " (asked)" if path in asked else "") for path in paths)


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
        item["twin"] = {
            "kind": "near_miss" if pair.near else "absent",
            "entity": pair.silent.name,
            "attribute": pair.silent.kind if pair.near else "",
            "question": topic_question(pair.silent, drug, pair.wording),
        }
    # A model that is told what the label lacks would believe that the label does not name the term of a near miss.
    suits = pair.silent is not None and not pair.near and _fits(label, pair.silent, pair.answered)
    absent = [pair.silent.name] if pair.silent is not None and suits else []
    slots = _slots(label, gold, absent) | {"k": 1, "prefer": ""}
    slots |= {"about": pair.answered.name, "written": [item]}
    made = _context(label, GENERATE_FACTUAL.name, slots, gold, f"{pair.answered.kind}:{pair.answered.name}")
    made.template, made.category = pair.wording, category_of(pair.answered)
    if pair.silent is not None:
        made.twin_category = category_of(pair.silent)
    return made


def _answer_kind(answer: TopicAnswer) -> str:
    return "list" if any(one.items for one in answer.statements) else "factual"


def _difficulty(answer: TopicAnswer) -> str:
    if any(one.is_row for one in answer.statements):
        return "table"
    return "direct" if len(answer.statements) == 1 else "several"


def _factual_contexts(
    label: Label, passages: Sequence[Passage], config: GenerationConfig, silent: Sequence[Topic]
) -> Iterator[Context]:
    """Yield passages for a model, by quotas over the sections of the label."""
    for passage, kind in choose_passages(passages, config.seed, config.passages):
        absent = _absent_names(label, silent, role_of(passage.core_code))
        slots = _slots(label, [passage], absent) | {"k": config.pairs_per_passage, "prefer": kind}
        if int(content_id(str(config.seed), label.set_id, str(passage.doc_chunk_index)), 16) % 2:
            slots["twin"] = "near_miss"
        yield _context(label, GENERATE_FACTUAL.name, slots, [passage])


_ASKED_IN: Mapping[str, frozenset[str]] = {
    "partner": frozenset(("interactions",)),
    "risk": frozenset(("boxed_warning", "contraindications", "warnings", "precautions")),
    "reaction": frozenset(("adverse_reactions",)),
    "indication": frozenset(("indications", "dosage", "studies")),
    "population": frozenset(("populations", "pregnancy", "lactation", "pediatric", "geriatric")),
    "quantity": frozenset(("pharmacokinetics", "pharmacology")),
}
"""The roles of the sections that speak of things of each kind of topic."""
_CONSTANTS = frozenset(
    ("molecular weight", "molecular formula", "melting point", "partition coefficient", "pKa", "median lethal dose")
)
"""Quantities of the substance, of which sections on pharmacokinetics do not speak."""
_MOST_ABSENT = 5


def _absent_names(label: Label, silent: Sequence[Topic], role: str) -> list[str]:
    """Return things of the kind that a section speaks of, on which this label is silent and others are not."""
    fitting = (one for one in silent if role in _ASKED_IN.get(one.kind, ()) and not _is_own(label, one))
    names = dict.fromkeys(one.name for one in fitting if one.name not in _CONSTANTS)
    return list(islice(names, _MOST_ABSENT))


def _fits(label: Label, silent: Topic, answered: Topic) -> bool:
    """Return whether a thing can take the place of another in a question: it is of the same kind and not the drug."""
    alike = silent.kind == answered.kind and (silent.name in _CONSTANTS) == (answered.name in _CONSTANTS)
    return alike and not _is_own(label, silent)


def _is_own(label: Label, topic: Topic) -> bool:
    """Return whether a topic is a substance of the label itself, which labels of other drugs speak of as a partner."""
    return fold(topic.name) in fold(" | ".join((label.drug_name, *label.aliases, *label.substances)))


def _multihop_contexts(label: Label, passages: Sequence[Passage], config: GenerationConfig) -> Iterator[Context]:
    for pair, a, b in choose_passage_pairs(label, passages, config.seed, config.section_pairs):
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


def expected_items(context: Context) -> list[dict[str, Any]]:
    """Return items in place of those that a model will write on a context, for a plan.

    They are as many as it is asked for; the first has a twin.
    """
    drug, passages, absent = (context.slots[name] for name in ("drug", "passages", "absent"))
    where = ", ".join(map(str, context.passages))
    entity = absent[0] if absent else drug
    question = f"What does the label of {drug} say about {entity}, beside passage {where}?"
    attribute = "" if absent else f"what is beside passage {where}"
    twin = {"kind": context.slots["twin"], "entity": entity, "attribute": attribute, "question": question}
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
            "difficulty": "direct",
            "twin": None if number else twin,
        }
        for number in range(context.slots["k"])
    ]
