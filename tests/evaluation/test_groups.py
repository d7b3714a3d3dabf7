from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.figures import MIN_QUESTIONS, SUBGROUP_METRICS, Group, length_edges, subgroups, type_groups
from fdarx_core.evaluation.metrics import HALLUCINATIONS, ScoreColumns
from tests.evaluation.synthetic_scores import score_rows, table
from tests.evaluation.whole_tables import figures

ROWS = score_rows(12, seed=1)


def filled_subgroups(columns: ScoreColumns, edges: tuple[float, float]) -> list[Group]:
    """Return the subgroups that have rows."""
    return [group for group in subgroups(columns, edges) if group[2].any()]


def test_types_and_what_they_make_together() -> None:
    found = {name: int(rows.sum()) for name, rows in type_groups(ScoreColumns(table(ROWS))).items()}
    by_type = Counter(one.type for one in ROWS)
    assert found == {**by_type, "answerable": by_type["factual"] + by_type["multihop"], "all": len(ROWS)}


@given(st.integers(0, 1000), st.integers(1, 6))
def test_subgroups_part_the_questions(seed: int, labels: int) -> None:
    """All questions by topic, as refusal questions have one too; otherwise the answerable ones."""
    rows = score_rows(labels, seed=seed)
    columns = ScoreColumns(table(rows))
    groups = filled_subgroups(columns, length_edges([table(rows)]))
    for by in ("category", "section", "label_length", "numeric"):
        covered = np.sum([rows for group_by, _, rows in groups if group_by == by], axis=0)
        assert np.array_equal(covered, ~columns.is_in("type", "refusal") | (by == "category"))


def test_a_section_with_few_questions_does_not_stand_alone() -> None:
    sections = Counter(one.section for one in ROWS if one.type != "refusal")
    alone = {name for name, rows in sections.items() if rows >= MIN_QUESTIONS}
    assert 0 < sections["Overdosage"] < MIN_QUESTIONS
    groups = filled_subgroups(ScoreColumns(table(ROWS)), (0, 0))
    found = {name: int(rows.sum()) for by, name, rows in groups if by == "section"}
    assert found == {**{name: sections[name] for name in alone}, "other": sections["Overdosage"]}


def test_a_topic_of_labels_has_figures_however_few_its_questions_are() -> None:
    names = ["Contraindications", "Contraindications", "Odds and ends"]
    rows = [replace(one, category=name) for one, name in zip(ROWS, names, strict=False)]
    found = figures(table(rows), seed=0, resamples=10)
    rates = {
        one.keys["group"]: one for one in found if (one.metric, one.keys["group_by"]) == (HALLUCINATIONS, "category")
    }
    assert {group: one.rows + one.unscored for group, one in rates.items()} == {"Contraindications": 2, "other": 1}


def test_what_is_called_other_goes_with_the_rest() -> None:
    rows = [replace(one, section="" if one.numeric else "other") for one in ROWS]
    groups = filled_subgroups(ScoreColumns(table(rows)), (0, 0))
    assert [name for by, name, _ in groups if by == "section"] == ["other"]


def test_a_third_of_the_labels_is_short_whatever_the_number_of_their_questions() -> None:
    columns = ScoreColumns(table(ROWS))
    groups = filled_subgroups(columns, length_edges([table(ROWS)]))
    by_length = {name: rows for by, name, rows in groups if by == "label_length"}
    assert list(by_length) == ["short", "medium", "long"]
    assert [len(np.unique(columns.cluster_of[rows])) for rows in by_length.values()] == [4, 4, 4]
    longest = [columns.number("label_characters")[rows].max() for rows in by_length.values()]
    assert longest == sorted(longest)


def test_edges_of_the_whole_evaluation_hold_for_a_cell_of_few_labels() -> None:
    some = [one for one in ROWS if one.label_characters <= length_edges([table(ROWS)])[0]]
    found = figures(table(some), seed=0, resamples=10, edges=length_edges([table(ROWS)]))
    assert {one.keys["group"] for one in found if one.keys["group_by"] == "label_length"} == {"short"}


def test_subgroups_have_their_own_few_metrics() -> None:
    found = figures(table(ROWS), seed=0, resamples=10)
    by_group = {by: {one.metric for one in found if one.keys["group_by"] == by} for by in ("section", "category")}
    assert by_group == {"section": {*SUBGROUP_METRICS}, "category": {*SUBGROUP_METRICS, "hallucination_rate"}}
    assert {one.keys["group"] for one in found if one.keys["group_by"] == "numeric"} == {"numeric", "not numeric"}


def test_numeric_questions_are_those_with_a_number_in_the_answer() -> None:
    found = figures(table(ROWS), seed=0, resamples=10)
    verdicts = [one for one in ROWS if one.type != "refusal" and one.numeric]
    right = sum(one.grade == "correct" for one in verdicts)
    graded = sum(one.grade in ("correct", "incorrect", "not_attempted") for one in verdicts)
    figure = next(one for one in found if (one.keys["group"], one.metric) == ("numeric", "accuracy"))
    assert (figure.value, figure.rows) == (right / graded, graded)
