"""Contexts: the pieces of a label that questions are made from. Source: FDARxBench §B.2, §B.3 (context selection)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from fdarx_core.generation.label_reader import TopicAnswer
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.tasks import GENERATE_FACTUAL, Twin, forms_and_routes, passage_slots, section_name
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topic_questions import product_name
from fdarx_core.generation.topic_sections import category_of
from fdarx_core.generation.topics import LabelTopics, find_topics
from fdarx_core.generation.writing import SUBSTANCE_CONSTANTS, names_own_substance, writing_tasks, written_types
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
    "" for that of the first passage. `refusal` is a question of the template writer on a topic that the label is silent
    on, where no answered question of the label has the same wording; None for none.
    """

    id: str
    task: str
    slots: dict[str, Any]
    passages: list[int] = field(default_factory=list)
    template: str = ""
    category: str = ""
    twin_category: str = ""
    refusal: Twin | None = None


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
    silent = {*found.silent, *found.near}
    contexts = [
        _topic_context(label, passages, found.answers[pair.answered], pair)
        for pair in pairs
        if pair.answered is not None
        and pair.answered in found.answers
        and (pair.silent is None or pair.silent in silent)
    ]
    for pair in () if by_model else pairs:
        if pair.answered is None and pair.silent is not None and pair.silent in silent:  # a topic asked about alone
            slots = _slots(label, []) | {"k": 0, "prefer": ""}
            made = _context(label, GENERATE_FACTUAL.name, slots, [], f"no {pair.silent}")
            made.template, made.twin_category = pair.wording, category_of(pair.silent)
            made.refusal = _twin(product_name(label), pair.silent, pair)
            contexts.append(made)
    for task, kind in written_types().items() if by_model else ():
        for chosen, slots in kind.writing.choose(label, passages, config, found.silent):
            contexts.append(_context(label, task, _slots(label, chosen) | slots, chosen))
    tasks = writing_tasks()
    asked = Counter(path for context in contexts for path in _paths(context, passages))
    for context in contexts:
        own = _paths(context, passages)
        context.slots["outline"] = _outline(label, own, {path for path in asked if asked[path] > (path in own)})
        declared = tasks[context.task].prompt.slots.keys() | tasks[context.task].prompt.baseline_slots.keys()
        context.slots = {name: value for name, value in context.slots.items() if name in declared}
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


def _topic_context(label: Label, passages: Sequence[Passage], answer: TopicAnswer, pair: TopicPair) -> Context:
    """Return the context of a pair of topics, with the questions that the structure of the label gives."""
    answered = answer.topic
    drug, gold = product_name(label), [passages[index] for index in answer.passages]
    listed, tabled = (any(map(attrgetter(name), answer.statements)) for name in ("items", "is_row"))
    difficulty = "table" if tabled else "direct" if len(answer.statements) == 1 else "several"
    item: dict[str, Any] = {
        "question": pair.wording.format(drug=drug, term=answered.name),
        "answer": answer.text,
        "evidence": [quote for one in answer.statements for quote in one.quotes],
        "type": "numeric" if answered.kind in ("quantity", "reaction") else "list" if listed else "factual",
        "difficulty": difficulty,
        "twin": None,
    }
    absent: list[str] = []
    if (silent := pair.silent) is not None:
        item["twin"] = _twin(drug, silent, pair).model_dump()
        # A thing takes the place of one of the same kind. A model that is told what the label lacks would believe that
        # the label does not name the term of a near miss.
        constant = [topic.name in SUBSTANCE_CONSTANTS for topic in (silent, answered)]
        suits = silent.kind == answered.kind and constant[0] == constant[1] and not pair.near
        absent = [silent.name] if suits and not names_own_substance(label, silent) else []
    slots = _slots(label, gold, absent) | {"k": 1, "prefer": ""}
    slots |= {"about": answered.name, "written": [item]}
    made = _context(label, GENERATE_FACTUAL.name, slots, gold, f"{answered.kind}:{answered.name}")
    made.template, made.category = pair.wording, category_of(answered)
    made.twin_category = category_of(silent) if silent is not None else ""
    return made


def _twin(drug: str, silent: Topic, pair: TopicPair) -> Twin:
    return Twin(
        kind="near_miss" if pair.near else "absent",
        entity=silent.name,
        attribute=silent.kind if pair.near else "",
        question=pair.wording.format(drug=drug, term=silent.name),
    )


def label_text(label: Label, passages: Sequence[Passage]) -> str:
    """Return the whole text of a label: titles, body and tables, Highlights."""
    titles = (section.title for section in label.sections)
    highlights = (highlight.text for highlight in label.highlights)
    return "\n".join((label.title, *label.aliases, *titles, *highlights, *(passage.text for passage in passages)))


def _context(label: Label, task: str, slots: dict[str, Any], passages: Sequence[Passage], topic: str = "") -> Context:
    indices = [passage.doc_chunk_index for passage in passages]
    return Context(content_id(label.set_id, task, ",".join(map(str, indices)), topic), task, slots, indices)
