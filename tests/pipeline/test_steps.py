"""The build's steps as a plain loop: accounts, provenance, and what a reader of the benchmark relies on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fdarx_core.filters.judges import judges
from fdarx_core.generation.candidates import parse_candidates
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.generation.pairing import pair_topics
from fdarx_core.generation.writing import writing_tasks
from fdarx_core.labels import Identity, Selection, Source, find_sources, identify, read_source, select
from fdarx_core.pipeline.build_steps import Roles, baseline, build_steps, survey_labels
from fdarx_core.pipeline.label_state import LabelState, TopicPlan, add_counts, check_accounts
from fdarx_core.pipeline.round_trip_steps import keep_twins
from fdarx_core.pipeline.steps import run_steps
from fdarx_core.records import Label, Reject, Response, StageCount
from tests.conftest import EXAMPLES


def identities(path: Path, sample: int | None = None) -> list[Identity]:
    documents = (one for source in find_sources([str(path)]).sources for one in read_source(source))
    found = [identify(one[1], one[0]) for one in documents if not isinstance(one, Reject)]
    return select(found, Selection(sample=sample))[0]


def new_states(labels: Sequence[Identity], amounts: GenerationConfig, *, by_model: bool = False) -> list[LabelState]:
    """The labels with the topics that a build asks of each."""
    surveys = survey_labels(labels) if amounts.twins else []
    bounds = amounts.twins, amounts.topic_labels, amounts.seed
    pairs = pair_topics(surveys, *bounds, by_model=by_model)
    return [LabelState(one, TopicPlan(pairs.get(one.set_id, ()), by_model)) for one in labels]


def build(labels: Sequence[Identity], amounts: GenerationConfig | None = None) -> list[LabelState]:
    amounts = amounts or GenerationConfig()
    return run_steps(build_steps(amounts, Roles(), judges()), new_states(labels, amounts), baseline().answer)


@pytest.fixture(scope="module")
def examples() -> list[LabelState]:
    return build(identities(EXAMPLES))


def test_every_stage_accounts_for_every_row(examples: list[LabelState]) -> None:
    counts = add_counts(count for state in examples for count in state.counts)
    check_accounts(counts)
    stages = ["passages", "contexts", "generate", "rules", "duplicates", "twins"]
    assert [count.stage for count in counts] == stages  # nobody judges template questions
    rejected = sum(count.rejected for count in counts)
    assert rejected == sum(len(state.rejects) for state in examples) > 0
    assert all(reject.reason and reject.stage in stages for state in examples for reject in state.rejects)


def test_all_types_are_made_of_every_label(examples: list[LabelState]) -> None:
    for state in examples:
        kinds = {question.type for question in state.questions}
        assert kinds >= {"factual", "refusal"}, state.identity.source.name


def test_gold_passages_exist_and_hold_the_answers_numbers(examples: list[LabelState]) -> None:
    for state in examples:
        for question in state.questions:
            gold = [state.passages[index] for index in question.gold_passages]
            texts = [f"{one.section_path} {one.text}" for one in gold]  # an answer has headings: "CYP3A4 Inducers:"
            assert bool(texts) == (question.type != "refusal")
            assert len(question.gold_codes) == len(question.gold_has_answer) == len(texts)
            if question.type == "factual":
                held = set(re.findall(r"\d+(?:[.,]\d+)*", " ".join(texts)))
                assert set(re.findall(r"\d+(?:[.,]\d+)*", question.answer)) <= held, question


def test_refusal_entities_are_nowhere_in_the_label(examples: list[LabelState]) -> None:
    for state in examples:
        raw = read_source(state.identity.source)
        document = next(one for one in raw if isinstance(one, tuple))[1].decode().casefold()
        for question in state.questions:
            if question.type == "refusal":
                assert question.entity.casefold() in question.question.casefold()
                assert question.attribute or question.entity.casefold() not in document


def test_ids_are_unique_and_repeatable(examples: list[LabelState]) -> None:
    ids = [question.id for state in examples for question in state.questions]
    assert len(ids) == len(set(ids))
    again = build([state.identity for state in reversed(examples)])
    assert sorted(ids) == sorted(question.id for state in again for question in state.questions)


def test_amounts_bound_what_is_asked(examples: list[LabelState]) -> None:
    labels = [state.identity for state in examples[:2]]
    for state in build(labels, GenerationConfig(twins=1)):
        assert [question.type for question in state.candidates if question.twin] == ["refusal"]
        assert 1 <= len(state.contexts) <= 2  # one more that has no twin evens the counts
    assert not any(state.candidates for state in build(labels, GenerationConfig(twins=0)))
    other_seed = build([state.identity for state in examples], GenerationConfig(seed=1))
    assert [c.id for d in other_seed for c in d.contexts] != [c.id for d in examples for c in d.contexts]


def test_a_refusal_question_stands_beside_the_question_that_it_was_written_with(examples: list[LabelState]) -> None:
    for state in examples:
        of = {question.id: question for question in state.questions}
        for question in state.questions:
            if question.twin:
                assert question.type == "refusal"
                assert of[question.twin].question != question.question
                assert of[question.twin].set_id == question.set_id and of[question.twin].type != "refusal"


def test_a_refusal_question_has_the_wording_of_its_twin(examples: list[LabelState]) -> None:
    """Before the filters; those who answer a question that they do not know cannot tell by its wording."""
    candidates = {question.id: question for state in examples for question in state.candidates}
    refusals = [question for question in candidates.values() if question.twin]
    assert refusals and all(one.template == candidates[one.twin].template for one in refusals)


@pytest.mark.parametrize(("by", "left"), [("baseline", 0), ("small", 1)])
def test_a_refusal_of_a_model_stays_where_its_twin_went(examples: list[LabelState], by: str, left: int) -> None:
    """A template question goes, so that the wordings stay balanced; a model has a wording for each question."""
    state = next(one for one in examples if one.candidates)
    context = next(one for one in state.contexts if any(item["twin"] for item in one.slots["written"]))
    text = writing_tasks()[context.task].by_rules(context.slots)
    written = parse_candidates(context, Response("key", context.task, 1, by, text), label_of(state), state.passages)
    assert isinstance(written, list)
    alone = replace(state, questions=[one for one in written if one.twin][:1], counts=[], rejects=[])
    keep_twins(alone)
    assert [one.twin for one in alone.questions] == [""] * left
    assert [one.reason for one in alone.rejects] == ["twin_rejected"] * (1 - left)


def label_of(state: LabelState) -> Label:
    assert state.label is not None
    return state.label


def test_a_document_that_vanished_or_broke_is_a_reject(examples: list[LabelState], tmp_path: Path) -> None:
    (tmp_path / "broken.xml").write_text("<document")
    gone = Identity("gone", 1, "", "", "", "", "", [], "", "", Source(str(tmp_path / "gone.xml")))
    broken = Identity("broken", 1, "", "", "", "", "", [], "", "", Source(str(tmp_path / "broken.xml")))
    states = build([gone, broken, *(state.identity for state in examples)])
    reasons = [reject.reason for state in states[:2] for reject in state.rejects]
    assert reasons == ["unreadable", "not_well_formed"]
    assert [q.id for s in states[2:] for q in s.questions] == [q.id for s in examples for q in s.questions]


def test_a_missing_row_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="rules"):
        check_accounts([StageCount("rules", 10, 8, 1, 8)])
    with pytest.raises(RuntimeError, match="duplicates"):
        check_accounts([StageCount("rules", 10, 8, 2, 8), StageCount("duplicates", 7, 7, 0, 7)])
