"""Labels with questions as a build makes them, of which some are spoilt, and the steps of a build over them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from benchmarks.defects import DEFECTS, Defect, Surroundings
from benchmarks.drug_search import is_test
from fdarx_core.baseline.tokens import with_full_stop
from fdarx_core.filters.quotations import is_quoted
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.generation.pairing import pair_topics
from fdarx_core.generation.topics import all_topics
from fdarx_core.labels import Identity, Selection, find_sources, identify_sources, select
from fdarx_core.labels.loinc import topic_of
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.asking import AskProgress, AskSession, ClientPool
from fdarx_core.pipeline.build_steps import baseline, build_steps, parse, survey_labels
from fdarx_core.pipeline.label_state import LabelState, TopicPlan
from fdarx_core.pipeline.local import resource_caller
from fdarx_core.pipeline.steps import Step, batches, run_steps
from fdarx_core.records import QuestionAnswer, Request, Response, content_id
from fdarx_core.storage import Location

Part = Literal["dev", "test", "all"]
WRITING_STEPS = 3
"""The steps of a build before the first one that drops questions: parse, contexts, generate."""
_STATES_AT_ONCE = 16


def read_part(paths: Sequence[str], part: Part, most: int | None, seed: int) -> list[Identity]:
    """Return the labels whose moieties are all in a part, in an order by a hash; `all` has every label."""
    _, found, _ = identify_sources(find_sources(list(paths)).sources)
    chosen, _ = select(found, Selection())
    within: list[Identity] = []
    for identity in sorted(chosen, key=lambda one: content_id(str(seed), one.set_id)):
        state = LabelState(identity)
        parse(state)
        moieties = [one for product in state.label.products for one in product.moieties] if state.label else []
        if moieties and (part == "all" or all(is_test(one) == (part == "test") for one in moieties)):
            within.append(identity)
    return within[:most]


@dataclass(slots=True)
class WrittenLabels:
    """Labels with the questions that the built-in rules write on them.

    `states` are those of the written labels, before any stage that drops questions; `answered` are the places in
    `all_topics` of what each label answers, by set id.
    """

    states: list[LabelState]
    answered: dict[str, list[int]]

    @classmethod
    def of(cls, labels: Sequence[Identity], amounts: GenerationConfig) -> WrittenLabels:
        """Survey the labels and write questions on them, as a build does."""
        surveys = survey_labels(labels)
        pairs = pair_topics(surveys, amounts.twins, amounts.topic_labels, amounts.seed)
        states = [LabelState(label, TopicPlan(pairs.get(label.set_id, ()))) for label in labels]
        run_steps(build_steps(amounts)[:WRITING_STEPS], states, baseline().answer)
        return cls([state for state in states if state.candidates], {one.set_id: one.answered for one in surveys})

    @classmethod
    def with_questions(cls, labels: Sequence[Identity], rows: Iterable[Mapping[str, Any]]) -> WrittenLabels:
        """Return labels with the questions of people, whose answers are the quotations of the label that they gave.

        Args:
            labels: the labels.
            rows: questions, each with its `set_id` and its `quotes`, as in marked/label_evidence.jsonl. Those without
                quotations, or with one that is in no passage, are left out.
        """
        by_label: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            by_label[row["set_id"]].append(row)
        states = [LabelState(label) for label in labels if label.set_id in by_label]
        for state in states:
            parse(state)
            made = (_quoted_question(state, row) for row in by_label[state.identity.set_id])
            state.candidates = [one for one in made if one is not None]
        return cls([state for state in states if state.candidates], {})

    def surroundings(self, state: LabelState, questions: Sequence[QuestionAnswer]) -> Surroundings:
        """Return what stands around the questions of a label."""
        assert state.label is not None
        answered = [all_topics()[number] for number in self.answered.get(state.label.set_id, [])]
        return Surroundings(state.label, state.passages, questions, state.plan.pairs, answered)


def _quoted_question(state: LabelState, row: Mapping[str, Any]) -> QuestionAnswer | None:
    """Return a question whose answer is quoted from passages; None where there is no quotation, or one is in none."""
    assert state.label is not None
    found = [next((one for one in state.passages if is_quoted(quote, one.text)), None) for quote in row["quotes"]]
    gold = {one.doc_chunk_index: one for one in found if one is not None}
    if not gold or None in found:
        return None
    return QuestionAnswer(
        id=row["id"],
        type="factual",
        answer_kind="factual",
        source="section",
        category=topic_of(gold[min(gold)].core_code),
        set_id=state.label.set_id,
        drug_name=state.label.drug_name,
        question=row["question"],
        answer=" ".join(map(with_full_stop, row["quotes"])),
        gold_passages=sorted(gold),
        gold_codes=[gold[index].section_code for index in sorted(gold)],
        gold_has_answer=[True] * len(gold),
        evidence=list(row["quotes"]),
    )


@dataclass(slots=True)
class SpoiltLabel:
    """A label of whose good questions some are spoilt; `spoilt` has the defect of each by the id of the question."""

    written: LabelState
    questions: dict[str, QuestionAnswer]
    spoilt: dict[str, Defect] = field(default_factory=dict)

    def candidates(self) -> LabelState:
        """Return a state with these questions as candidates, before the first stage that drops any."""
        return with_candidates(self.written, self.questions.values())

    def judged(self) -> LabelState:
        """Return a state with these questions as questions, before any one stage that drops some."""
        state = self.candidates()
        state.questions, state.candidates = state.candidates, []
        return state


def with_candidates(written: LabelState, candidates: Iterable[QuestionAnswer]) -> LabelState:
    """Return a fresh state of a label with copies of these candidates, since the steps write into them."""
    copies = [replace(one) for one in candidates]
    return LabelState(written.identity, written.plan, written.label, written.passages, candidates=copies)


def spoil_labels(
    written: WrittenLabels, good: Mapping[str, Sequence[QuestionAnswer]], per_defect: int, seed: int
) -> list[SpoiltLabel]:
    """Return labels with spoilt questions among the good ones, and every label with good questions at least once.

    A question and its twin are not both spoilt in the same copy of a label. Questions that no other defect has spoilt
    are taken first.

    Args:
        written: the labels.
        good: their good questions by set id.
        per_defect: the most questions that are spoilt in each way.
        seed: the seed, from which follows which questions are spoilt and how.
    """
    copies = {state.identity.set_id: [SpoiltLabel(state, _by_id(good, state))] for state in written.states}
    around = {
        state.identity.set_id: written.surroundings(state, good.get(state.identity.set_id, []))
        for state in written.states
    }
    states = {state.identity.set_id: state for state in written.states}
    used: Counter[str] = Counter()
    for defect in DEFECTS:
        fitting = [one for rows in good.values() for one in rows if one.type in defect.types]
        fitting.sort(key=lambda one: (used[family(one)], content_id(str(seed), defect.name, one.id)))
        left = per_defect
        for question in fitting:
            rng = Random(content_id(str(seed), defect.name, question.id))
            spoilt = defect.spoil(question, around[question.set_id], rng) if left else None
            if spoilt is None:
                continue
            left -= 1
            used[family(question)] += 1
            into = next((one for one in copies[question.set_id] if _free(one, question)), None)
            if into is None:
                into = SpoiltLabel(states[question.set_id], _by_id(good, states[question.set_id]))
                copies[question.set_id].append(into)
            into.questions[question.id] = spoilt
            into.spoilt[question.id] = defect
    return [one for listed in copies.values() for one in listed if one.questions]


def family(question: QuestionAnswer) -> str:
    """Return the id that an answerable question and its twin share."""
    return question.twin or question.id


def _free(label: SpoiltLabel, question: QuestionAnswer) -> bool:
    return family(question) not in {family(label.questions[one]) for one in label.spoilt}


def _by_id(good: Mapping[str, Sequence[QuestionAnswer]], state: LabelState) -> dict[str, QuestionAnswer]:
    return {one.id: one for one in good.get(state.identity.set_id, [])}


class Runner:
    """Runs steps of a build over states; the built-in rules answer each request once.

    Args:
        models: the models to ask, by name; none where the built-in rules answer everything.
        folder: where responses of models are kept.
    """

    def __init__(self, models: Mapping[str, ModelConfig], folder: str) -> None:
        self._models, self._responses = models, Location(folder)
        self._rules = baseline()
        self._known: dict[str, Response] = {}

    def run(self, steps: Sequence[Step[LabelState]], states: Sequence[LabelState]) -> None:
        """Take the states through the steps. Raises RuntimeError where asking a model ended early."""
        if self._models:
            asyncio.run(self._ask(steps, states))
            return
        for group in batches(states, _STATES_AT_ONCE):
            run_steps(steps, group, self._answer)

    def _answer(self, requests: Sequence[Request]) -> list[Response]:
        for request in requests:
            if request.key not in self._known:
                [self._known[request.key]] = self._rules.answer([request])
        return [self._known[request.key] for request in requests]

    async def _ask(self, steps: Sequence[Step[LabelState]], states: Sequence[LabelState]) -> None:
        clients = ClientPool(self._rules, self._models)
        session = AskSession(clients, self._responses, _go_on, resource_caller({}))
        try:
            for group in batches(states, _STATES_AT_ONCE):
                if ended := await session.run(steps, group):
                    raise RuntimeError(ended)
        finally:
            await session.close()


async def _go_on(_: AskProgress) -> bool:
    return False
