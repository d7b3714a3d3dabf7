"""An evaluation's page, and several evaluations side by side, as a reader's browser gets them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

import pytest
from lxml import html as lxml_html

from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.records import Difference, Estimate, Figure, Grade, Passage, Prediction, QuestionAnswer, SettingProgress
from fdarx_core.report.evaluation_figures import EvaluationTables
from fdarx_core.report.evaluation_page import build_comparison_page, build_evaluation_report, row_name, run_names
from fdarx_core.report.page_engine import template_macros
from fdarx_core.report.result_sentences import hallucination_sentence, result_sentence
from fdarx_core.report.runs_page import runs_page
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records, write_records
from tests.report.synthetic_evaluation import BROKEN, MODELS, SyntheticEvaluation, make_evaluation

Row = TypeVar("Row")
HOSTILE = '</script><script>alert(1)</script><!--<script>\u2028<img src=x onerror=alert(2)> & "dose" < 5 mg\''


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return make_evaluation(tmp_path_factory.mktemp("evaluation") / "run")


@pytest.fixture(scope="module")
def page(run: RunDirectory) -> str:
    return build_evaluation_report(run)


def parsed(page: str) -> Any:
    return lxml_html.document_fromstring(page)


def data_of(page: str, name: str) -> Any:
    return json.loads(parsed(page).get_element_by_id(name).text_content())


def rows_of(run: RunDirectory, folder: str, record: type[Row]) -> list[Row]:
    return [row for part in run.parts(folder) for row in read_records(part, record)]


def cells_of_table(tree: Any, name: str) -> list[list[str]]:
    rows = tree.get_element_by_id(name).xpath(".//table")[0].xpath(".//tbody/tr")
    return [[" ".join(cell.text_content().split()) for cell in row] for row in rows]


def test_page_is_whole_and_has_its_parts(page: str) -> None:
    tree = parsed(page)
    assert page.lstrip().startswith("<!doctype html>")
    assert [heading.text_content() for heading in tree.iter("h2")] == [
        "Cells that are not done", "What limits these figures", "Tables", "Figures", "Subgroups",
        "Paired differences", "Answers", "Every cell", "The run",
    ]  # fmt: skip
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    links = {link.get("href") for link in tree.iter("a")}
    assert {one.removeprefix("#") for one in links if not one.startswith("answers.html")} <= set(ids)


def test_page_loads_nothing(page: str, run: RunDirectory) -> None:
    for one in (page, build_comparison_page([run])):
        tree = parsed(one)
        assert [element.tag for element in tree.iter() if element.get("src")] == []
        assert all(element.get("href", "#").startswith(("#", "answers.html")) for element in tree.iter())
        style = next(tree.iter("style")).text_content()
        assert "url(" not in style and "@import" not in style
        assert "default-src 'none'" in one
        assert len(one) < 2**20


def test_troubles_stand_at_the_top_with_their_reason(page: str) -> None:
    notice = parsed(page).find_class("notice")[0].text_content()
    assert BROKEN in notice and "500 to every request" in notice
    assert not any(model in notice for model in MODELS)
    assert page.index("Cells that are not done") < page.index('id="tables"')


@pytest.mark.parametrize(
    ("judge", "every", "told"),
    [
        ("strong", 1, "gave no verdict on 54 of 54 answers (wrong shape: grade: Field required); they are unscored"),
        ("strong", 9, "gave no verdict on 6 of 54 answers"),
        ("strong", 30, ""),  # 1 of 54: a judge fails now and then
        ("baseline", 1, ""),  # the built-in grader abstains by design
    ],
)
def test_page_says_how_many_answers_the_judge_left_without_a_verdict(
    judge: str, every: int, told: str, tmp_path: Path
) -> None:
    made, model = SyntheticEvaluation(tmp_path / "run"), "hasty-8b"
    asked = 0
    for part in made.run.parts(f"grades/{model}"):
        oracle = {
            one.id
            for one in read_records(made.run.file(f"predictions/{model}/{part.name}"), Prediction)
            if one.setting == "oracle"
        }
        grades = list(read_records(part, Grade))
        for grade in grades:
            if grade.prediction_id in oracle:
                grade.judge, asked = judge, asked + 1
                grade.outcome, grade.reason, grade.detail = (
                    ("unscored", "wrong_shape", "grade: Field required") if asked % every == 0 else ("correct", "", "")
                )
        write_records(part, grades, Grade)
    cells = [replace(one, unscored=1) for one in read_records(made.run.file("cells.parquet"), SettingProgress)]
    write_records(made.run.file("cells.parquet"), cells, SettingProgress)
    notices = [one.text_content() for one in parsed(build_evaluation_report(made.finish())).find_class("notice")]
    found = [one for one in notices if "without a verdict" in one]
    assert bool(found) == bool(told)
    if told:
        [notice] = found
        assert f"{model}, Oracle: the judge “{judge}” {told}" in notice and notice.count("gave no verdict") == 1


def test_page_says_who_graded(page: str, tmp_path: Path) -> None:
    assert "not from an LLM" in page
    made = SyntheticEvaluation(tmp_path / "run")
    config = {**made.run.info()["config"], "judge": "gpt-4o"}
    assert "not from an LLM" not in build_evaluation_report(made.run, {**made.summary(), "config": config})


def test_notes_on_the_overlap_stand_below_its_table(page: str) -> None:
    noted = [
        one for one in parsed(page).find_class("note") if "METEOR without WordNet: no synonyms." in one.text_content()
    ]
    assert [one.getparent().get("id") for one in noted] == ["overlap-table"]


def test_types_of_questions_stand_in_one_order(page: str) -> None:
    tiles = [one.text_content() for one in parsed(page).find_class("tiles")[0]]
    assert [re.sub(r"[\d,]", "", one) for one in tiles[1:4]] == [
        "factual questions",
        "multi-hop questions",
        "refusal questions",
    ]


def test_the_page_of_a_graded_file_speaks_of_nothing_that_it_has_not(tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run", labels=3)
    figures = [
        replace(one, keys={**one.keys, "setting": "reference"})
        for one in read_records(made.file("metrics.parquet"), Figure)
        if one.keys["setting"] == "closed_book" and one.metric in ("accuracy", "hallucination_rate")
    ]
    write_records(made.file("metrics.parquet"), figures, Figure)
    cells = [SettingProgress(model, "reference", "", "done", due=9, answered=9) for model in MODELS]
    write_records(made.file("cells.parquet"), cells, SettingProgress)
    sides = [{"model": model, "setting": "reference", "retriever": ""} for model in MODELS]
    numbers = Estimate(0.1, -0.1, 0.3, 9, 9)
    compared = [
        Difference.of("accuracy", {"group": group}, numbers, first=sides[0], second=sides[1], p=0.5)
        for group in ("factual", "answerable")
    ]
    write_records(made.file("comparisons.parquet"), compared, Difference)
    page = build_evaluation_report(made, {"benchmark": {"kind": "graded_file", "questions": {}}})
    told = parsed(page)
    for script in told.xpath("//script | //style | //*[@id='run']"):
        script.drop_tree()
    words = told.text_content()
    assert not re.search(r"(?i)\blabels?\b|multi-hop|factual|passage that states the same|FDARxBench|Subgroups", words)
    assert [row[:2] for row in data_of(page, "difference-data")["rows"]] == [["Accuracy", "All questions"]]


def test_table_1_has_the_figures_with_intervals_and_the_best_bold(page: str, run: RunDirectory) -> None:
    found = {
        one.keys["model"]: one
        for one in read_records(run.file("metrics.parquet"), Figure)
        if (one.keys["setting"], one.keys["group_by"], one.keys["group"], one.metric)
        == ("full_label", "type", "factual", "accuracy")
    }
    rows = {name: first for name, first, *_ in cells_of_table(parsed(page), "settings-table")}
    for model in MODELS:
        one = found[model]
        assert rows[model] == f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"
    assert rows[BROKEN] == "–"
    best = max(MODELS, key=lambda model: found[model].value or 0)
    bold = parsed(page).get_element_by_id("settings-table").xpath(".//table")[0].xpath(".//tr[td[1]/b]/th")
    assert [cell.text_content() for cell in bold] == [best]


def test_every_figure_has_its_numbers_in_a_table(page: str) -> None:
    figures = [one for one in parsed(page).iter("figure") if one.find_class("plot")]
    assert [one.get("id") for one in figures] == ["by-setting", "citations", "refusals", "cost"]
    assert all(one.xpath(".//details//tbody/tr") for one in figures)
    by_setting = cells_of_table(parsed(page), "by-setting")
    assert [row[0] for row in by_setting] == [*MODELS, BROKEN]


def test_tokens_stand_in_for_costs_where_nobody_has_prices(run: RunDirectory, tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run")
    figures = [one for one in read_records(made.file("metrics.parquet"), Figure) if one.metric != "cost_per_question"]
    write_records(made.file("metrics.parquet"), figures, Figure)
    assert "Accuracy and tokens" in build_evaluation_report(made)


def test_differences_are_those_of_the_run_the_surest_first(page: str, run: RunDirectory) -> None:
    compared = list(read_records(run.file("comparisons.parquet"), Difference))
    rows = data_of(page, "difference-data")["rows"]
    assert len(rows) == len(compared) > 0
    assert [row[8] for row in rows] == sorted(round(one.p_holm or 0, 5) for one in compared)


def test_answers_are_counted_whole_and_lead_to_their_page(page: str, run: RunDirectory) -> None:
    expected = Counter(
        one.model for model in [*MODELS, BROKEN] for one in rows_of(run, f"predictions/{model}", Prediction)
    )
    counted: Counter[str] = Counter()
    for cell in parsed(page).xpath("//section[@id='answers']//table/tbody/tr"):
        values = [one.text_content() for one in cell]
        counted[values[0]] += sum(map(int, values[2:]))
        for link in cell.xpath(".//a/@href"):
            name, _, asked = link.partition("#")
            assert name == "answers.html" and parse_qs(asked)["model"] == [values[0]]
    assert counted == expected
    assert f"All {expected.total():,} answers" in page


def test_page_leads_with_the_result(page: str, run: RunDirectory) -> None:
    found = {
        one.keys["model"]: one
        for one in read_records(run.file("metrics.parquet"), Figure)
        if (one.metric, one.keys["group"], one.keys["setting"]) == ("accuracy", "answerable", "full_label")
        if one.value is not None
    }
    best = max(found, key=lambda model: found[model].value or 0)
    [result] = parsed(page).find_class("result")
    text = result.text_content()
    one = found[best]
    correct, asked = round((one.value or 0) * one.rows), one.rows + one.unscored
    assert text.startswith(f"{best} (the best of 2) answers {correct} of {asked} factual and multi-hop questions")
    assert f"({100 * correct / asked:.0f} %); {one.rows} of the answers have a grade, and " in text
    assert (
        "of the gold passages among the first five. In these answers " in text
        and "drugs are too few to show any" in text
    )
    assert "(the largest of 2 comparisons, of which none shows a difference)." in text  # on few labels


def test_terms_of_tables_are_explained(page: str) -> None:
    explained = {one.text_content(): one.get("title") for one in parsed(page).iter("abbr")}
    assert {"Fact", "MH", "Ref F1", "recall@5", "nDCG@10", "Due", "Unscored"} <= explained.keys()
    assert all(explained.values())


def test_text_from_labels_and_models_is_escaped(tmp_path: Path) -> None:
    made = SyntheticEvaluation(tmp_path / "run", labels=3)
    for model in MODELS:
        rewrite(made.run, f"predictions/{model}", Prediction, answer=HOSTILE, text=HOSTILE, reason=HOSTILE)
        rewrite(made.run, f"grades/{model}", Grade, reason=HOSTILE, detail=HOSTILE)
    rewrite(
        made.run, "questions", QuestionAnswer, question=HOSTILE, answer=HOSTILE, drug_name=HOSTILE, category=HOSTILE
    )
    rewrite(made.run, "passages", Passage, text=HOSTILE, section_path=HOSTILE)
    cells = [replace(one, reason=HOSTILE) for one in read_records(made.run.file("cells.parquet"), SettingProgress)]
    write_records(made.run.file("cells.parquet"), cells, SettingProgress)
    page = build_evaluation_report(made.finish(), {"notes": [HOSTILE]})
    assert (
        "<img src=x" not in page and "<script>alert" not in page and "<!--" not in page.split("</style>")[1][-200_000:]
    )
    assert not parsed(page).xpath("//img | //*[@onerror]")
    assert HOSTILE in parsed(page).find_class("notice")[0].text_content() or HOSTILE in parsed(page).text_content()


def rewrite(run: RunDirectory, folder: str, record: type, **fields: str) -> None:
    for part in run.parts(folder):
        rows: list[Any] = list(read_records(part, record))
        write_records(part, [replace(row, **fields) for row in rows], record)


def test_script_puts_nothing_in_as_markup() -> None:
    script = files("fdarx_core.report").joinpath("templates/evaluation.js").read_text("utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", script)


def test_page_can_be_made_before_the_run_is_finished(tmp_path: Path) -> None:
    made = SyntheticEvaluation(tmp_path / "run")
    assert "Paired differences" in build_evaluation_report(made.run, made.summary())


def test_a_run_in_which_nothing_came_through_still_has_a_page(tmp_path: Path) -> None:
    made = SyntheticEvaluation(tmp_path / "run", labels=0)
    cell = SettingProgress("m", "full_label", "", "skipped", "the benchmark holds no label texts")
    write_records(made.run.file("cells.parquet"), [cell], SettingProgress)
    page = build_evaluation_report(made.finish())
    assert "the benchmark holds no label texts" in page
    assert "There are no answers." in page


def test_a_subgroup_of_which_nothing_is_graded_has_a_row(tmp_path: Path) -> None:
    run = make_evaluation(tmp_path / "run")
    file = run.file("metrics.parquet")
    figures = list(read_records(file, Figure))
    group = next(one.keys["group"] for one in figures if one.metric == "accuracy" and one.keys["group_by"] == "section")
    ungraded = [
        replace(one, value=None, low=None, high=None, rows=0, unscored=one.rows) if one.keys["group"] == group else one
        for one in figures
    ]
    write_records(file, ungraded, Figure)
    rows = parsed(build_evaluation_report(run)).xpath(f"//table[contains(@class, 'shaded')]//tr[th = '{group}']")
    assert rows and all({cell.text_content() for cell in row[2:]} == {"–"} for row in rows)


def test_same_run_gives_the_same_page(page: str, run: RunDirectory) -> None:
    assert build_evaluation_report(run) == page


def test_runs_side_by_side(run: RunDirectory, tmp_path: Path) -> None:
    other = make_evaluation(tmp_path / "later", seed=1)
    names = run_names([run, other])
    assert names == ["run", "later"]
    row = Difference(
        0.1, 0.05, 0.15, 36, 6, metric="accuracy", keys={"group": "factual"}, p=0.001, p_holm=0.002,
        first={"model": row_name("run", "a"), "setting": "oracle", "retriever": ""},
        second={"model": row_name("later", "a"), "setting": "oracle", "retriever": ""},
    )  # fmt: skip
    page = build_comparison_page([run, other], [row])
    rows = [name for name, *_ in cells_of_table(parsed(page), "settings-table")]
    assert rows == [f"{name} · {model}" for name in names for model in [*MODELS, BROKEN]]
    assert {name for name, *_ in cells_of_table(parsed(page), "retrieval-table")} >= {"run · bm25", "later · cosine"}
    assert data_of(page, "difference-data")["rows"][0][2:4] == ["run · a · Oracle", "later · a · Oracle"]
    assert "not on the same questions" not in page


def rates_of(*models: str, correct: int = 24, rows: int = 43) -> list[Figure]:
    keys = {"setting": "full_label", "retriever": "", "group_by": "type", "group": "answerable"}
    found = Estimate(correct / rows, 0.31, 0.76, rows, 9, 69 - rows)
    retrieval = {"model": "", "setting": "", "retriever": "bm25", "group_by": "type", "group": "answerable"}
    recall = Figure.of("recall_5", retrieval, Estimate(0.9, 0.8, 0.95))
    return [*(Figure.of("accuracy", {"model": model, **keys}, found) for model in models), recall]


def result_of(models: Sequence[str], figures: list[Figure], answered: int = 69) -> str:
    cells = [SettingProgress(one, "full_label", "", "done", "no route", due=69, answered=answered) for one in models]
    return result_sentence(EvaluationTables({}, figures, [], cells, {"q": "factual"}, 1))


def test_the_result_counts_all_questions_and_names_ties_and_failures() -> None:
    first, second = rates_of("alpha"), rates_of("beta", correct=12)
    better = result_of(("alpha", "beta"), [*first, *second[:-1]])
    assert better == (
        "alpha (the best of 2) answers 24 of 69 factual questions correctly from the whole label (35 %); 43 of the "
        "answers have a grade, and 56 % [31 %, 76 %] of these are correct; bm25 finds 90 % [80 %, 95 %] of the gold "
        "passages among the first five."
    )
    tied = result_of(("alpha", "beta"), rates_of("alpha", "beta"))
    assert tied.startswith(
        "alpha and beta are equal from the whole label: each answers 24 of 69 factual questions correctly"
    )
    failed = result_of(("alpha",), [one for one in first if one.metric == "recall_5"], answered=0)
    assert failed == "No model answered a question. The first reason is: no route."


def test_equal_counts_are_those_of_one_setting() -> None:
    settings = ("full_label", "oracle", "closed_book")
    figures = [
        replace(one, keys={**one.keys, "setting": setting})
        for setting, beta in zip(settings, (24, 12, 24), strict=True)
        for one in (*rates_of("alpha")[:1], *rates_of("beta", correct=beta)[:1])
    ]
    cells = [
        SettingProgress(model, one, "", "done", due=69, answered=69) for model in ("alpha", "beta") for one in settings
    ]
    said = result_sentence(EvaluationTables({}, figures, [], cells, {"q": "factual"}, 1))
    assert said.startswith(
        "alpha and beta are equal from the whole label, but not in 1 other setting: each answers 24 of 69"
    )


def test_the_result_of_one_model_has_its_hallucination_rate() -> None:
    accuracy, recall = rates_of("alpha")
    made_up = replace(accuracy, metric="hallucination_rate", value=0.4, low=0.3, high=0.5)
    assert "; its hallucination rate on them is 40 % [30 %, 50 %]; bm25 finds" in result_of(
        ("alpha",), [accuracy, made_up, recall]
    )
    others = [replace(one, keys={**one.keys, "model": "beta"}) for one in (accuracy, made_up)]
    assert "hallucination rate" not in result_of(("alpha", "beta"), [accuracy, made_up, *others, recall])


def test_names_that_are_words_read_well_in_the_result_of_a_graded_file() -> None:
    keys = {"model": "answers", "setting": "reference", "retriever": "", "group_by": "type", "group": "answerable"}
    figures = [Figure.of("accuracy", keys, Estimate(0.5, 0.2, 0.8, 4))]
    cells = [SettingProgress("answers", "reference", "", "done", due=4, answered=4)]
    said = result_sentence(EvaluationTables({}, figures, [], cells, {"q": "factual"}, 1))
    assert said == "50 % [20 %, 80 %] of the graded answers of “answers” are correct by the references."


def rate_difference(
    value: float, low: float, high: float, p: float, setting: str = "full_label", other: str = ""
) -> Difference:
    first, second = (
        {"model": model, "setting": one, "retriever": ""} for model, one in (("a", setting), ("b", other or setting))
    )
    numbers = Estimate(value, low, high, 100, 9)
    return Difference.of("hallucination_rate", {"group": "all"}, numbers, first=first, second=second, p=p, p_holm=p)


@pytest.mark.parametrize(
    ("difference", "told"),
    [
        ((-0.2, -0.3, -0.1, 0.01), "b hallucinates more than a from the whole label by 0.20 [0.10, 0.30], p 0.010."),
        (  # a standard error of 0.3 ÷ 3.92 with 100 questions: 100 × (2.8016 × 0.07653 ÷ 0.1)² = 459.7
            (0.1, -0.05, 0.25, 0.2),
            "No difference in hallucination rate between a and b is shown with 100 questions from the whole label: "
            "a − b is +0.10 [−0.05, +0.25], p 0.200; about 460 would be needed to show one of 0.10.",
        ),
        (
            (0.0, 0.0, 0.0, 1.0),
            "No difference in hallucination rate between a and b is shown with 100 questions from the whole label: "
            "a − b is 0.00 [0.00, 0.00], p 1.000.",
        ),
    ],
)
def test_a_difference_is_shown_or_not_with_the_questions_it_would_take(
    difference: tuple[float, float, float, float], told: str
) -> None:
    assert hallucination_sentence([rate_difference(*difference)]) == told


def test_the_largest_difference_of_all_settings_is_named() -> None:
    equal, large = rate_difference(0, 0, 0, 1.0), rate_difference(-0.6, -0.7, -0.5, 0.0004, "closed_book")
    turned = rate_difference(0.2, 0.1, 0.3, 0.001, "oracle")
    assert hallucination_sentence([equal, large, turned]) == (
        "b hallucinates more than a from memory by 0.60 [0.50, 0.70], p < 0.001 (the largest of 3 comparisons, of "
        "which 2 show a difference, 1 of them with a and b the other way round)."
    )
    few_drugs = replace(large, p=0.0152, p_holm=0.0608)
    assert hallucination_sentence([equal, few_drugs]) == (
        "No difference in hallucination rate between a and b is shown with 100 questions from memory: a − b is −0.60 "
        "[−0.70, −0.50], p 0.061 by Holm's correction, which the interval lacks (the largest of 2 comparisons, of "
        "which none shows a difference)."
    )
    assert "more than a (a from memory, b from the gold passages) by" in hallucination_sentence(
        [rate_difference(-0.6, -0.7, -0.5, 0.01, "closed_book", "oracle")]
    )


def test_nothing_is_bold_where_all_are_equal() -> None:
    equal: list[Estimate | None] = [Estimate(0.5), Estimate(0.25)]
    table = ResultTable("T", "Model", [("", "x"), ("", "y")], [("a", equal), ("b", [Estimate(0.5), Estimate(0.3)])])
    made = lxml_html.fragment_fromstring(str(template_macros("macros.html.j2").grid(table, rivals=True)))
    assert [cell.text_content() for cell in made.iter("b")] == ["0.300"]


def test_runs_that_cannot_be_compared_say_so(run: RunDirectory, tmp_path: Path) -> None:
    other = make_evaluation(tmp_path / "run", labels=3)
    assert "not on the same questions" in build_comparison_page([run, other])
    assert run_names([run, other]) == [str(run.root), str(other.root)]


def test_one_page_lists_the_runs_of_a_folder(run: RunDirectory, page: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="has no runs"):
        runs_page(Location(str(tmp_path)))
    facts = RunDirectory.begin(str(tmp_path / "night/facts"), job="score_factuality", config={}, versions={})
    facts.finish({"result": "small: <b> supports 50 %.", "intake": {"models": {"small": 3}}})
    evaluation = tmp_path / "an evaluation"
    evaluation.mkdir()
    for name in ("run.json", "report.html", "answers.html"):
        info = {**run.info(), "started": "2020-01-01T00:00:00+00:00", "status": "running"}
        (evaluation / name).write_text(json.dumps(info) if name == "run.json" else page)
    (tmp_path / "compared.html").write_text(build_comparison_page([run]))
    (tmp_path / "other.html").write_text("no page of a run")
    asked = [{"endpoint": name, "task": "x"} for name in (*MODELS, "the judge")]
    info = json.loads((evaluation / "run.json").read_text())
    (evaluation / "run.json").write_text(json.dumps({**info, "cells": [{"model": "steady-70b"}], "asked": asked}))
    (tmp_path / "people").mkdir()
    review = {"format": 1, "digest": "d", "annotators": ["anna"], "tasks": [], "written": "2021-01-01T00:00:00+00:00"}
    (tmp_path / "people/review.json").write_text(json.dumps(review))
    (tmp_path / "people/agreement.html").write_text('<p class="result">They agree.</p>')
    text, runs = runs_page(Location(str(tmp_path)))
    tree = parsed(text)
    assert tree.findtext(".//h1") == f"2 runs, 1 review and 1 comparison in the folder “{tmp_path.name}”"
    about = [" ".join(one.text_content().split()) for one in tree.iter("article")]
    assert runs == len(about) == 4
    assert about[-2] == "people Review by people · 1 January 2021, 00:00 UTC They agree. Report"
    assert about[-1].startswith("an evaluation Evaluation · 1 January 2020, 00:00 UTC · running · steady-70b ")
    assert "small: <b> supports 50 %." in next(one for one in about if one.startswith("night/facts"))
    links = [one.get("href") for one in tree.iter("a")]
    assert {"compared.html", "an%20evaluation/report.html", "an%20evaluation/answers.html"} <= set(links)
