"""What limits the figures of an evaluation, on a made run and on its page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import html as lxml_html

from fdarx_core.records import Grade, Prediction, QuestionAnswer, SettingProgress
from fdarx_core.report.evaluation_page import build_evaluation_report
from fdarx_core.report.figure_limits import is_comparable, limits
from fdarx_core.storage import RunDirectory, read_records, write_records
from fdarx_core.storage.imported_predictions import GIVEN_ENGINE
from tests.report.synthetic_evaluation import SyntheticEvaluation

pytestmark = pytest.mark.slow

MODEL = "hasty-8b"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return SyntheticEvaluation(tmp_path / "run").run


def cells(run: RunDirectory) -> list[SettingProgress]:
    return list(read_records(run.file("cells.parquet"), SettingProgress))


def parsed(page: str) -> Any:
    return lxml_html.document_fromstring(page)


def regrade(run: RunDirectory, change: Callable[[Grade, Prediction], None]) -> None:
    """Let a model be the judge of the model's answers, and change its grades."""
    for part in run.parts(f"grades/{MODEL}"):
        said = {one.id: one for one in read_records(run.file(f"predictions/{MODEL}/{part.name}"), Prediction)}
        grades = list(read_records(part, Grade))
        for grade in grades:
            if grade.judge == "baseline":
                grade.judge = "strong"
                change(grade, said[grade.prediction_id])
        write_records(part, grades, Grade)


def change_cells(run: RunDirectory, change: Callable[[SettingProgress], None]) -> list[SettingProgress]:
    found = cells(run)
    for cell in found:
        if (cell.model, cell.setting) == (MODEL, "full_label"):
            change(cell)
    write_records(run.file("cells.parquet"), found, SettingProgress)
    return found


def more_lines(run: RunDirectory) -> list[str]:
    """The lines without those on the few replies of the made run that cannot be parsed: 2 of 18."""
    return [line for line in limits(run, cells(run)) if "no_answer" not in line]


def test_a_run_without_faults_has_no_limits(run: RunDirectory) -> None:
    regrade(run, lambda grade, said: None)
    assert more_lines(run) == []


def test_right_answers_word_for_word_that_the_judge_calls_wrong_are_told(run: RunDirectory) -> None:
    gold = {row.id: row.answer for part in run.parts("questions") for row in read_records(part, QuestionAnswer)}
    same = 0

    def deny(grade: Grade, said: Prediction) -> None:
        nonlocal same
        if said.answer == gold[said.question_id]:
            same += 1
            grade.outcome = "incorrect"

    regrade(run, deny)
    [line] = more_lines(run)
    assert line.startswith(f"The judge strong did not call {same} of {same} answers correct that are the gold answer")


def test_replies_that_copy_an_example_are_told(run: RunDirectory) -> None:
    def copy(grade: Grade, said: Prediction) -> None:
        grade.outcome, grade.reason = "unscored", "copied_example"

    regrade(run, copy)
    [line] = more_lines(run)
    assert "repeat an example of its prompt" in line


def test_a_model_that_grades_itself_is_told(run: RunDirectory) -> None:
    def own(cell: SettingProgress) -> None:
        cell.judge, cell.engine, cell.judge_engine = "other-name", "openai big, temperature 0", "openai big, seed 1"

    change_cells(run, own)
    assert more_lines(run) == [
        f"The judge other-name grades answers of its own model ({MODEL}), which favours them. Take another judge."
    ]


def test_a_model_with_many_unusable_replies_is_told_with_reason_and_remedy_and_leads_no_headline(
    run: RunDirectory,
) -> None:
    for part in run.parts(f"predictions/{MODEL}"):
        said = list(read_records(part, Prediction))
        for one in (row for row in said if row.setting == "full_label"):
            one.outcome, one.reason = "unparsed", "truncated_reply: it ends"
        write_records(part, said, Prediction)

    def fail(cell: SettingProgress) -> None:
        cell.unparsed, cell.answered = cell.due, 0

    found = change_cells(run, fail)
    [line] = more_lines(run)
    assert "replies were unusable, most as truncated_reply" in line and "max_tokens" in line
    assert "full_label" in [cell.setting for cell in found if cell.model == MODEL and not is_comparable(cell)]
    headline = parsed(build_evaluation_report(run)).find_class("result")[0].text_content()
    assert MODEL not in headline and "the best of" not in headline.partition(";")[0]


@pytest.mark.parametrize("reason", ["truncated_reply", "unclosed_thought", "empty_reply", "invalid_json", "no_answer"])
def test_answers_of_a_file_that_cannot_be_used_get_no_advice_on_a_model(reason: str, run: RunDirectory) -> None:
    for part in run.parts(f"predictions/{MODEL}"):
        said = list(read_records(part, Prediction))
        for one in (row for row in said if row.setting == "full_label"):
            one.outcome, one.reason = "unparsed", reason
        write_records(part, said, Prediction)

    def give(cell: SettingProgress) -> None:
        cell.unparsed, cell.answered, cell.engine = cell.due, 0, GIVEN_ENGINE

    change_cells(run, give)
    [line] = [line for line in limits(run, cells(run)) if f"most as {reason}." in line and "Full label" in line]
    assert "Correct them there, and grade them again." in line
    assert not any(advice in line for advice in ("Raise", "Take a", "take a", "Set `structured"))


def test_shortened_evidence_is_told_once_on_top_and_tables_and_figures_refer_to_it(run: RunDirectory) -> None:
    def cut(cell: SettingProgress) -> None:
        cell.cut, cell.gold_shown = 12, cell.gold_due - 5

    [cell] = [one for one in change_cells(run, cut) if (one.model, one.setting) == (MODEL, "full_label")]
    [line] = more_lines(run)
    assert line == (
        f"{MODEL} · Full label: labels cut for 12 of {cell.due} questions to fit the context; gold shown for "
        f"{cell.gold_shown} of {cell.gold_due}."
    )
    page = build_evaluation_report(run)
    tree = parsed(page)
    top, tables, figures = (tree.get_element_by_id(name) for name in ("limits-title", "tables", "figures"))
    assert line in top.getparent().text_content()
    assert page.count(line) == 1
    assert all(part.xpath(".//a[@href='#limits-title']") for part in (tables, figures))
    assert page.index("limits-title") < page.index('id="tables"')


def test_no_headline_says_that_a_label_was_whole_where_it_was_cut(run: RunDirectory) -> None:
    def headline() -> str:
        tree = parsed(build_evaluation_report(run))
        return str(tree.find_class("result")[0].text_content())

    assert "from the whole label" in headline()
    found = cells(run)
    for cell in found:
        cell.cut = 3 * (cell.setting == "full_label")
    write_records(run.file("cells.parquet"), found, SettingProgress)
    assert "whole label" not in headline() and "the label, which was cut for 3 questions" in headline()
