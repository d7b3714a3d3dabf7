"""The page as a reader's browser gets it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from lxml import html as lxml_html

from fdarx_core.records import Passage, QuestionAnswer, Reject, StageCount
from fdarx_core.report import build_report
from fdarx_core.storage import RunDirectory, read_records, write_records
from tests.report.synthetic_run import SyntheticRun, make_run

HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)> & "dose" < 5 mg\''


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return make_run(tmp_path_factory.mktemp("report") / "run", labels=60, parts=3)


@pytest.fixture(scope="module")
def page(run: RunDirectory) -> str:
    return build_report(run)


def parsed(page: str) -> Any:
    return lxml_html.document_fromstring(page)


def without_scripts(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_page_is_whole_and_has_its_parts(page: str) -> None:
    tree = parsed(page)
    assert page.lstrip().startswith("<!doctype html>")
    assert tree.get("lang") == "en"
    assert [heading.text_content() for heading in tree.iter("h2")] == [
        "What was kept", "Questions", "Labels and passages", "Rejects", "Sample questions", "The run",
    ]  # fmt: skip
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {link.get("href")[1:] for link in tree.iter("a")} <= set(ids)


def test_page_loads_nothing(page: str) -> None:
    tree = parsed(page)
    assert [element.tag for element in tree.iter() if element.get("src")] == []
    assert all(element.get("href", "#").startswith("#") for element in tree.iter())
    assert not list(tree.iter("link", "iframe", "object", "embed"))
    style = next(tree.iter("style")).text_content()
    assert "url(" not in style and "@import" not in style
    assert "default-src 'none'" in page


def test_plotly_is_inlined_once(page: str) -> None:
    assert len(page) < 6 * 2**20
    scripts = [script for script in re.findall(r"<script.*?</script>", page, flags=re.DOTALL) if len(script) > 2**20]
    assert len(scripts) == 1


def test_headline_equals_the_run(run: RunDirectory, page: str) -> None:
    total = sum(run.info()["questions"].values())
    title = parsed(page).findtext(".//title") or ""
    assert title.startswith(f"{total:,} questions from ")


def test_samples_show_gold_passages(page: str, run: RunDirectory) -> None:
    samples = parsed(page).find_class("sample")
    texts = {passage.text for part in run.parts("passages") for passage in read_records(part, Passage)}
    assert len(samples) == 24
    shown = [text.text_content() for sample in samples for text in sample.find_class("text")]
    assert len(shown) == 8 * 1 + 8 * 2
    assert set(shown) <= texts


def test_rejects_have_at_most_three_examples_each(page: str) -> None:
    groups = parsed(page).find_class("reason")
    assert groups
    assert all(1 <= len(group.findall(".//li")) <= 3 for group in groups)


def test_same_run_gives_the_same_page(page: str, run: RunDirectory) -> None:
    assert build_report(run) == page


def test_text_from_labels_is_escaped(tmp_path: Path) -> None:
    made = SyntheticRun(tmp_path / "run")
    made.write_part(0, 12)
    poison(made.run)
    page = build_report(made.finish())
    assert "<img src=x" not in page
    assert "</script><script>alert" not in page
    assert "alert(1)" in without_scripts(page), "the text itself is to be read"
    assert not parsed(page).xpath("//img | //*[@onerror]")


def poison(run: RunDirectory) -> None:
    """Puts markup wherever text of a label, a file name or a model can come to stand."""
    for folder in ("candidates", "questions"):
        rewrite(run, folder, QuestionAnswer, question=HOSTILE, answer=HOSTILE, drug_name=HOSTILE, category=HOSTILE)
    rewrite(run, "passages", Passage, text=HOSTILE, section_path=HOSTILE, core_code=HOSTILE)
    rewrite(run, "rejects", Reject, reason=HOSTILE, detail=HOSTILE, source=HOSTILE, set_id=HOSTILE)


def rewrite(run: RunDirectory, folder: str, record: type, **fields: str) -> None:
    for part in run.parts(folder):
        rows: list[Any] = list(read_records(part, record))
        write_records(part, [replace(row, **fields) for row in rows], record)


def test_page_can_be_made_before_the_run_is_finished(tmp_path: Path) -> None:
    made = SyntheticRun(tmp_path / "run")
    made.write_part(0, 12)
    assert "Sample questions" in build_report(made.run, made.summary())


def test_a_run_with_nothing_selected_still_has_a_page(tmp_path: Path) -> None:
    made = SyntheticRun(tmp_path / "run")
    page = build_report(made.run, made.summary())
    assert "0 questions from 0 drug labels" in page
    assert "Nothing was rejected." in page


def test_counts_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    made = SyntheticRun(tmp_path / "run")
    made.write_part(0, 12)
    summary = made.summary()
    summary["stages"][-2] = asdict(StageCount("rules", 10, 10, 0, 10))
    with pytest.raises(ValueError, match="stage rules"):
        build_report(made.run, json.loads(json.dumps(summary)))
