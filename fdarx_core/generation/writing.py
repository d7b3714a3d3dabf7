"""The types of questions that a model writes: the choice of passages, the task, and how its replies are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from fdarx_core.generation.library import role_of
from fdarx_core.generation.passage_choice import choose_passage_pairs, choose_passages
from fdarx_core.generation.tasks import GENERATE_FACTUAL, GENERATE_MULTIHOP, FactualItem, MultihopItem, Twin
from fdarx_core.generation.terminology import Topic, fold
from fdarx_core.generation.topic_sections import CHEMISTRY
from fdarx_core.llm import Criteria, PromptError, Task
from fdarx_core.records import Label, Passage, content_id, question_types
from fdarx_core.records.question_types import QUESTION_TYPES, QuestionType
from fdarx_core.text.sentences import split_sentences

if TYPE_CHECKING:
    from fdarx_core.generation.contexts import Context, GenerationConfig


@dataclass(frozen=True, slots=True)
class WrittenQuestion:
    """A question of a reply; `evidence` are its quotations, and the other fields are those of `QuestionAnswer`.

    `twin` is a question in its words that the label does not answer, None for none.
    """

    question: str
    answer: str
    evidence: Sequence[str]
    answer_kind: str
    difficulty: str
    twin: Twin | None = None


Chosen: TypeAlias = tuple[Sequence[Passage], dict[str, Any]]
"""Passages of a label to write on together, and the slots of the task that are not common to all tasks."""


def expected_items(context: Context) -> list[dict[str, Any]]:
    """Return items in place of those that a model will write on a context, for a plan: as many as it is asked for."""
    drug, where = context.slots["drug"], _numbers(context)
    sentences = _first_sentences(context)
    return [
        {
            "evidence": sentences,
            "question": f"What is statement {number} of passage {where} on {drug}?",
            "answer": sentences[0],
        }
        for number in range(context.slots.get("k", 1))
    ]


@dataclass(frozen=True)
class Writing:
    """How a model writes the questions of a type.

    Attributes:
        task: the task, see `writing_task`; its prompt declares the slots that it reads: drug, passages and, as an
            input of the built-in rules, written; of ingredients, forms, outline, about, absent and twin those that it
            shows; and those that `choose` gives. The items of its reply are in `items`.
        choose: returns what is written on, from a label, its passages in document order, the amounts of the build, and
            the topics that the label is silent on.
        read: returns the question of one item.
        expected: returns items in place of those that a model will write, for a plan; by default `WrittenItem`s.

    Raises PromptError for a prompt without these slots.
    """

    task: Task[Any]
    choose: Callable[[Label, Sequence[Passage], GenerationConfig, Sequence[Topic]], Iterable[Chosen]]
    read: Callable[[Any], WrittenQuestion]
    expected: Callable[[Context], list[dict[str, Any]]] = expected_items

    def __post_init__(self) -> None:
        prompt = self.task.prompt
        lacking = [name for name in ("drug", "passages") if name not in prompt.slots]
        lacking += ["written (of baseline_slots)"] * ("written" not in prompt.baseline_slots)
        if lacking:
            raise PromptError(f"the prompt {prompt.name} that writes questions declares no {', '.join(lacking)}")


@dataclass(frozen=True, kw_only=True)
class WrittenType(QuestionType):
    """A type of questions that a model writes by a task of its own; others come in the replies to these, as twins."""

    writing: Writing


def _factual_contexts(
    label: Label, passages: Sequence[Passage], amounts: GenerationConfig, silent: Sequence[Topic]
) -> Iterator[Chosen]:
    """Yield single passages, by quotas over the sections of the label."""
    for passage, kind in choose_passages(passages, amounts.seed, amounts.passages):
        absent = _absent_names(label, silent, role_of(passage.core_code))
        drawn = int(content_id(str(amounts.seed), label.set_id, str(passage.doc_chunk_index)), 16)
        twin = "absent" if absent and not drawn % 2 else "near_miss"
        yield [passage], {"absent": absent, "twin": twin, "k": amounts.pairs_per_passage, "prefer": kind}


def _multihop_contexts(
    label: Label, passages: Sequence[Passage], amounts: GenerationConfig, silent: Sequence[Topic]
) -> Iterator[Chosen]:
    for pair, a, b in choose_passage_pairs(label, passages, amounts.seed, amounts.section_pairs):
        yield [a, b], {"reason": pair.why, "link": pair.links}


def _read_factual(item: FactualItem) -> WrittenQuestion:
    return WrittenQuestion(item.question, item.answer, item.evidence, item.type, item.difficulty, item.twin)


def _read_multihop(item: MultihopItem) -> WrittenQuestion:
    evidence = [*item.evidence_a, *item.evidence_b]
    return WrittenQuestion(item.question, item.answer, evidence, "multihop", item.kind, item.twin)


def _expected_factual(context: Context) -> list[dict[str, Any]]:
    """Return items of which the first has a twin."""
    return [
        {**item, "type": "factual", "difficulty": "direct", "twin": None if number else _expected_twin(context)}
        for number, item in enumerate(expected_items(context))
    ]


def _expected_multihop(context: Context) -> list[dict[str, Any]]:
    sentences = _first_sentences(context)
    item = {"evidence_a": sentences[:1], "evidence_b": sentences[1:], "answer": " ".join(sentences)}
    question = f"What follows for {context.slots['drug']} from passages {_numbers(context)}?"
    return [{**item, "question": question, "kind": "comparison", "twin": _expected_twin(context)}]


def _expected_twin(context: Context) -> dict[str, str]:
    drug, absent, where = context.slots["drug"], context.slots["absent"], _numbers(context)
    entity = absent[0] if absent else drug
    question = f"What does the label of {drug} say about {entity}, beside passage {where}?"
    attribute = "" if absent else f"what is beside passage {where}"
    return {"kind": context.slots["twin"], "entity": entity, "attribute": attribute, "question": question}


def _numbers(context: Context) -> str:
    return ", ".join(map(str, context.passages))


def _first_sentences(context: Context) -> list[str]:
    return [(split_sentences(one["text"], "label") or [one["text"]])[0] for one in context.slots["passages"]]


FACTUAL = WrittenType(
    **vars(question_types.FACTUAL),
    writing=Writing(GENERATE_FACTUAL, _factual_contexts, _read_factual, _expected_factual),
)
MULTIHOP = WrittenType(
    **vars(question_types.MULTIHOP),
    writing=Writing(GENERATE_MULTIHOP, _multihop_contexts, _read_multihop, _expected_multihop),
)


@cache
def written_types() -> dict[str, WrittenType]:
    """Return the types that a model writes, by the name of their task, in the order in which their contexts come."""
    added = (kind for kind in QUESTION_TYPES.values() if isinstance(kind, WrittenType))
    return {kind.writing.task.name: kind for kind in (FACTUAL, MULTIHOP, *added)}


def writing_tasks(criteria: Criteria | None = None) -> dict[str, Task[Any]]:
    """Return the tasks that write questions, by name.

    With `criteria`, the prompts of those to which some apply include them; the others keep the project's own.
    """
    tasks = {name: kind.writing.task for name, kind in written_types().items()}
    if criteria is None:
        return tasks
    return {name: task.with_criteria(criteria) if criteria.for_task(name) else task for name, task in tasks.items()}


_ASKED_IN: Mapping[str, frozenset[str]] = {
    "partner": frozenset(("interactions",)),
    "risk": frozenset(("boxed_warning", "contraindications", "warnings", "precautions")),
    "reaction": frozenset(("adverse_reactions",)),
    "indication": frozenset(("indications", "dosage", "studies")),
    "population": frozenset(("populations", "pregnancy", "lactation", "pediatric", "geriatric")),
    "quantity": frozenset(("pharmacokinetics", "pharmacology")),
}
"""The roles of the sections that speak of things of each kind of topic."""
SUBSTANCE_CONSTANTS = CHEMISTRY | {"molecular formula"}
"""Quantities of the substance, of which sections on pharmacokinetics do not speak."""
_MOST_ABSENT = 5


def _absent_names(label: Label, silent: Sequence[Topic], role: str) -> list[str]:
    """Return things of the kind that a section speaks of, on which this label is silent and others are not."""
    fitting = (one for one in silent if role in _ASKED_IN.get(one.kind, ()) and not names_own_substance(label, one))
    names = dict.fromkeys(one.name for one in fitting if one.name not in SUBSTANCE_CONSTANTS)
    return list(islice(names, _MOST_ABSENT))


def names_own_substance(label: Label, topic: Topic) -> bool:
    """Return whether a topic is a substance of the label itself, which labels of other drugs speak of as a partner."""
    return fold(topic.name) in fold(" | ".join((label.drug_name, *label.aliases, *label.substances)))
