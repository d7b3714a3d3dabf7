"""Reviews in Label Studio: whole items go out, and the same marks come back as from the own page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from fdarx_core.report.review_pages import annotator_page
from fdarx_core.review.items import draw_sample
from fdarx_core.review.review_set import Review, open_review, write_review
from fdarx_core.review.tasks import REVIEW_TASKS, passages_html, pieces_of
from tests.jobs.in_process import run_job
from tests.review.synthetic_reviews import HOSTILE, ReviewedBuild, ReviewedEvaluation, hashed

PEOPLE = {"anna": 1, "ben": 2, "cara": 3}
"""The annotators, each with the id of the user."""
TAGS = {
    "View": set[str](),
    "Header": {"value", "size"},
    "Text": {"name", "value"},
    "HyperText": {"name", "value", "inline"},
    "Choices": {"name", "toName", "choice", "required"},
    "Choice": {"value", "alias"},
    "TextArea": {"name", "toName", "placeholder", "maxSubmissions"},
}
"""The tags and parameters in use, as labelstud.io/tags documents them."""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> ReviewedBuild:
    return ReviewedBuild(tmp_path_factory.mktemp("review") / "build", parts=1)


@pytest.fixture
def review(build: ReviewedBuild, tmp_path: Path) -> Review:
    return write_review(str(tmp_path / "set"), draw_sample(build.run, 8), list(PEOPLE), {}, annotator_page)


def mark_of(person: str, choices: list[str], item: str) -> tuple[str, str]:
    """Value and remark that a person gives an item; people agree on most items."""
    at = 1 if hashed(person, item) < 0.3 else 0
    return choices[at], f"{person}: 1 < 2 & so on" if at else ""


def marked_on_the_page(review: Review, folder: Path) -> list[Path]:
    """The files that the pages of all annotators save."""
    files = []
    for person in PEOPLE:
        said = [(item, *mark_of(person, item.choices, item.id)) for item in review.items()]
        answers = [{"id": item.id, "value": value, "remark": remark, "seconds": 2} for item, value, remark in said]
        files.append(folder / f"{person}.json")
        page = {"format": 1, "review": review.digest, "annotator": person, "answers": answers}
        files[-1].write_text(json.dumps(page))
    return files


def exported(review: Review, *more: str) -> Path:
    out = Path(str(review.root)) / "label-studio"
    done = run_job("review", "export", review.root, "--to", "label-studio", "--out", out, *more)
    assert done.returncode == 0, done.stderr
    return out


def label_studio_results(task: Mapping[str, Any], person: str) -> list[dict[str, Any]]:
    value, remark = mark_of(person, list(REVIEW_TASKS[task["data"]["task"]].options), task["data"]["item"])
    place = {"to_name": "context", "id": "x", "origin": "manual"}
    results = [{"from_name": "mark", "type": "choices", "value": {"choices": [value]}, **place}]
    said = {"from_name": "remark", "type": "textarea", "value": {"text": [remark]}, **place}
    return results + [said] * bool(remark)


def label_studio_json(folder: Path, out: Path) -> Iterator[Path]:
    """Label Studio's export JSON of each project, after all people have annotated its tasks."""
    for file in sorted(folder.glob("*.json")):
        tasks = json.loads(file.read_text("utf-8"))
        for number, task in enumerate(tasks, 1):
            made = [(user, label_studio_results(task, person)) for person, user in PEOPLE.items()]
            annotations = [{"completed_by": user, "result": results, "lead_time": 2.0} for user, results in made]
            task |= {"id": number, "annotations": [{"id": 9, "was_cancelled": False, **one} for one in annotations]}
        (out / file.name).write_text(json.dumps(tasks))
        yield out / file.name


def label_studio_json_min(folder: Path, out: Path) -> Iterator[Path]:
    """Label Studio's export JSON_MIN: a row for each annotation, with the task's data beside the values."""
    for file in sorted(folder.glob("*.json")):
        rows = []
        for number, task in enumerate(json.loads(file.read_text("utf-8")), 1):
            for person, user in PEOPLE.items():
                values = {one["from_name"]: one["value"] for one in label_studio_results(task, person)}
                mark, remark = values["mark"]["choices"][0], values.get("remark", {}).get("text", [None])[0]
                said = {"mark": mark} | ({"remark": remark} if remark else {})
                ids = {"id": number, "annotator": user, "annotation_id": number * 10 + user, "lead_time": 2.0}
                rows.append({**task["data"], **said, **ids})
        (out / file.name).write_text(json.dumps(rows))
        yield out / file.name


@pytest.mark.parametrize("annotate", [label_studio_json, label_studio_json_min], ids=["json", "json-min"])
def test_marks_from_label_studio_give_the_agreement_of_the_same_marks_on_the_page(
    review: Review, build: ReviewedBuild, tmp_path: Path, annotate: Callable[[Path, Path], Iterator[Path]]
) -> None:
    (tmp_path / "back").mkdir()
    files = list(annotate(exported(review), tmp_path / "back"))
    done = run_job("review", "import", review.root, *files)
    assert done.returncode == 2 and "annotations are by users who are no annotators" in done.stderr
    assert all(f"{number} (" in done.stderr for number in PEOPLE.values()) and not review.annotations()
    users = [f"{number}={name}" for name, number in PEOPLE.items()]
    done = run_job("review", "import", review.root, *files, "--users", *users)
    assert done.returncode == 0, done.stderr
    assert f"{3 * len(review.items())} annotations were taken in" in done.stdout
    own = write_review(str(tmp_path / "own"), draw_sample(build.run, 8), list(PEOPLE), {}, annotator_page)
    assert run_job("review", "import", own.root, *marked_on_the_page(own, tmp_path)).returncode == 0
    said = [
        {(one.annotator, one.item_id): (one.value, one.remark, one.saw_decision) for one in which.annotations()}
        for which in (review, own)
    ]
    assert said[0] == said[1] and {remark for _, remark, _ in said[0].values()} > {""}
    for which in (review, own):
        assert run_job("review", "report", which.root, "--resamples", 100, "-q").returncode == 0
    both = [json.loads((which.root / "agreement.json").read_bytes()) for which in (review, own)]
    assert both[0] == both[1] and both[0]["figures"]


def test_label_studio_gets_what_the_page_shows_and_a_configuration_of_documented_tags(
    review: Review, build: ReviewedBuild, tmp_path: Path
) -> None:
    graded = draw_sample(ReviewedEvaluation(tmp_path / "evaluation", build).run, 6)
    grades = write_review(str(tmp_path / "grades"), graded, ["anna"], {}, annotator_page)
    for which in (review, grades):
        items = {item.id: item for item in which.items()}
        for file in exported(which, "--show-decisions").glob("*.xml"):
            config: Any = etree.fromstring(file.read_bytes())
            assert all(one.tag in TAGS and set(one.attrib) <= TAGS[one.tag] for one in config.iter())
            shown = {one.get("value").removeprefix("$") for one in config.iter("Text", "HyperText")}
            names = {one.get("name") for one in config.iter("Text", "HyperText", "Choices", "TextArea")}
            assert {one.get("toName") for one in config.iter("Choices", "TextArea")} <= names
            task = REVIEW_TASKS[file.stem]
            assert {one.get("alias"): one.get("value") for one in config.iter("Choice")} == task.options
            for row in json.loads(file.with_suffix(".json").read_text("utf-8")):
                data, item = row["data"], items[row["data"]["item"]]
                assert shown <= data.keys() and {"gold", "answer"} & data.keys() == {"gold", "answer"} & shown
                assert data["question"] == item.question and data.get("answer", item.answer) == item.answer
                assert data.get("gold", item.gold) == item.gold and data["context"] == passages_html(item)
                predicted = [mark for made in row["predictions"] for mark in made["result"]]
                assert [mark["value"]["choices"] for mark in predicted] == ([[item.decision]] if item.decision else [])
                assert all({mark["from_name"], mark["to_name"]} <= names for mark in predicted)
            assert ("gold" in shown) == (task.name == "grade") and ("answer" in shown) == task.shows_answer


def test_passages_are_one_line_of_html_with_the_sentences_marked_and_nothing_that_runs(review: Review) -> None:
    for item in review.items():
        html = passages_html(item)
        tree: Any = etree.HTML(html)
        assert "\n" not in html and HOSTILE not in html and not tree.xpath("//script | //img")
        near = [text for kind, text in pieces_of(item) if kind == "near"]
        assert ["".join(one.itertext()) for one in tree.iter("mark")] == [text.replace("\u2028", "") for text in near]
        if item.task == "correctness" and item.type != "refusal":
            assert near
        text = unescape(html.replace("<br>", "\n").replace("<mark>", "").replace("</mark>", ""))
        assert text == f"<div>{item.context.replace(chr(0x2028), chr(10))}</div>"


def test_decisions_are_shown_only_on_request(review: Review) -> None:
    assert any(item.decision for item in review.items())
    hidden = [shown_decisions(file) for file in exported(review).glob("*.json")]
    assert hidden and not any(hidden)
    assert any(map(shown_decisions, exported(review, "--show-decisions").glob("*.json")))


def shown_decisions(file: Path) -> list[Any]:
    """The judge's decisions that a file shows to annotators."""
    return [row["predictions"] for row in json.loads(file.read_text("utf-8")) if row["predictions"]]


def test_what_is_no_mark_is_counted_by_its_reason(review: Review, tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    file = next(label_studio_json(exported(review, "--show-decisions"), tmp_path / "back"))
    tasks = json.loads(file.read_text())
    tasks[0]["annotations"][0]["was_cancelled"] = True
    tasks[0]["annotations"][1]["result"] = []
    tasks[1]["annotations"] = []
    file.write_text(json.dumps(tasks))
    total = 3 * len(tasks) - 3
    users = ["1=anna", "2=ben", "3="]
    done = run_job("review", "import", review.root, file, "--users", *users)
    assert done.returncode == 0, done.stderr
    expected = f"{total} annotations on {len(tasks)} items: {2 * len(tasks) - 4} read, {len(tasks) - 1} of users whom"
    assert expected in done.stderr and "1 skipped, 1 without a mark; 1 items have no annotation" in done.stderr
    marks = {(one.annotator, one.item_id): one for one in review.annotations()}
    assert len(marks) == 2 * len(tasks) - 4
    decided = {item.id for item in review.items() if item.decision}
    assert all(mark.saw_decision == (item in decided) for (_, item), mark in marks.items())


def test_marks_outside_the_options_are_counted_and_nothing_is_imported(review: Review, tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    file = next(label_studio_json(exported(review), tmp_path / "back"))
    tasks = json.loads(file.read_text())
    for task in tasks[:3]:
        task["annotations"][0]["result"][0]["value"]["choices"] = ["Good enough"]
    file.write_text(json.dumps(tasks))
    done = run_job("review", "import", review.root, file, "--users", "1=anna", "2=ben", "3=cara")
    assert done.returncode == 2 and not open_review(str(review.root)).annotations()
    assert "'Good enough' is not a value of item" in done.stderr and "2 further rows" in done.stderr


def test_tasks_of_another_project_are_refused(review: Review, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(json.dumps([{"id": 1, "data": {"text": "x"}, "annotations": []}]))
    done = run_job("review", "import", review.root, file)
    assert done.returncode == 2 and "other.json:1: not a task of `fdarx review export`" in done.stderr
