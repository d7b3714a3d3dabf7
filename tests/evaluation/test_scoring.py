"""The rows that metrics rest on: what counts in which setting, and that they hold the metrics of their question."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.gold import f1_at, ndcg_at, recall_at, reciprocal_rank
from fdarx_core.evaluation.scoring import question_features, score, score_ranking
from fdarx_core.evaluation.similarity import overlaps
from fdarx_core.records import (
    NO_ANSWER,
    Equivalence,
    Grade,
    LabelSummary,
    Passage,
    Prediction,
    QuestionAnswer,
    Ranking,
    RetrievalScore,
    Score,
)
from tests.evaluation.metric_rows import MetricRow

QUESTION = QuestionAnswer(
    id="q",
    type="multihop",
    answer_kind="multihop",
    source="section_pair",
    category="dosing",
    set_id="s",
    drug_name="Velorin",
    question="How much Velorin is taken with food?",
    answer="40 mg once daily with food",
    gold_passages=[4, 7],
    gold_codes=["42229-5", "34068-7"],
    gold_has_answer=[True, True],
)
REFUSAL = replace(QUESTION, type="refusal", answer=NO_ANSWER)
SUBJECT = LabelSummary("s", "Velorin", True, 9, 5000)
DESCRIBED = question_features(QUESTION, SUBJECT, {})
EQUIVALENCE = Equivalence("q", "s", [4, 4], [5, 6], ["near_duplicate", "same_statement"])
PREDICTION = Prediction(
    id="p",
    question_id="q",
    set_id="s",
    model="m",
    setting="full_label",
    answer="40 mg daily",
    cited=[5, 7, 1, 5],
    shown=list(range(9)),
)
GRADE = Grade("p", "q", "s", "correct")
CITATIONS = ("cited", "hits", "eq_hits", "eq_right")
OVERLAPS = ("bleu", "meteor", "rouge_l")


def passage(index: int, core_code: str) -> Passage:
    return Passage("s", index, 0, "42229-5", core_code, "2.1", "Dosing", "Dosing", "Take 40 mg once daily.")


def scored(prediction: Prediction = PREDICTION, question: QuestionAnswer = QUESTION) -> Score:
    return score(question_features(question, SUBJECT, {}), question, prediction, GRADE, EQUIVALENCE)


def picked(row: Score | RetrievalScore, names: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in names)


def test_an_answer_with_citations() -> None:
    row = scored()
    assert picked(row, ("prediction_id", "question_id", "set_id", "model", "setting", "retriever")) == (
        *("p", "q", "s", "m", "full_label"),
        "",
    )
    assert (row.grade, row.outcome, row.gold) == ("correct", "answered", 2)
    assert picked(row, CITATIONS) == (3, 1, 2, 2)
    expected = overlaps(PREDICTION.answer, QUESTION.answer)
    assert picked(row, OVERLAPS) == tuple(expected.values())
    assert row.bert_score is None


def test_no_grade_and_no_equivalence() -> None:
    row = score(DESCRIBED, QUESTION, PREDICTION, None, None)
    assert row.grade == ""
    assert picked(row, CITATIONS) == (3, 1, 1, 1)


@pytest.mark.parametrize("setting", ["closed_book", "oracle", "theirs"])
def test_settings_without_markers_have_no_citations(setting: str) -> None:
    row = scored(replace(PREDICTION, setting=setting))
    assert picked(row, CITATIONS) == (None,) * 4
    assert row.rouge_l is not None and row.gold == 2


def test_citations_made_elsewhere_count_for_their_whole_setting() -> None:
    theirs = replace(PREDICTION, setting="theirs", shown=[])
    silent, other = replace(theirs, cited=[]), replace(theirs, setting="other", cited=[])
    citing = {"theirs", "full_label", "retrieved"}
    rows = [score(DESCRIBED, QUESTION, one, GRADE, EQUIVALENCE, citing) for one in (theirs, silent, other)]
    assert [picked(row, CITATIONS) for row in rows] == [(3, 1, 2, 2), (0, 0, 0, 0), (None,) * 4]


def test_a_refusal_cites_nothing_and_is_compared_by_its_words() -> None:
    row = scored(replace(PREDICTION, outcome="refused", answer="NOT_ANSWERABLE"))
    assert picked(row, CITATIONS) == (0, 0, 0, 0)
    assert picked(row, OVERLAPS) == (0, 0, 0)


@pytest.mark.parametrize("outcome", ["failed", "unparsed"])
def test_what_is_no_answer_has_no_numbers(outcome: str) -> None:
    row = scored(replace(PREDICTION, outcome=outcome))
    assert picked(row, CITATIONS + OVERLAPS) == (None,) * 7
    assert row.gold == 2


def test_refusal_questions_have_neither_gold_nor_overlaps() -> None:
    row = scored(question=REFUSAL)
    assert row.gold == 0
    assert picked(row, CITATIONS + OVERLAPS) == (None,) * 7


def test_a_question_without_gold_passages_has_no_citations() -> None:
    row = scored(question=replace(QUESTION, gold_passages=[], gold_has_answer=[]))
    assert picked(row, CITATIONS) == (None,) * 4
    assert row.rouge_l is not None


def test_gold_passages_without_the_answer_are_no_gold() -> None:
    row = scored(question=replace(QUESTION, gold_has_answer=[True, False]))
    assert (row.gold, *picked(row, CITATIONS)) == (1, 3, 0, 1, 1)


def test_passages_that_were_not_shown_are_wrong_citations() -> None:
    row = scored(replace(PREDICTION, setting="retrieved", shown=[1, 5], cited=[5], cited_unknown=2))
    assert picked(row, CITATIONS) == (3, 0, 1, 1)


def test_citations_of_other_labels() -> None:
    row = scored(replace(PREDICTION, cited=[4, 5, 7], cited_set_ids=["t", "s", "s"]))
    assert picked(row, CITATIONS) == (3, 1, 2, 2)


def test_usage_is_kept() -> None:
    usage = {"prompt_tokens": 5, "cached_tokens": 4, "completion_tokens": 3, "latency_s": 0.5, "cost": 0.01}
    row = scored(replace(PREDICTION, **usage))  # type: ignore[arg-type]
    assert {name: getattr(row, name) for name in usage} == usage


def test_a_question_described() -> None:
    expected = ["s", "multihop", "multihop", "dosing", "Overdosage", True, 5000]
    found = question_features(QUESTION, SUBJECT, {4: passage(4, "34088-5"), 7: passage(7, "34068-7")})
    assert list(found.values()) == expected
    assert question_features(QUESTION, SUBJECT, {4: passage(4, "99999-9")})["section"] == "other"
    assert question_features(REFUSAL, SUBJECT, {})["numeric"] is False


def test_without_passages_the_section_is_by_the_questions_own_codes() -> None:
    assert question_features(QUESTION, SUBJECT, {})["section"] == "other"
    assert (
        question_features(replace(QUESTION, gold_has_answer=[False, True]), SUBJECT, {})["section"]
        == "Dosage and administration"
    )
    assert question_features(replace(QUESTION, gold_passages=[], gold_has_answer=[]), SUBJECT, {})["section"] == "other"


def test_a_ranking_within_a_label() -> None:
    row = score_ranking(DESCRIBED, QUESTION, Ranking("q", "s", "bm25", [6, 1, 7, 4]), EQUIVALENCE)
    assert row is not None and (row.retriever, row.gold) == ("bm25", 2)
    assert picked(row, ("recall_1", "recall_5", "recall_gold", "f1_gold", "mrr")) == (0, 1, 0, 0, 1 / 3)
    assert picked(row, ("eq_recall_1", "eq_recall_5", "eq_recall_gold", "eq_f1_gold", "eq_mrr")) == (
        *(1 / 2, 1, 1 / 2, 1 / 2),
        1,
    )


def test_a_ranking_over_the_corpus() -> None:
    ranking = Ranking("q", "s", "bm25", [4, 5, 4, 7], ["t", "t", "s", "s"])
    row = score_ranking(DESCRIBED, QUESTION, ranking, EQUIVALENCE)
    assert row is not None
    assert picked(row, ("recall_1", "recall_5", "mrr")) == picked(row, ("eq_recall_1", "eq_recall_5", "eq_mrr"))
    assert picked(row, ("recall_1", "recall_5", "mrr")) == (0, 1, 1 / 3)


@pytest.mark.parametrize("question", [REFUSAL, replace(QUESTION, gold_passages=[], gold_has_answer=[])])
def test_rankings_of_questions_without_gold_have_no_row(question: QuestionAnswer) -> None:
    assert score_ranking(DESCRIBED, question, Ranking("q", "s", "bm25", [1]), EQUIVALENCE) is None


def test_rows_hold_the_metrics_of_their_question(rows: list[MetricRow]) -> None:
    for row in rows:
        described = question_features(row.question, row.subject, row.passages)
        made = score_ranking(described, row.question, row.ranking, row.equivalence)
        marked = zip(row.question.gold_passages, row.question.gold_has_answer, strict=True)
        gold = [index for index, holds in marked if holds] or row.question.gold_passages
        ranked, cut = row.ranking.ranked, len(gold)
        pairs = list(zip(row.equivalence.gold, row.equivalence.members, strict=True))
        standing = {one: {member for other, member in pairs if other == one} for one in gold}
        assert made is not None
        for prefix, equivalents in (("", {}), ("eq_", standing)):
            expected = [recall_at(k, ranked, gold, equivalents) for k in (1, 5, 10, cut)]
            expected += [f1_at(cut, ranked, gold, equivalents), reciprocal_rank(ranked, gold, equivalents)]
            expected.append(ndcg_at(10, ranked, gold, equivalents))
            names = ("recall_1", "recall_5", "recall_10", "recall_gold", "f1_gold", "mrr", "ndcg_10")
            assert [getattr(made, f"{prefix}{name}") for name in names] == pytest.approx(expected, abs=1e-9)


@given(st.data(), st.lists(st.integers(0, 12), max_size=8))
def test_order_and_repetition_of_citations_change_nothing(data: st.DataObject, cited: list[int]) -> None:
    other = data.draw(st.permutations(cited + cited[:2]))
    first, second = scored(replace(PREDICTION, cited=cited)), scored(replace(PREDICTION, cited=other))
    assert first == second
    assert first.hits is not None and first.eq_hits is not None and first.cited is not None
    assert first.hits <= first.eq_hits <= first.gold
    assert first.eq_right is not None and first.hits <= first.eq_right <= first.cited
