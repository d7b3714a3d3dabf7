from __future__ import annotations

from dataclasses import replace

import pytest

from fdarx_core.evaluation.figures import CellKey, with_provenance
from fdarx_core.evaluation.tables import ResultTable, overlap_table, retrieval_table, settings_table, table_text
from fdarx_core.records import Estimate, Figure, RetrievalScore, SettingProgress, to_table
from tests.evaluation.synthetic_scores import retrieval_rows, score_rows, table
from tests.evaluation.whole_tables import figures, filled_cells, retrieval_figures


def sweep() -> list[Figure]:
    """Two models, of which the second has no oracle cell, and two retrievers."""
    found: list[Figure] = []
    for model, settings in (("baseline", ("full_label", "closed_book", "oracle")), ("llama", ("full_label",))):
        for setting in settings:
            found += figures(table(score_rows(6, model=model, setting=setting)), seed=0, resamples=50)
    retrieved = [replace(one, setting="retrieved", retriever="bm25") for one in score_rows(6, seed=9, model="llama")]
    found += figures(table(retrieved), seed=0, resamples=50)
    for seed, name in enumerate(("bm25", "minilm")):
        rows = to_table(retrieval_rows(6, seed=seed, retriever=name), RetrievalScore)
        found += retrieval_figures(rows, seed=0, resamples=50)
    return found


SWEEP = sweep()


def figure(model: str, setting: str, metric: str, group: str, retriever: str = "") -> Figure:
    wanted = (model, setting, retriever, "type", group, metric)
    (one,) = [f for f in SWEEP if (*f.keys.values(), f.metric) == wanted]
    return one


def test_table_1_has_the_papers_columns_then_retrieved_settings() -> None:
    grid = settings_table(SWEEP, judge="gpt-5.1")
    paper = [("Full label (+ cites)", 5), ("Closed-book Acc", 2), ("Oracle Acc", 2)]
    assert grid.header_groups() == [*paper, ("Retrieved by bm25 (+ cites)", 5)]
    names = ["Fact", "MH", "Cite F1 Fact", "Cite F1 MH", "Ref F1"]
    assert [name for _, name in grid.columns] == [*names, "Fact", "MH", "Fact", "MH", *names]
    assert [name for name, _ in grid.rows] == ["baseline", "llama"]


def test_table_1_shows_the_figures_and_leaves_missing_cells_out() -> None:
    (_, baseline), (_, llama) = settings_table(SWEEP, judge="gpt-5.1").rows
    cite = figure("baseline", "full_label", "citation_f1", "multihop")
    assert cite.value is not None
    assert baseline[3] == cite
    refusal = figure("llama", "retrieved", "refusal_f1", "all", "bm25")
    assert refusal.value is not None
    assert llama[13] == refusal
    assert baseline[9:] == [None] * 5
    assert llama[5:9] == [None] * 4


def test_table_1_under_equivalence_differs_in_the_citations_alone() -> None:
    strict, loose = (settings_table(SWEEP, judge="x", equivalent=equivalent) for equivalent in (False, True))
    changed = [
        at for at, pair in enumerate(zip(strict.rows[0][1], loose.rows[0][1], strict=True)) if pair[0] != pair[1]
    ]
    assert changed == [2, 3]
    assert "equivalent passages" in loose.title


def test_table_2_and_8_have_the_papers_layout() -> None:
    second, eighth = retrieval_table(SWEEP), overlap_table(SWEEP)
    assert second.header_groups()[:4] == [(f"recall@{k}", 2) for k in ("1", "5", "10", "|gold|")]
    assert [name for name, _ in second.rows] == ["bm25", "minilm"]
    recall = figure("", "", "recall_gold", "multihop", "minilm")
    assert recall.value is not None
    assert second.rows[1][1][7] == recall
    groups = [
        f"{setting} {name}" for setting in ("Closed-book", "Oracle passages", "Full label") for name in ("Fact", "MH")
    ]
    assert eighth.header_groups()[:6] == [(group, 3) for group in groups]
    assert [name for _, name in eighth.columns][:3] == ["BLEU", "MET", "R-L"]


def test_notes_say_who_judged_and_what_is_not_in_the_figures() -> None:
    notes = " ".join(settings_table(SWEEP, judge="baseline").notes)
    assert "Graded by baseline." in notes and "baseline, no LLM, grades by quotation" in notes
    assert "no LLM" in notes
    assert "baseline answers by rules" in notes
    assert "have no verdict" in notes
    assert "too narrow" in notes
    assert "Graded by gpt-5.1." in settings_table(SWEEP, judge="gpt-5.1").notes
    assert "Not graded." in settings_table(SWEEP, judge="").notes


BIG = "openai big, temperature 0"


@pytest.mark.parametrize(
    ("judged_by", "told"),
    [
        ([(BIG, "grade_answer 1"), (BIG, "judge_claim 3")], f"Graded by strong ({BIG})."),
        ([(BIG, "grade_answer 1"), (BIG, "grade_answer 2")], f"Graded by strong ({BIG})."),
        ([(BIG, "grade_answer 1"), (BIG, "")], f"Graded by strong ({BIG})."),
        ([(BIG, ""), (BIG, "")], f"Graded by strong ({BIG})."),
        ([("openai (a, b)", "grade_answer 1"), ("openai (a, b)", "")], "Graded by strong (openai (a, b))."),
        ([(BIG, "grade_answer 1"), ("openai small", "grade_answer 1")], f"strong ({BIG}), strong (openai small)."),
        ([("", ""), ("", "")], "Graded by strong."),
    ],
)
def test_notes_name_each_grader_once(judged_by: list[tuple[str, str]], told: str) -> None:
    cells = [SettingProgress("a", "oracle", "", "done", judge="strong", judge_engine=engine, judge_prompt=prompt)
             for engine, prompt in judged_by]  # fmt: skip
    found = [made for cell in cells for made in with_provenance(SWEEP[:2], cell)]
    [note] = [note for note in settings_table(found, judge="strong").notes if "Graded by" in note]
    assert note.endswith(told)


@pytest.mark.parametrize("width", [100, 140, 200])
def test_text_stays_within_its_width_and_is_aligned(width: int) -> None:
    for grid in (settings_table(SWEEP, judge="gpt-5.1"), retrieval_table(SWEEP), overlap_table(SWEEP)):
        text = table_text(grid, width)
        assert max(map(len, text.splitlines())) <= width
        for _, name in grid.columns:
            assert name in text
        assert text.count("\nbaseline " if grid.stub == "Model" else "\nbm25 ") >= 1


def small(values: int) -> ResultTable:
    entries: list[Estimate | None] = [Estimate(0.53, 0.50, 0.57)] * values
    return ResultTable("T", "Model", [("G", f"c{at}") for at in range(values)], [("m", entries)])


def test_bounds_are_written_out_in_any_width() -> None:
    for width, lines in ((100, 1), (30, 2)):
        text = table_text(small(2), width)
        assert text.count("0.53 [0.50, 0.57]") == 2 and text.count("\nm ") == lines


def test_columns_end_at_the_same_place_in_every_row() -> None:
    grid = ResultTable(
        "T", "Model", [("A", "x"), ("A", "y")], [("m", [None, Estimate(0.5)]), ("long", [Estimate(1.0), None])]
    )
    *_, first, second = table_text(grid).splitlines()
    assert (first.index("–"), first.index("0.50")) == (second.index("1.00") + 3, second.index("–") - 3)


def test_what_rounds_to_nothing_has_no_sign() -> None:
    grid = ResultTable("T", "Model", [("A", "x")], [("m", [Estimate(-0.001, -0.004, 0.003)])])
    assert "0.00 [0.00, 0.00]" in table_text(grid)
    assert "-" not in table_text(grid).splitlines()[-1]


def test_no_figures_make_an_empty_table() -> None:
    assert settings_table([], judge="").rows == []
    assert table_text(settings_table([], judge="")).startswith("Table 1")


def test_cells_are_counted_from_their_rows() -> None:
    rows = score_rows(5, model="m")
    due = SettingProgress("m", "full_label", "", "incomplete", "server gone", due=len(rows) + 3)
    skipped = SettingProgress("m", "oracle", "", "skipped", "no label text", due=0)
    cell, untouched = filled_cells([due, skipped], {CellKey("m", "full_label", ""): table(rows)})
    outcomes = [one.outcome for one in rows]
    assert (cell.status, cell.reason, cell.due) == ("incomplete", "server gone", len(rows) + 3)
    assert [cell.answered, cell.refused, cell.unparsed, cell.failed] == [
        outcomes.count(name) for name in ("answered", "refused", "unparsed", "failed")
    ]
    assert cell.unscored == sum(one.grade in ("", "unscored") for one in rows)
    assert cell.prompt_tokens == sum(one.prompt_tokens for one in rows)
    assert cell.cost == pytest.approx(sum(one.cost or 0 for one in rows))
    assert cell.latency_p50 is not None
    assert cell.latency_p95 is not None
    assert cell.latency_p50 <= cell.latency_p95
    assert untouched == skipped


def test_without_prices_a_cell_has_no_cost() -> None:
    rows = [replace(one, cost=None) for one in score_rows(2, model="m")]
    (cell,) = filled_cells(
        [SettingProgress("m", "full_label", "", "done")], {CellKey("m", "full_label", ""): table(rows)}
    )
    assert cell.cost is None
