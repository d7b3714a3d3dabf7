"""`benchmarks.defect_injection` on the example labels: what is spoilt, what is caught, and what votes come to."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest
from scipy.stats import binomtest

from benchmarks.defect_injection import GOOD, chain_steps, good_questions, stage_alone, tallies
from benchmarks.defects import DEFECTS
from benchmarks.erring_judges import JUDGES, Measured, chance_kept, expected_kept, measure_votes
from benchmarks.spoiling_writer import SpoilingWriter
from benchmarks.spoilt_labels import Runner, SpoiltLabel, WrittenLabels, family, read_part, spoil_labels
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.filters.votes import majority
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.pipeline.build_steps import Roles
from fdarx_core.records import JudgeVerdict, QuestionAnswer
from tests.conftest import EXAMPLES

Good = dict[str, list[QuestionAnswer]]


@pytest.fixture(scope="module")
def written() -> WrittenLabels:
    return WrittenLabels.of(read_part([str(EXAMPLES)], "all", None, 0), GenerationConfig())


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner({}, str(tmp_path_factory.mktemp("responses")))


@pytest.fixture(scope="module")
def good(written: WrittenLabels, rules: Runner) -> Good:
    return good_questions(written, rules)[0]


@pytest.fixture(scope="module")
def spoilt(written: WrittenLabels, good: Good) -> list[SpoiltLabel]:
    return spoil_labels(written, good, 4, seed=0)


def test_one_question_of_a_pair_is_spoilt_and_the_others_are_good(good: Good, spoilt: list[SpoiltLabel]) -> None:
    counts = dict.fromkeys((defect.name for defect in DEFECTS), 0)
    for label in spoilt:
        originals = {one.id: one for one in good[label.written.identity.set_id]}
        assert label.questions.keys() == originals.keys()
        assert len({family(label.questions[key]) for key in label.spoilt}) == len(label.spoilt)
        for key, question in label.questions.items():
            assert (question != originals[key]) == (key in label.spoilt)
        for defect in label.spoilt.values():
            counts[defect.name] += 1
    assert set(counts.values()) == {4}


def test_a_defect_changes_what_its_name_says(written: WrittenLabels, good: Good) -> None:
    changed = {"pronoun for the drug": {"question"}, "entity made answerable": {"question", "entity"}}
    moved = {"second hop elsewhere", "gold passage elsewhere"}
    for state in written.states:
        around = written.surroundings(state, good[state.identity.set_id])
        for defect in DEFECTS:
            for question in around.questions:
                made = defect.spoil(question, around, Random(0)) if question.type in defect.types else None
                if made is None or defect.name == "answer of another question":
                    continue
                gold = {"gold_passages"} if defect.name in moved else set()
                names = changed.get(defect.name, gold or {"answer"})
                same = {name: getattr(question, name) for name in (*names, "gold_codes")}
                assert replace(made, **same) == question
                assert all(getattr(made, name) != getattr(question, name) for name in names), defect.name


def test_the_chain_catches_nine_in_ten_of_every_defect(spoilt: list[SpoiltLabel], rules: Runner) -> None:
    stages = chain_steps(Roles())
    states = [label.candidates() for label in spoilt]
    rules.run([step for steps in stages.values() for step in steps], states)
    found = tallies(states, spoilt)
    assert all(found[defect.name].share >= 0.9 for defect in DEFECTS)
    alone = stage_alone(spoilt, rules, stages)
    assert alone["pronoun for the drug"].rejected["rules"] == 4
    assert alone["half of a list dropped"].rejected["round_trip"] == 4
    assert alone[GOOD].rejected["rules"] == alone[GOOD].rejected["support"] == alone[GOOD].rejected["round_trip"] == 0


def test_a_writer_that_spoils_is_caught_over_http(written: WrittenLabels, good: Good, tmp_path: Path) -> None:
    writer = SpoilingWriter(written, good, 0.5, seed=0)
    states = writer.build(str(tmp_path))
    made = {one.id for state in states for one in state.candidates}
    kept = {one.id for state in states for one in state.questions}
    assert len(writer.spoilt) > 20 and writer.spoilt.keys() <= made
    assert kept and len(kept & writer.spoilt.keys()) <= 0.1 * len(writer.spoilt)


def test_judges_without_errors_are_right_and_those_with_errors_as_expected(
    spoilt: list[SpoiltLabel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors are random: what is lost and caught in several draws is as expected up to a chance of 1 in 1,000."""
    [right] = measure_votes(spoilt, [0.0], [1], str(tmp_path))
    assert (right.caught, right.lost) == (right.spoilt, 0) and right.spoilt == 40
    drawn: dict[int, list[Measured]] = {1: [], 3: []}
    for seed in (100, 200, 300):
        monkeypatch.setattr("benchmarks.erring_judges.SEED", seed)
        for measured in measure_votes(spoilt, [0.2], list(drawn), str(tmp_path)):
            drawn[measured.votes].append(measured)
    for votes, found in drawn.items():
        for hits, of, is_spoilt in (
            (sum(one.lost for one in found), sum(one.good for one in found), False),
            (sum(one.caught for one in found), sum(one.spoilt for one in found), True),
        ):
            assert binomtest(hits, of, 1 - expected_kept(0.2, votes, spoilt=is_spoilt)).pvalue > 0.001
    assert sum(one.lost for one in drawn[3]) < sum(one.lost for one in drawn[1])


def test_questions_of_people_are_spoilt_as_well(written: WrittenLabels) -> None:
    state = written.states[0]
    passage = max(state.passages, key=lambda one: len(one.text))
    quotes = split_sentences(passage.text)[:2]
    row = {"id": "p1", "set_id": state.identity.set_id, "question": "How is it used?", "quotes": quotes}
    rows = [row, row | {"id": "p2", "quotes": []}, row | {"id": "p3", "quotes": ["No label says these words."]}]
    [made] = WrittenLabels.with_questions([state.identity], rows).states
    [question] = made.candidates
    assert (question.id, question.gold_passages, question.evidence) == ("p1", [passage.doc_chunk_index], quotes)


@pytest.mark.parametrize("votes", [1, 2, 3, 4])
def test_expected_votes_are_those_of_the_majority(votes: int) -> None:
    """Every outcome of the votes, weighed by its chance, through the function that decides in a build."""
    chances = {"kept": 0.8, "dropped": 0.2}
    total = 0.0
    for outcomes in product(chances, repeat=votes):
        chance = 1.0
        for outcome in outcomes:
            chance *= chances[outcome]
        decided = majority([JudgeVerdict("q", "s", "support", outcome) for outcome in outcomes])
        total += chance * (decided.outcome == "kept")
    assert chance_kept(0.8, votes) == pytest.approx(total)


def test_expected_loss_grows_with_the_judges() -> None:
    assert len(JUDGES) == 3
    assert expected_kept(0.1, 1, spoilt=False) == pytest.approx(0.9**3)
    assert expected_kept(0.1, 1, spoilt=True) == pytest.approx(0.1 * 0.9**2)
