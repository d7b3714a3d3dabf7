"""The judges of stage 2: the task and slots of each by question type, their criteria, and the decisions of their votes.

Source: FDARxBench §B.4; §3.2 for other criteria than the project's own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fdarx_core.filters import tasks
from fdarx_core.filters.quotations import is_quoted
from fdarx_core.filters.tasks import Decision
from fdarx_core.generation.tasks import forms_and_routes, passage_slots
from fdarx_core.generation.writing import WrittenType, writing_tasks
from fdarx_core.labels.loinc import INDICATIONS_SECTION
from fdarx_core.llm import Criteria, PromptError, Task, Unparsable
from fdarx_core.plugins import PluginError, load_plugins
from fdarx_core.records import JudgeVerdict, Label, Passage, QuestionAnswer, Response
from fdarx_core.records.question_types import QUESTION_TYPES
from fdarx_core.storage import Location, StorageError


def relevance_slots(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the slots of judge_relevance; they have no answer, because it is not judged.

    A refusal question, which was written from no section, comes with the drug's forms and uses.
    """
    gold = {(passages[index].section_path, passages[index].core_code): None for index in question.gold_passages}
    return {
        "drug": label.drug_name,
        "question": question.question,
        "sections": [path for path, _ in gold],
        "section_codes": [code for _, code in gold],
        "forms": "" if question.answerable else forms_and_routes(label),
        "passages": [] if question.answerable else _indications(passages),
    }


def factual_slots(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the slots of judge_support_factual and judge_quality_factual."""
    return {
        "drug": label.drug_name,
        "question": question.question,
        "answer": question.answer,
        "passages": passage_slots([passages[index] for index in question.gold_passages]),
    }


def multihop_slots(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the slots of judge_support_multihop and judge_quality_multihop."""
    slots = factual_slots(question, label, passages)
    names = {"section": "section", "table": "table", "context": "text"}
    for letter, shown in zip("ab", slots.pop("passages"), strict=True):
        slots |= {f"{name}_{letter}": shown[slot] for name, slot in names.items()}
    return slots


def refusal_slots(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the slots of judge_support_refusal: all passages, because the verdict is on the whole label."""
    return {
        "drug": label.drug_name,
        "entity": question.entity,
        "attribute": question.attribute,
        "question": question.question,
        "passages": passage_slots(passages),
    }


def refusal_quality_slots(question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return the slots of judge_quality_refusal: what drug it is, and what it is for."""
    return {
        "drug": label.drug_name,
        "substances": label.substances,
        "dosage_forms": label.dosage_forms,
        "routes": label.routes,
        "entity": question.entity,
        "attribute": question.attribute,
        "question": question.question,
        "passages": _indications(passages),
    }


def _indications(passages: Sequence[Passage]) -> list[dict[str, str]]:
    return passage_slots([passage for passage in passages if passage.core_code == INDICATIONS_SECTION])


Slots = Callable[[QuestionAnswer, Label, Sequence[Passage]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Judging:
    """The judgement of one type of question: the task, the function that fills its slots, and the one that decides."""

    task: Task[Any]
    slots: Slots
    decide: Callable[[Any], Decision]


@dataclass(frozen=True, slots=True)
class Judge:
    """One stage of judgement, over the types of question in `by_type`; others pass it without a verdict."""

    stage: str
    by_type: Mapping[str, Judging]

    def task(self, question: QuestionAnswer) -> Task[Any] | None:
        """Return the task that is asked about the question; None for a type that this judge does not judge."""
        how = self.by_type.get(question.type)
        return how.task if how else None

    def slots(self, question: QuestionAnswer, label: Label, passages: Sequence[Passage]) -> dict[str, Any]:
        """Return the task's slots; `passages` are all of the label's, in document order.

        Raises KeyError for a type of question that is not judged.
        """
        return self.by_type[question.type].slots(question, label, passages)

    def read(self, question: QuestionAnswer, slots: Mapping[str, Any], response: Response) -> JudgeVerdict:
        """Return the verdict that follows from the response to these slots.

        It is unscored, with the reason, where the reply cannot be parsed (the reason of `Unparsable`), required
        evidence is missing (no_evidence), or a quotation is not in the text shown (evidence_not_in_passage).
        """
        how = self.by_type[question.type]
        verdict = JudgeVerdict(
            question_id=question.id,
            set_id=question.set_id,
            stage=self.stage,
            outcome="unscored",
            task=response.task,
            task_version=response.task_version,
            endpoint=response.endpoint,
            response_key=response.key,
        )
        try:
            decision = how.decide(how.task.parse(response))
        except Unparsable as error:
            verdict.reason, verdict.detail = error.reason, error.detail
            return verdict
        verdict.evidence = [text for _, text in decision.quotes if text]
        verdict.category, verdict.relevance = decision.category, decision.relevance
        if fault := _unfounded(decision.quotes, slots):
            verdict.reason, verdict.detail = fault
        else:
            verdict.outcome = "dropped" if decision.drop else "kept"
            verdict.reason, verdict.detail = decision.drop, decision.detail
        return verdict


def _unfounded(quotes: Sequence[tuple[str, str]], slots: Mapping[str, Any]) -> tuple[str, str] | None:
    for slot, quote in quotes:
        if not quote:
            return "no_evidence", f"nothing is quoted from {slot}"
        shown = slots[slot]
        if isinstance(shown, str):
            parts = [slots[slot.replace("context", "table")], shown]
        else:
            parts = [f"{passage['table']}\n{passage['text']}" for passage in shown]
        if not is_quoted(quote, "\n".join(parts)):
            return "evidence_not_in_passage", f"not in {slot}: {quote!r}"
    return None


def majority(votes: Sequence[JudgeVerdict]) -> JudgeVerdict:
    """Return the verdict that follows from the votes on one question at one stage, which are one at least.

    Unscored votes do not count; where fewer than half of the votes are scored, the verdict is unscored. A tie drops the
    question, because a benchmark loses more by a bad question than by a missing one. Reason, detail, evidence, category
    and relevance are those of the first vote with the most frequent reason and category on the winning side; `endpoint`
    names all judges. A single vote is its own verdict.
    """
    sides = {side: [vote for vote in votes if vote.outcome == side] for side in ("kept", "dropped", "unscored")}
    if 2 * len(sides["unscored"]) > len(votes):
        winners = sides["unscored"]
    else:
        winners = max(sides["dropped"], sides["kept"], key=len)
    reasons, categories = Counter(vote.reason for vote in winners), Counter(vote.category for vote in winners)
    first = max(winners, key=lambda vote: (reasons[vote.reason], categories[vote.category]))
    return replace(first, endpoint=", ".join(dict.fromkeys(vote.endpoint for vote in votes)))


def majorities(votes: Iterable[JudgeVerdict]) -> dict[tuple[str, str], JudgeVerdict]:
    """Return the verdict of the majority by (question id, stage), in the order in which these first appear."""
    return {key: majority(group) for key, group in group_votes(votes).items()}


def group_votes(votes: Iterable[JudgeVerdict]) -> dict[tuple[str, str], list[JudgeVerdict]]:
    """Return the votes by (question id, stage), in the order in which these first appear."""
    groups: dict[tuple[str, str], list[JudgeVerdict]] = defaultdict(list)
    for vote in votes:
        groups[vote.question_id, vote.stage].append(vote)
    return groups


JUDGING: dict[str, dict[str, Judging]] = {
    "factual": {
        "relevance": Judging(tasks.JUDGE_RELEVANCE, relevance_slots, tasks.decide_relevance),
        "support": Judging(tasks.JUDGE_SUPPORT_FACTUAL, factual_slots, tasks.decide_factual_support),
        "quality": Judging(tasks.JUDGE_QUALITY_FACTUAL, factual_slots, tasks.decide_quality),
    },
    "multihop": {
        "relevance": Judging(tasks.JUDGE_RELEVANCE, relevance_slots, tasks.decide_relevance),
        "support": Judging(tasks.JUDGE_SUPPORT_MULTIHOP, multihop_slots, tasks.decide_multihop_support),
        "quality": Judging(tasks.JUDGE_QUALITY_MULTIHOP, multihop_slots, tasks.decide_quality),
    },
    "refusal": {
        "relevance": Judging(tasks.JUDGE_RELEVANCE, relevance_slots, tasks.decide_relevance),
        "support": Judging(tasks.JUDGE_SUPPORT_REFUSAL, refusal_slots, tasks.decide_refusal_support),
        "quality": Judging(tasks.JUDGE_QUALITY_REFUSAL, refusal_quality_slots, tasks.decide_quality),
    },
}
"""How the questions of each built-in type are judged, by type and stage, in the order of the stages."""


@dataclass(frozen=True, kw_only=True)
class JudgedType(WrittenType):
    """A type of questions with how a model writes them and how they are judged, by stage.

    A package adds a type by an entry point of the group fdarx.question_types that names a `JudgedType`. Its stages are
    built-in ones (relevance, support, quality) or its own, which follow these. At a stage without an entry its
    questions pass without a verdict.
    """

    judging: Mapping[str, Judging]


ENTRY_POINTS = "fdarx.judges"
"""The entry point group by which other packages add judges; each entry point names a `Judge`."""


@cache
def judges() -> tuple[Judge, ...]:
    """Return the judges in the order in which questions pass them.

    Those of other packages (entry point group fdarx.judges) come last; they are imported by the first call, which
    raises PluginError for one that cannot be used. Source: FDARxBench, figure of retention; §B.4, stage 2.
    """
    added = {kind.name: kind.judging for kind in QUESTION_TYPES.values() if isinstance(kind, JudgedType)}
    stages: dict[str, dict[str, Judging]] = {}
    for kind, judging in {**JUDGING, **added}.items():
        for stage, how in judging.items():
            stages.setdefault(stage, {})[kind] = how
    found = {stage: Judge(stage, by_type) for stage, by_type in stages.items()}
    for name, judge in load_plugins(ENTRY_POINTS, "Judge", Judge).items():
        if judge.stage in found:
            raise PluginError(
                f"entry point {name!r} of {ENTRY_POINTS}: a judge {judge.stage!r} exists; rename its stage"
            )
        found[judge.stage] = judge
    return tuple(found.values())


@cache
def judge_tasks() -> dict[str, Task[Any]]:
    """Return the tasks of all judges by name."""
    return {how.task.name: how.task for judge in judges() for how in judge.by_type.values()}


@cache
def guided_tasks() -> frozenset[str]:
    """Return the names of the judges' tasks whose prompts include criteria; no rule can apply to the others."""
    return frozenset(name for name, task in judge_tasks().items() if task.prompt.has_criteria)


KEPT_AS = "criteria.yaml"
"""The file in which a run keeps the criteria that it was given."""


@cache
def criteria_readers() -> frozenset[str]:
    """Return the names of all tasks whose prompts include criteria: judges and generators."""
    return guided_tasks() | {name for name, task in writing_tasks().items() if task.prompt.has_criteria}


def judges_by(criteria: Criteria, file: str) -> tuple[Judge, ...]:
    """Return the judges with prompts that include these criteria; `file` is the name that errors give them.

    Raises PromptError for a rule that no judge would read, and for a judge that would be left without any.
    """
    guided = guided_tasks()
    named = {name for rule in criteria.rules for name in rule.applies_to}
    if unread := sorted(named - criteria_readers()):
        readers = sorted(criteria_readers())
        raise PromptError(f"{file}: rules apply to {unread}, which read none; those that do are {readers}")
    if bare := sorted(guided - named):
        raise PromptError(f"{file}: no rule applies to {bare}; each of these tasks needs one, or more")
    return tuple(
        replace(
            judge,
            by_type={
                kind: replace(how, task=how.task.with_criteria(criteria)) if how.task.name in guided else how
                for kind, how in judge.by_type.items()
            },
        )
        for judge in judges()
    )


def read_criteria(file: str) -> Criteria:
    """Return a user's criteria, each of which some judge reads.

    Raises PromptError, which says what is wrong with the file.
    """
    try:
        criteria = Criteria.from_yaml(Location(file).read_text(), file)
    except StorageError as error:
        raise PromptError(str(error)) from error
    judges_by(criteria, file)
    return criteria
