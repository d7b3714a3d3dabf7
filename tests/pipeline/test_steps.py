"""The build's steps as a plain loop: accounts, provenance, and what a reader of the benchmark relies on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fdarx_core.generation.contexts import Amounts
from fdarx_core.labels import Identity, Selection, Source, find_sources, identify, read_source, select
from fdarx_core.pipeline.accounts import check_accounts
from fdarx_core.pipeline.dossier import AccountingError, Dossier, total
from fdarx_core.pipeline.plan import STAGES, baseline, build_steps
from fdarx_core.pipeline.stepping import AskBaseline, run_steps
from fdarx_core.records import Reject, StageCount
from tests.conftest import EXAMPLES


def identities(path: Path) -> list[Identity]:
    documents = (one for source in find_sources([str(path)]).sources for one in read_source(source))
    found = [identify(one[1], one[0]) for one in documents if not isinstance(one, Reject)]
    return select(found, Selection())[0]


def build(labels: list[Identity], amounts: Amounts | None = None) -> list[Dossier]:
    steps = build_steps(amounts or Amounts())
    return run_steps(steps, [Dossier(identity) for identity in labels], AskBaseline(baseline()))


@pytest.fixture(scope="module")
def examples() -> list[Dossier]:
    return build(identities(EXAMPLES))


def test_every_stage_accounts_for_every_row(examples: list[Dossier]) -> None:
    counts = total(count for dossier in examples for count in dossier.counts)
    check_accounts(counts)
    assert [count.stage for count in counts] == list(STAGES)
    rejected = sum(count.rejected for count in counts)
    assert rejected == sum(len(dossier.rejects) for dossier in examples) > 0
    assert all(reject.reason and reject.stage in STAGES for dossier in examples for reject in dossier.rejects)


def test_all_types_are_made_of_every_label(examples: list[Dossier]) -> None:
    for dossier in examples:
        kinds = {question.type for question in dossier.questions}
        assert kinds >= {"factual", "refusal"}, dossier.identity.source.name
    assert sum(question.type == "multihop" for dossier in examples for question in dossier.questions) >= len(examples)


def test_gold_passages_exist_and_hold_the_answers_numbers(examples: list[Dossier]) -> None:
    for dossier in examples:
        for question in dossier.questions:
            texts = [dossier.passages[index].text for index in question.gold_passages]
            assert bool(texts) == (question.type != "refusal")
            assert len(question.gold_codes) == len(question.gold_has_answer) == len(texts)
            if question.type == "factual":
                held = set(re.findall(r"\d+(?:[.,]\d+)*", " ".join(texts)))
                assert set(re.findall(r"\d+(?:[.,]\d+)*", question.answer)) <= held, question


def test_refusal_entities_are_nowhere_in_the_label(examples: list[Dossier]) -> None:
    for dossier in examples:
        raw = read_source(dossier.identity.source)
        document = next(one for one in raw if isinstance(one, tuple))[1].decode().casefold()
        for question in dossier.questions:
            if question.type == "refusal":
                assert question.entity.casefold() in question.question.casefold()
                assert question.entity.casefold() not in document


def test_ids_are_unique_and_repeatable(examples: list[Dossier]) -> None:
    ids = [question.id for dossier in examples for question in dossier.questions]
    assert len(ids) == len(set(ids))
    again = build([dossier.identity for dossier in reversed(examples)])
    assert sorted(ids) == sorted(question.id for dossier in again for question in dossier.questions)


def test_amounts_bound_what_is_asked(examples: list[Dossier]) -> None:
    labels = [dossier.identity for dossier in examples[:2]]
    few = build(labels, Amounts(passages=2, section_pairs=1, refusals=1))
    assert [len(dossier.contexts) for dossier in few] == [4, 4]
    other_seed = build(labels, Amounts(seed=1))
    assert [c.id for d in other_seed for c in d.contexts] != [c.id for d in examples[:2] for c in d.contexts]


def test_a_document_that_vanished_or_broke_is_a_reject(examples: list[Dossier], tmp_path: Path) -> None:
    (tmp_path / "broken.xml").write_text("<document")
    gone = Identity("gone", 1, "", "", "", [], "", Source(str(tmp_path / "gone.xml")))
    broken = Identity("broken", 1, "", "", "", [], "", Source(str(tmp_path / "broken.xml")))
    dossiers = build([gone, broken, examples[0].identity])
    reasons = [reject.reason for dossier in dossiers[:2] for reject in dossier.rejects]
    assert reasons == ["unreadable", "not_well_formed"]
    assert [q.id for q in dossiers[2].questions] == [q.id for q in examples[0].questions]


def test_a_missing_row_is_noticed() -> None:
    with pytest.raises(AccountingError, match="rules"):
        check_accounts([StageCount("rules", 10, 8, 1, 8)])
    with pytest.raises(AccountingError, match="duplicates"):
        check_accounts([StageCount("rules", 10, 8, 2, 8), StageCount("duplicates", 7, 7, 0, 7)])
