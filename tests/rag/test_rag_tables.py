"""Figures, paired differences and tables of a comparison."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import pytest

from fdarx_core.evaluation.tables import ResultTable, table_text
from fdarx_core.rag import tables
from fdarx_core.rag.metrics import differences, figures, summarize_usage, title_figures
from fdarx_core.records import Figure, RagAnswer, RagScore, TitleRank
from tests.report.synthetic_rag import WHAT, SyntheticRag


@pytest.fixture(scope="module")
def made() -> SyntheticRag:
    return SyntheticRag(questions=30)


@pytest.fixture(scope="module")
def found(made: SyntheticRag) -> list[Figure]:
    return figures(made.scores, seed=3, resamples=200)


def scores(strategy: str, *values: float | None) -> list[RagScore]:
    """One a question, each question on a document of its own; None is unscored."""
    rows = []
    for at, value in enumerate(values):
        lacking = [] if value is not None else ["context_precision: invalid_json: no"]
        rows.append(
            RagScore(
                f"q{at}", f"d{at}", strategy, "none", "m", context_precision=value, unscored=lacking
            )
        )  # fmt: skip
    return rows


def test_a_figure_is_the_mean_of_what_was_scored() -> None:
    [one] = figures(scores("question", 0.0, 1.0, None, 0.5), seed=1, resamples=200)
    assert (one.metric, one.value, one.rows, one.clusters, one.unscored) == ("context_precision", 0.5, 3, 3, 1)
    assert one.low is not None and one.high is not None and 0 <= one.low < 0.5 < one.high <= 1


def test_what_is_not_measured_has_no_figure_and_what_failed_has_no_value() -> None:
    assert figures([RagScore("q", "d", "question", "none", "m")], seed=1) == []
    [one] = figures(scores("question", None, None), seed=1)
    assert (one.value, one.rows, one.unscored) == (None, 0, 2)


def test_questions_on_one_document_are_no_independent_evidence() -> None:
    apart = scores("question", *[0.0, 1.0] * 20)
    together = [replace(one, cluster=f"d{at % 4}") for at, one in enumerate(apart)]
    wide, narrow = (figures(rows, seed=1, resamples=500)[0] for rows in (together, apart))
    assert wide.clusters == 4 and narrow.clusters == 40
    assert wide.high - wide.low > narrow.high - narrow.low  # type: ignore[operator]


def test_figures_agree_with_plain_means(made: SyntheticRag, found: list[Figure]) -> None:
    for one in found:
        mine = [
            row
            for row in made.scores
            if (row.strategy, row.postprocess) == (one.keys["strategy"], one.keys["postprocess"])
        ]
        if one.metric == "context_recall":
            assert one.value == pytest.approx(mean(row.context_recall or 0 for row in mine))
        if one.metric == "document_recall_6":
            assert one.value == pytest.approx(mean(row.title_rank == 1 for row in mine))


def test_title_ranks_by_retriever() -> None:
    ranks = [TitleRank(f"q{at}", f"d{at}", "bm25", rank) for at, rank in enumerate((1, 0, 4, 24))]
    values = {one.metric: one.value for one in title_figures(ranks, seed=1, resamples=50)}
    assert values == pytest.approx(
        {"document_recall_1": 0.25, "document_recall_6": 0.5, "document_recall_24": 0.75,
         "document_mrr": (1 + 1 / 4 + 1 / 24) / 4}
    )  # fmt: skip


def test_differences_are_paired_with_the_question_alone() -> None:
    rows = [
        *scores("question", *[0.2, 0.4] * 10), *scores("qa_rag", *[0.5, 0.7] * 10),
        *scores("hyde", *[0.2, 0.4] * 10),
    ]  # fmt: skip
    better, same = differences(rows, seed=1, resamples=200, flips=2000)
    assert (better.first["strategy"], better.second["strategy"], better.rows) == ("qa_rag", "question", 20)
    assert (better.value, better.low, better.high) == pytest.approx((0.3, 0.3, 0.3))
    assert better.p is not None and better.p < 0.01 and better.p_holm == pytest.approx(2 * better.p)
    assert (same.first["strategy"], same.value, same.p_holm) == ("hyde", 0, 1)


def test_differences_rest_on_questions_that_both_have() -> None:
    rows = [*scores("question", 0.0, 0.5, None, 0.5), *scores("hyde", 1.0, None, 0.5, 0.5)]
    [one] = differences(rows, seed=1, resamples=50, flips=50)
    assert (one.rows, one.value) == (2, 0.5)


def test_without_the_question_alone_there_is_nothing_to_compare() -> None:
    assert differences(scores("hyde", 0.1, 0.2, 0.3), seed=1) == []


def test_a_question_answered_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="question q0 occurs 2 times"):
        differences([*scores("question", 0.1), *scores("question", 0.1), *scores("hyde", 0.2)], seed=1)


def test_usage_counts_every_answer_and_times_those_that_did_not_fail() -> None:
    rows = [
        RagAnswer(f"q{at}", "hyde", "none", "m", outcome=outcome, requests=2, prompt_tokens=10, completion_tokens=3,
                  cost=0.5, search_s=seconds, answer_s=1)
        for at, (outcome, seconds) in enumerate([("answered", 1), ("answered", 2), ("refused", 3), ("failed", 99)])
    ]  # fmt: skip
    [one] = summarize_usage(rows)
    assert (one.answered, one.refused, one.failed, one.requests, one.cost) == (2, 1, 1, 8, 2.0)
    assert (one.search_p50, one.total_p50) == (2, 3) and one.total_p95 == pytest.approx(3.9)
    [none] = summarize_usage(rows[3:])
    assert none.total_p50 is None and none.failed == 1


def cells(grid: ResultTable) -> dict[str, list[float | None]]:
    return {name: [entry.value if entry else None for entry in entries] for name, entries in grid.rows}


def test_tables_have_the_papers_layout(found: list[Figure]) -> None:
    by_name = tables.paper_tables(found, [], WHAT)
    second, third, fifth = (
        by_name[name] for name in ("contexts-by-postprocessing-table", "contexts-table", "ablations-table")
    )
    titles = list(WHAT.strategies.values())
    assert [name for name, _ in second.rows] == [name for name, _ in third.rows] == titles[:5]
    assert second.header_groups() == [("Context precision", 3), ("Context recall", 3)]
    assert [name for _, name in second.columns[:3]] == ["Reranker", "Scoring agent", "None"]
    assert [name for name, _ in fifth.rows] == [titles[0], *titles[5:]]
    value = {(one.keys["strategy"], one.keys["postprocess"], one.metric): one.value for one in found}
    assert cells(third)[titles[0]] == [value["qa_rag", "rerank", f"context_{name}"] for name in ("precision", "recall")]
    assert cells(second)[titles[3]][1] == value["question", "score", "context_precision"]


def test_tables_say_who_judged_and_what_is_missing(found: list[Figure]) -> None:
    notes = " ".join(tables.paper_tables(found, [], WHAT)["contexts-by-postprocessing-table"].notes)
    assert "by baseline: overlap of words with the reference, no language model" in notes
    assert (
        "30 questions" in notes
        and "Only 6 documents: these intervals are too narrow." in notes
        and "have no verdict" in notes
    )
    assert "judged by gpt" in " ".join(
        tables.paper_tables(found, [], replace(WHAT, judge="gpt"))["contexts-table"].notes
    )
    assert "judged" not in " ".join(tables.paper_tables(found, [], WHAT)["documents"].notes)


def test_answer_similarity_is_named_as_what_it_is(found: list[Figure]) -> None:
    grid = tables.paper_tables(found, [], WHAT)["similarity-table"]
    assert grid.columns == [("Embedding", "similarity"), ("Words", "F1")]
    assert any("No BERTScore" in note for note in grid.notes)
    bert = [replace(one, metric="bert_f1") for one in found if one.metric == "token_f1"]
    grid = tables.paper_tables([*found, *bert], [], WHAT)["similarity-table"]
    assert grid.columns[0][0] == "BERTScore" and not any("No BERTScore" in note for note in grid.notes)


def test_a_strategy_without_a_verdict_keeps_its_row() -> None:
    rows = [*scores("question", 0.1, 0.2), *scores("hyde", None, None)]
    grid = tables.paper_tables(figures(rows, seed=1, resamples=50), [], replace(WHAT, main="none"))["contexts-table"]
    assert cells(grid) == {"HyDE(24)": [None], "Only question(24)": [pytest.approx(0.15)]}


def test_models_are_named_where_there_are_several() -> None:
    made = SyntheticRag(questions=10, models=("small", "large"))
    found = figures(made.scores, seed=1, resamples=20)
    assert [name for name, _ in tables.paper_tables(found, [], WHAT)["contexts-table"].rows][:2] == [
        f"{WHAT.strategies['qa_rag']} · {model}" for model in ("small", "large")
    ]


def test_tables_as_text_fit_a_terminal(made: SyntheticRag, found: list[Figure]) -> None:
    grids = [
        *tables.paper_tables(found, title_figures(made.ranks, seed=1, resamples=20), WHAT).values(),
        tables.usage_table(summarize_usage(made.answers), WHAT),
    ]
    assert len(grids) == 7
    for grid in grids:
        assert all(len(line) <= 100 for line in table_text(grid).splitlines())


def test_the_usage_table_is_per_question(made: SyntheticRag) -> None:
    grid = tables.usage_table(summarize_usage(made.answers), WHAT)
    assert [name for name, _ in grid.rows] == list(WHAT.strategies.values())
    assert [entry.value for entry in grid.rows[0][1][-4:] if entry] == pytest.approx([2, 9, 0.12, 2])
