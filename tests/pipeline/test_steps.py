"""The build's steps as a plain loop: accounts, provenance, and what a reader of the benchmark relies on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import Identity, Selection, Source, find_sources, identify, read_source, select
from fdarx_core.pipeline.build_steps import (
    LabelState,
    add_counts,
    baseline,
    build_steps,
    check_accounts,
    stage_names,
)
from fdarx_core.pipeline.steps import run_steps
from fdarx_core.records import Reject, StageCount
from tests.conftest import EXAMPLES


def identities(path: Path) -> list[Identity]:
    documents = (one for source in find_sources([str(path)]).sources for one in read_source(source))
    found = [identify(one[1], one[0]) for one in documents if not isinstance(one, Reject)]
    return select(found, Selection())[0]


def build(labels: list[Identity], amounts: GenerationConfig | None = None) -> list[LabelState]:
    steps = build_steps(amounts or GenerationConfig())
    return run_steps(steps, [LabelState(identity) for identity in labels], baseline().answer)


@pytest.fixture(scope="module")
def examples() -> list[LabelState]:
    return build(identities(EXAMPLES))


def test_every_stage_accounts_for_every_row(examples: list[LabelState]) -> None:
    counts = add_counts(count for state in examples for count in state.counts)
    check_accounts(counts)
    assert [count.stage for count in counts] == list(stage_names())
    rejected = sum(count.rejected for count in counts)
    assert rejected == sum(len(state.rejects) for state in examples) > 0
    assert all(reject.reason and reject.stage in stage_names() for state in examples for reject in state.rejects)


def test_all_types_are_made_of_every_label(examples: list[LabelState]) -> None:
    for state in examples:
        kinds = {question.type for question in state.questions}
        assert kinds >= {"factual", "refusal"}, state.identity.source.name
    assert sum(question.type == "multihop" for state in examples for question in state.questions) >= len(examples)


def test_gold_passages_exist_and_hold_the_answers_numbers(examples: list[LabelState]) -> None:
    for state in examples:
        for question in state.questions:
            texts = [state.passages[index].text for index in question.gold_passages]
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
                assert question.entity.casefold() not in document


def test_ids_are_unique_and_repeatable(examples: list[LabelState]) -> None:
    ids = [question.id for state in examples for question in state.questions]
    assert len(ids) == len(set(ids))
    again = build([state.identity for state in reversed(examples)])
    assert sorted(ids) == sorted(question.id for state in again for question in state.questions)


def test_amounts_bound_what_is_asked(examples: list[LabelState]) -> None:
    labels = [state.identity for state in examples[:2]]
    few = build(labels, GenerationConfig(passages=2, section_pairs=1, refusals=1))
    assert [len(state.contexts) for state in few] == [4, 4]
    other_seed = build(labels, GenerationConfig(seed=1))
    assert [c.id for d in other_seed for c in d.contexts] != [c.id for d in examples[:2] for c in d.contexts]


def test_a_document_that_vanished_or_broke_is_a_reject(examples: list[LabelState], tmp_path: Path) -> None:
    (tmp_path / "broken.xml").write_text("<document")
    gone = Identity("gone", 1, "", "", "", "", "", [], "", "", Source(str(tmp_path / "gone.xml")))
    broken = Identity("broken", 1, "", "", "", "", "", [], "", "", Source(str(tmp_path / "broken.xml")))
    states = build([gone, broken, examples[0].identity])
    reasons = [reject.reason for state in states[:2] for reject in state.rejects]
    assert reasons == ["unreadable", "not_well_formed"]
    assert [q.id for q in states[2].questions] == [q.id for q in examples[0].questions]


def test_a_missing_row_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="rules"):
        check_accounts([StageCount("rules", 10, 8, 1, 8)])
    with pytest.raises(RuntimeError, match="duplicates"):
        check_accounts([StageCount("rules", 10, 8, 2, 8), StageCount("duplicates", 7, 7, 0, 7)])
