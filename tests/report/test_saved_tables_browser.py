"""Tables of a report that a reader saves as CSV and LaTeX, in a real browser."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fdarx_core.report.evaluation_page import build_evaluation_report
from tests.report.synthetic_evaluation import make_evaluation
from tests.serving.browser import browser as chromium

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.service

_SAVED = """async () => {
  const saved = [];
  const make = URL.createObjectURL;
  for (const row of document.querySelectorAll("p.downloads")) {
    const table = row.previousElementSibling.querySelector("table");
    const body = table.tBodies[0].everyRow?.() ?? [...table.tBodies[0].rows];
    const files = {};
    for (const button of row.querySelectorAll("button")) {
      let blob;
      URL.createObjectURL = (one) => { blob = one; return make.call(URL, one); };
      button.click();
      files[button.textContent] = await blob.text();
    }
    const cell = (one) => ({text: one.textContent.replace(/\\s+/g, " ").trim(), ...one.dataset});
    const columns = [...table.tHead.rows].at(-1).cells.length;
    saved.push({...files, columns, rows: body.map((one) => [...one.cells].map(cell))});
  }
  URL.createObjectURL = make;
  return saved;
}"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Each table of an evaluation's report: what its two buttons save, and its cells as the page has them."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here; install one, or set BROWSER_PATH")
    run = make_evaluation(tmp_path_factory.mktemp("tables") / "run")
    report = Path(run.file("report.html").address)
    report.write_text(build_evaluation_report(run))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page: Page = browser.new_page()
        page.goto(report.as_uri())
        saved: list[dict[str, Any]] = page.evaluate(_SAVED)
        browser.close()
    assert len(saved) > 10
    return saved


def test_a_table_saved_as_csv_has_each_value_and_its_bounds(tables: list[dict[str, Any]]) -> None:
    assert sum(bool(cell.get("low")) for table in tables for row in table["rows"] for cell in row) > 50
    for table in tables:
        header, *rows = csv.reader(io.StringIO(table["CSV"]))
        assert len(rows) == len(table["rows"])
        assert {len(row) for row in rows} <= {len(header)}
        for row, cells in zip(rows, table["rows"], strict=True):
            assert row[0] == cells[0]["text"]
            bounds = [one[key] for one in cells if one.get("value") for key in ("value", "low", "high") if key in one]
            assert set(bounds) <= set(row)


def test_a_table_saved_as_latex_has_all_rows_and_compiles_with_booktabs_alone(
    tables: list[dict[str, Any]], tmp_path: Path
) -> None:
    for table in tables:
        _, _, body = table["LaTeX"].partition("\\midrule\n")
        lines = body.partition("\\bottomrule")[0].splitlines()
        assert len(lines) == len(table["rows"])
        assert all(line.endswith(" \\\\") for line in lines)
        assert {len(re.split(r"(?<!\\)&", line)) for line in lines} == {table["columns"]} or not lines
        assert not re.search(r"(?<!\\)[%#_^]", body)
        assert re.search(r"\\caption\{(?!Table \d)", table["LaTeX"]) and re.search(
            r"\\label\{tab:[a-z0-9-]+\}", table["LaTeX"]
        )
    if shutil.which("pdflatex") is None:
        return
    pages = "\\clearpage\n".join(table["LaTeX"] for table in tables)
    text = f"\\documentclass{{article}}\\usepackage{{booktabs}}\n\\begin{{document}}\n{pages}\\end{{document}}\n"
    (tmp_path / "tables.tex").write_text(text)
    made = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "tables.tex"], cwd=tmp_path, capture_output=True, check=False
    )
    said = made.stdout.decode(errors="replace")
    assert made.returncode == 0, re.findall(r"^! .*$", said, re.M)
    assert "Missing character" not in said
