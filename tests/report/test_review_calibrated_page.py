"""An evaluation's page with accuracies calibrated by people's annotations."""

from __future__ import annotations

from typing import Any

from lxml import html

from fdarx_core.evaluation.tables import Column, ResultTable
from fdarx_core.records import Estimate
from fdarx_core.report.evaluation_page import build_evaluation_report
from fdarx_core.storage import RunDirectory
from tests.report.synthetic_evaluation import make_evaluation

COLUMNS: list[Column] = [("Accuracy", name) for name in ("judge alone", "calibrated", "people alone")]
HOSTILE = "<i>hasty</i> · oracle"
"""A model's name may hold anything."""
ROWS: list[tuple[str, list[Estimate | None]]] = [
    (
        f"{HOSTILE} (31 of 720)",
        [Estimate(0.8, 0.78, 0.82), Estimate(0.7, 0.6, 0.79), Estimate(0.69, 0.55, 0.8)],
    ),
    ("steady · oracle (3 of 720)", [Estimate(0.9, 0.88, 0.92), None, None]),
]


def made(run: RunDirectory, *tables: ResultTable) -> Any:
    return html.fromstring(build_evaluation_report(run, calibrated=tables))


def test_tables_stand_whole_and_none_is_the_best(tmp_path: Any) -> None:
    run = make_evaluation(tmp_path / "run", labels=2)
    grids = [ResultTable(title, "Answers", COLUMNS, ROWS, ["By anna."]) for title in ("On all", "On factual")]
    page = made(run, *grids)
    section = page.get_element_by_id("calibrated")
    for at, grid in enumerate(grids, 1):
        card = page.get_element_by_id(f"calibrated-{at}")
        assert card.find("h3").text == grid.title
        assert [row.find("th").text_content() for row in card.xpath(".//tbody/tr")] == [name for name, _ in ROWS]
        cells = [" ".join(cell.text_content().split()) for cell in card.xpath(".//tbody/tr/td")]
        assert cells == ["0.800 0.780–0.820", "0.700 0.600–0.790", "0.690 0.550–0.800", "0.900 0.880–0.920", "–", "–"]
        assert not card.xpath(".//b")
        assert "By anna." in card.text_content()
    assert not section.xpath(".//i[text()='hasty']")
    assert page.xpath("//nav/a[@href='#calibrated']")


def test_the_figure_s_numbers_are_judge_and_calibrated(tmp_path: Any) -> None:
    page = made(make_evaluation(tmp_path / "run", labels=2), ResultTable("On all", "Answers", COLUMNS, ROWS))
    table = page.get_element_by_id("calibrated-figure").xpath(".//details//table")[0]
    assert [cell.text_content() for cell in table.xpath(".//th")] == [
        "Answers", "judge alone", "95 %", "calibrated", "95 %"
    ]  # fmt: skip
    rows = [[cell.text_content() for cell in row] for row in table.xpath(".//tbody/tr")]
    assert rows[0] == [ROWS[0][0], "0.800", "0.780–0.820", "0.700", "0.600–0.790"]
    assert rows[1][3:] == ["–", "–"]


def test_without_labels_nothing_speaks_of_them(tmp_path: Any) -> None:
    page = made(make_evaluation(tmp_path / "run", labels=1))
    assert not page.xpath("//*[starts-with(@id, 'calibrated')]")
    assert not page.xpath("//a[@href='#calibrated']")
