"""An evaluation's page, and several evaluations side by side, as a reader's browser gets them."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import pytest
from lxml import html as lxml_html

from fdarx_core.records import (
    Difference,
    Equivalence,
    Figure,
    Grade,
    Passage,
    Prediction,
    QuestionAnswer,
    SettingProgress,
)
from fdarx_core.report.evaluation_page import build_comparison_page, build_evaluation_report, row_name, run_names
from fdarx_core.report.wrong_answers import BUDGET, IN_ALL, PER_CELL, collect_wrong, kind_of
from fdarx_core.storage import RunDirectory, read_records, write_records
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
        "Cells that are not done", "Tables", "Figures", "Subgroups", "Paired differences", "Wrong answers",
        "Every cell", "The run",
    ]  # fmt: skip
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {link.get("href")[1:] for link in tree.iter("a")} <= set(ids)


def test_page_loads_nothing(page: str, run: RunDirectory) -> None:
    for one in (page, build_comparison_page([run])):
        tree = parsed(one)
        assert [element.tag for element in tree.iter() if element.get("src")] == []
        assert all(element.get("href", "#").startswith("#") for element in tree.iter())
        style = next(tree.iter("style")).text_content()
        assert "url(" not in style and "@import" not in style
        assert "default-src 'none'" in one
    assert (
        len([script for script in re.findall(r"<script.*?</script>", page, flags=re.DOTALL) if len(script) > 2**20])
        == 1
    )


def test_troubles_stand_at_the_top_with_their_reason(page: str) -> None:
    notice = parsed(page).find_class("notice")[0].text_content()
    assert BROKEN in notice and "500 to every request" in notice
    assert not any(model in notice for model in MODELS)
    assert page.index("Cells that are not done") < page.index('id="tables"')


def test_page_says_who_graded(page: str, tmp_path: Path) -> None:
    assert "not from an LLM" in page
    made = SyntheticEvaluation(tmp_path / "run")
    config = {**made.run.info()["config"], "judge": "gpt-4o"}
    assert "not from an LLM" not in build_evaluation_report(made.run, {**made.summary(), "config": config})


def test_notes_of_the_run_are_shown(page: str) -> None:
    assert "METEOR without WordNet: no synonyms." in page


def test_table_1_has_the_figures_with_intervals_and_the_best_bold(page: str, run: RunDirectory) -> None:
    found = {
        one.keys["model"]: one
        for one in read_records(run.file("metrics.parquet"), Figure)
        if (one.keys["setting"], one.keys["group_by"], one.keys["group"], one.metric)
        == ("full_label", "type", "factual", "accuracy")
    }
    rows = {name: first for name, first, *_ in cells_of_table(parsed(page), "table-1")}
    for model in MODELS:
        one = found[model]
        assert rows[model] == f"{one.value:.3f} {one.low:.3f}–{one.high:.3f}"
    assert rows[BROKEN] == "–"
    best = max(MODELS, key=lambda model: found[model].value or 0)
    bold = parsed(page).get_element_by_id("table-1").xpath(".//table")[0].xpath(".//tr[td[1]/b]/th")
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


def test_wrong_answers_are_counted_whole(page: str, run: RunDirectory) -> None:
    types = {one.id: one.type for one in rows_of(run, "questions", QuestionAnswer)}
    expected: Counter[str] = Counter()
    for model in [*MODELS, BROKEN]:
        grades = {one.prediction_id: one.outcome for one in rows_of(run, f"grades/{model}", Grade)}
        for one in rows_of(run, f"predictions/{model}", Prediction):
            right = one.outcome == "refused" if types[one.question_id] == "refusal" else grades[one.id] == "correct"
            expected[model] += not right
    counted: Counter[str] = Counter()
    for cell in parsed(page).xpath("//section[@id='wrong']//table/tbody/tr"):
        values = [one.text_content() for one in cell]
        counted[values[0]] += sum(map(int, values[2:]))
    assert counted == expected
    assert f"There are {expected.total():,} wrong answers" in page


def test_wrong_answers_show_all_that_a_reviewer_needs(page: str, run: RunDirectory) -> None:
    data = data_of(page, "wrong-data")
    predictions = {one.id: one for model in MODELS for one in rows_of(run, f"predictions/{model}", Prediction)}
    questions = {one.id: one for one in rows_of(run, "questions", QuestionAnswer)}
    texts = {(one.set_id, one.marker): one.text for one in rows_of(run, "passages", Passage)}
    seen = [item for item in data["items"] if item["id"] in predictions]
    assert {item["kind"] for item in seen} >= {
        "Incorrect answer",
        "False refusal",
        "Answer to an unanswerable question",
    }
    for item in seen:
        said, asked = predictions[item["id"]], data["questions"][item["question"]]
        question = questions[said.question_id]
        assert (asked["text"], asked["gold"]) == (question.question, question.answer)
        assert item["answer"] == (said.answer if said.outcome == "answered" else said.text)
        assert item["finding"]
        for marker, _, text, set_id in data["passages"]:
            assert texts[set_id, marker] == text


def test_evidence_tells_retrieval_from_reading_failures(page: str, run: RunDirectory) -> None:
    data = data_of(page, "wrong-data")
    predictions = {one.id: one for model in MODELS for one in rows_of(run, f"predictions/{model}", Prediction)}
    questions = {one.id: one for one in rows_of(run, "questions", QuestionAnswer)}
    same = {one.question_id: set(one.members) for one in rows_of(run, "equivalences", Equivalence)}
    checked: Counter[str] = Counter()
    for item in data["items"]:
        said = predictions.get(item["id"])
        if said is None or item["kind"] not in ("Incorrect answer", "False refusal") or said.setting != "retrieved":
            continue
        question = questions[said.question_id]
        found = set(question.gold_passages) & set(said.shown)
        if same.get(question.id, set()) & set(said.shown):
            continue
        expected = "Gold shown: a reading failure" if len(found) == len(question.gold_passages) else (
            "Gold shown in part" if found else "Gold not shown: a retrieval failure"
        )  # fmt: skip
        assert item["evidence"] == expected
        checked[expected] += 1
    assert len(checked) == 3


def test_cited_passages_say_whether_they_are_gold_or_state_the_same(tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run")
    model = next(iter(MODELS))
    question = next(one for one in rows_of(made, "questions", QuestionAnswer))
    parts = made.parts(f"predictions/{model}")
    said = list(read_records(parts[0], Prediction))
    ours = [one for one in said if (one.question_id, one.setting) == (question.id, "full_label")]
    changed = replace(
        ours[0], outcome="answered", answer="wrong", cited=[*question.gold_passages, 5, 7], cited_unknown=1
    )
    write_records(parts[0], [changed if one.id == changed.id else one for one in said], Prediction)
    grades = made.parts(f"grades/{model}")[0]
    graded = [replace(one, outcome="incorrect", reason="number_contradicted", detail="5 mg, not 7 mg", judge="gpt-4o")
              if one.prediction_id == changed.id else one for one in read_records(grades, Grade)]  # fmt: skip
    write_records(grades, graded, Grade)
    item = next(one for one in data_of(build_evaluation_report(made), "wrong-data")["items"] if one["id"] == changed.id)
    assert [mark for _, mark, _ in item["cited"]["passages"]] == ["gold", "same", ""]
    assert item["cited"]["passages"][1][2] == "states the same as PASSAGE_0000 (near duplicate)"
    assert item["finding"] == "The judge gpt-4o found it incorrect: a number differs from the gold answer's."
    assert item["detail"] == "“5 mg, not 7 mg”"
    assert (
        "It cites 3 passages: 1 gold, 1 that states the same, 1 other. It also names 1 passage that it was not shown."
        in item["notes"]
    )


def regraded(run: RunDirectory, cited: list[int], reason: str, detail: str) -> tuple[QuestionAnswer, Any]:
    """A question with two gold passages, answered with these citations and graded so, and its entry on the page."""
    model = next(iter(MODELS))
    question = next(one for one in rows_of(run, "questions", QuestionAnswer) if len(one.gold_passages) == 2)
    predictions, grades = run.parts(f"predictions/{model}")[0], run.parts(f"grades/{model}")[0]
    said = list(read_records(predictions, Prediction))
    ours = next(one for one in said if (one.question_id, one.setting) == (question.id, "full_label"))
    changed = replace(ours, outcome="answered", answer="wrong", cited=cited, cited_unknown=0)
    write_records(predictions, [changed if one.id == ours.id else one for one in said], Prediction)
    graded = [
        replace(one, outcome="incorrect", reason=reason, detail=detail, judge="baseline")
        if one.prediction_id == ours.id
        else one
        for one in read_records(grades, Grade)
    ]
    write_records(grades, graded, Grade)
    items = data_of(build_evaluation_report(run), "wrong-data")["items"]
    return question, next(one for one in items if one["id"] == ours.id)


@pytest.mark.parametrize(
    ("reason", "detail", "expected"),
    [
        ("number_missing", "30 mL/min", "Missing: 30 mL/min"),
        ("unsupported_number", "40 mg", "Not in the gold answer: 40 mg"),
        ("number_contradicted", "5 mg instead of 7 mg", "5 mg instead of 7 mg"),
    ],
)
def test_the_baselines_details_say_what_they_are(tmp_path: Path, reason: str, detail: str, expected: str) -> None:
    assert regraded(make_evaluation(tmp_path / "run"), [], reason, detail)[1]["detail"] == expected


def test_gold_passages_that_are_not_cited_are_told(tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run")
    gold = next(one for one in rows_of(made, "questions", QuestionAnswer) if len(one.gold_passages) == 2).gold_passages
    _, one = regraded(made, gold[:1], "key_content_missing", "x")
    assert "It cites 1 passage: 1 gold. 1 of the 2 gold passages is not cited." in one["notes"]
    _, both = regraded(made, gold, "key_content_missing", "x")
    assert "It cites 2 passages: 2 gold." in both["notes"]


def test_refusals_from_memory_are_shown_less_than_others(tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run")
    asked = next(one for one in rows_of(made, "questions", QuestionAnswer) if one.type == "factual")
    part = made.parts(f"predictions/{next(iter(MODELS))}")[0]
    many = [
        Prediction(f"{setting}-{place}", asked.id, asked.set_id, "m", setting, outcome="refused", text="I do not know.")
        for setting in ("closed_book", "full_label")
        for place in range(50)
    ]
    write_records(part, many, Prediction)
    types = {one.id: one.type for one in rows_of(made, "questions", QuestionAnswer)}
    picked = collect_wrong(made, [next(iter(MODELS))], types, 0)[1]
    found = Counter(one.prediction.setting for one in picked if one.kind == "false_refusal")
    assert found["closed_book"] == 10 < found["full_label"]


def test_sample_is_bounded_and_the_same_on_any_machine(run: RunDirectory) -> None:
    types = {one.id: one.type for one in rows_of(run, "questions", QuestionAnswer)}
    models = [*MODELS, BROKEN]
    one, again, other = (collect_wrong(run, models, types, seed) for seed in (0, 0, 1))
    assert [wrong.prediction.id for wrong in one[1]] == [wrong.prediction.id for wrong in again[1]]
    assert {wrong.prediction.id for wrong in one[1]} != {wrong.prediction.id for wrong in other[1]}
    cells = Counter((wrong.prediction.model, wrong.prediction.setting, wrong.prediction.retriever) for wrong in one[1])
    assert max(cells.values()) <= PER_CELL and cells.total() <= IN_ALL
    assert set(cells) == {cell for cell, _ in one[0]}


def test_a_page_stays_small_whatever_models_say(tmp_path: Path) -> None:
    made = make_evaluation(tmp_path / "run", labels=2)
    for model in MODELS:
        rewrite(made, f"predictions/{model}", Prediction, answer="so " * 100_000)
    page = build_evaluation_report(made)
    assert len(data_of(page, "wrong-data")["items"]) >= 10
    assert len(page) < BUDGET + 6 * 2**20


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
    assert HOSTILE in {asked["text"] for asked in data_of(page, "wrong-data")["questions"]}, "the text is to be read"


def rewrite(run: RunDirectory, folder: str, record: type, **fields: str) -> None:
    for part in run.parts(folder):
        rows: list[Any] = list(read_records(part, record))
        write_records(part, [replace(row, **fields) for row in rows], record)


def test_script_puts_nothing_in_as_markup() -> None:
    script = files("fdarx_core.report").joinpath("templates/evaluation.js").read_text("utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", script)


def test_page_can_be_made_before_the_run_is_finished(tmp_path: Path) -> None:
    made = SyntheticEvaluation(tmp_path / "run")
    assert "Wrong answers" in build_evaluation_report(made.run, made.summary())


def test_a_run_in_which_nothing_came_through_still_has_a_page(tmp_path: Path) -> None:
    made = SyntheticEvaluation(tmp_path / "run", labels=0)
    cell = SettingProgress("m", "full_label", "", "skipped", "the benchmark holds no label texts")
    write_records(made.run.file("cells.parquet"), [cell], SettingProgress)
    page = build_evaluation_report(made.finish())
    assert "the benchmark holds no label texts" in page
    assert "There are no wrong answers." in page


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


@pytest.mark.parametrize(
    ("type_", "outcome", "grade", "expected"),
    [
        ("factual", "answered", "correct", None),
        ("factual", "answered", "incorrect", "incorrect"),
        ("multihop", "answered", "not_attempted", "not_attempted"),
        ("factual", "refused", "not_attempted", "false_refusal"),
        ("refusal", "refused", "not_attempted", None),
        ("refusal", "answered", "incorrect", "hallucinated"),
        ("refusal", "unparsed", "unscored", "unparsed"),
        ("factual", "failed", "unscored", "failed"),
        ("factual", "answered", "unscored", "unscored"),
        ("factual", "answered", "", "unscored"),
    ],
)
def test_kinds_of_wrong_answers(type_: str, outcome: str, grade: str, expected: str | None) -> None:
    assert kind_of(type_, outcome, grade) == expected


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
    rows = [name for name, *_ in cells_of_table(parsed(page), "table-1")]
    assert rows == [f"{name} · {model}" for name in names for model in [*MODELS, BROKEN]]
    assert {name for name, *_ in cells_of_table(parsed(page), "table-2")} >= {"run · bm25", "later · cosine"}
    assert data_of(page, "difference-data")["rows"][0][2:4] == ["run · a · Oracle", "later · a · Oracle"]
    assert "not on the same questions" not in page


def test_runs_that_cannot_be_compared_say_so(run: RunDirectory, tmp_path: Path) -> None:
    other = make_evaluation(tmp_path / "run", labels=3)
    assert "not on the same questions" in build_comparison_page([run, other])
    assert run_names([run, other]) == [str(run.root), str(other.root)]
