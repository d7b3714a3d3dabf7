"""What annotators hand in: taken whole or refused whole, and never over what stands."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.report.review_pages import annotator_page
from fdarx_core.review.importing import import_annotations
from fdarx_core.review.items import draw_sample
from fdarx_core.review.review_set import Review, open_review, write_review
from fdarx_core.storage import StorageError
from tests.review.synthetic_reviews import ReviewedBuild


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> ReviewedBuild:
    return ReviewedBuild(tmp_path_factory.mktemp("review") / "build", parts=1)


@pytest.fixture
def review(build: ReviewedBuild, tmp_path: Path) -> Review:
    return write_review(str(tmp_path / "set"), draw_sample(build.run, 8), ["anna", "ben"], {}, annotator_page)


def page_file(drawn: Review, path: Path, values: Mapping[int, str], **changed: Any) -> str:
    """A file as the page saves it, with values by the items' numbers; `changed` goes over the file's own keys."""
    items, rest = drawn.items(), {"remark": "", "saw_decision": False, "seconds": 2.5}
    answers = [{"id": items[at].id, "task": items[at].task, "value": value, **rest} for at, value in values.items()]
    about = {"format": 1, "review": drawn.digest, "annotator": "anna", "saved": "2026-01-01T00:00:00Z"}
    path.write_text(json.dumps({**about, "answers": answers, **changed}))
    return str(path)


def first_choices(review: Review) -> dict[int, str]:
    return {at: item.choices[0] for at, item in enumerate(review.items())}


def test_a_pages_file_is_taken_in_with_all_it_says(review: Review, tmp_path: Path) -> None:
    file = page_file(review, tmp_path / "anna.json", first_choices(review))
    done = import_annotations(review, [file])
    assert (done.new, done.known, done.notices) == (len(review.items()), 0, [])
    rows = open_review(str(review.root)).annotations()
    assert {row.item_id: row.value for row in rows} == {item.id: item.choices[0] for item in review.items()}
    assert all((row.annotator, row.seconds, row.saw_decision) == ("anna", 2.5, False) for row in rows)
    tasks = {item.id: item.task for item in review.items()}
    assert all(row.task == tasks[row.item_id] for row in rows)


def test_the_same_file_again_changes_nothing(review: Review, tmp_path: Path) -> None:
    file = page_file(review, tmp_path / "anna.json", first_choices(review))
    import_annotations(review, [file])
    before = {place: place.read_bytes() for place in (review.root / "annotations").list()}
    done = import_annotations(review, [file, file])
    assert (done.new, done.known, done.files) == (0, 2 * len(review.items()), [])
    assert {place: place.read_bytes() for place in (review.root / "annotations").list()} == before


def test_a_partial_file_is_taken_with_its_count_and_filled_up_later(review: Review, tmp_path: Path) -> None:
    values = first_choices(review)
    done = import_annotations(review, [page_file(review, tmp_path / "half.json", {at: values[at] for at in range(3)})])
    assert done.notices == [f"anna: 3 of {len(values)} items are answered, {len(values) - 3} are left"]
    done = import_annotations(review, [page_file(review, tmp_path / "whole.json", values)])
    assert (done.new, done.known, done.notices) == (len(values) - 3, 3, [])
    assert len(review.annotations()) == len(values) and len((review.root / "annotations").list()) == 2


def test_another_value_than_before_is_refused_and_nothing_is_written(review: Review, tmp_path: Path) -> None:
    values = first_choices(review)
    import_annotations(review, [page_file(review, tmp_path / "one.json", {0: values[0]})])
    other = page_file(review, tmp_path / "two.json", {1: values[1], 0: review.items()[0].choices[1]})
    with pytest.raises(ValueError, match=r"two\.json:2: anna gives item .* but .* was handed in before"):
        import_annotations(review, [other])
    assert len(review.annotations()) == 1
    ben = page_file(review, tmp_path / "ben.json", {0: review.items()[0].choices[1]}, annotator="ben")
    assert import_annotations(review, [ben]).new == 1


def test_files_of_one_import_may_not_contradict_each_other(review: Review, tmp_path: Path) -> None:
    choices = review.items()[0].choices
    files = [page_file(review, tmp_path / f"{at}.json", {0: choices[at]}) for at in (0, 1)]
    with pytest.raises(ValueError, match="nothing is overwritten"):
        import_annotations(review, files)
    assert review.annotations() == []


def test_a_later_remark_is_added_once(review: Review, tmp_path: Path) -> None:
    value = review.items()[0].choices[0]
    answer = {"id": review.items()[0].id, "value": value, "saw_decision": True, "seconds": 9}
    import_annotations(review, [page_file(review, tmp_path / "one.json", {0: value})])
    later = page_file(review, tmp_path / "two.json", {}, answers=[{**answer, "remark": "dose / unit"}])
    assert [import_annotations(review, [later]).new for _ in range(2)] == [1, 0]
    (row,) = review.annotations()
    assert (row.remark, row.saw_decision, row.seconds) == ("dose / unit", True, 2.5)


def test_a_remark_without_a_value_is_told_of(review: Review, tmp_path: Path) -> None:
    answer = {"id": review.items()[0].id, "value": "", "remark": "cannot tell"}
    done = import_annotations(review, [page_file(review, tmp_path / "one.json", {}, answers=[answer])])
    assert done.new == 0 and "1 remarks are on items without a value" in done.notices[0]


def sheet(review: Review, path: Path, fill: Callable[[int], Mapping[str, str]]) -> str:
    """items.csv as a spreadsheet writes it back, with more columns filled in."""
    with Path(str(review.root / "items.csv")).open(encoding="utf-8-sig", newline="") as stream:
        rows = [{**row, **fill(at)} for at, row in enumerate(csv.DictReader(stream))]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def test_a_filled_in_sheet_is_taken_with_letters_and_any_case(review: Review, tmp_path: Path) -> None:
    items = review.items()
    small = [at for at, item in enumerate(items) if len(item.choices) <= 3]

    def fill(at: int) -> dict[str, str]:
        value = {small[0]: "B", small[1]: f" {items[small[1]].choices[0].upper()} "}.get(at, "")
        return {"annotator": "ben", "value": value, "remark": "doubtful" if value else ""}

    done = import_annotations(review, [sheet(review, tmp_path / "ben.csv", fill)])
    assert done.new == 2 and done.notices == [f"ben: 2 of {len(items)} items are answered, {len(items) - 2} are left"]
    said = {row.item_id: (row.value, row.remark) for row in review.annotations()}
    assert said == {
        items[small[0]].id: (items[small[0]].choices[1], "doubtful"),
        items[small[1]].id: (items[small[1]].choices[0], "doubtful"),
    }


def test_a_sheet_that_nobody_filled_in_is_told_of(review: Review, tmp_path: Path) -> None:
    done = import_annotations(review, [f"{review.root}/items.csv"])
    assert (done.new, done.files, done.notices) == (0, [], [f"{review.root}/items.csv: nothing is filled in"])


def test_json_lines_are_taken_like_the_sheet(review: Review, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (review.root / "items.jsonl").read_text().split("\n") if line]
    filled = [{**line, "annotator": "ben", "value": line["choices"][-1]} for line in lines[:4]] + lines[4:]
    file = tmp_path / "ben.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in filled))
    assert import_annotations(review, [str(file)]).new == 4


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"review": "0" * 16}, r"bad\.json:1: the row is of review '0{16}', this is"),
        ({"review": None}, "without a review's id"),
        ({"annotator": "eve"}, "there is no annotator 'eve'; known are anna, ben"),
        ({"answers": [{"id": "f" * 16, "value": "correct"}]}, "the review has no item 'f{16}'"),
    ],
)
def test_what_the_review_does_not_have_is_refused(
    review: Review, tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        import_annotations(review, [page_file(review, tmp_path / "bad.json", {0: "relevant"}, **changed)])
    assert review.annotations() == []


def test_a_value_that_is_no_choice_is_refused_with_the_choices(review: Review, tmp_path: Path) -> None:
    item = review.items()[0]
    with pytest.raises(ValueError, match=f"'maybe' is not a value of item {item.id} .*{item.choices[0]}, "):
        import_annotations(review, [page_file(review, tmp_path / "bad.json", {1: "", 0: "maybe"})])


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("cut.json", '{"format": 1, "answers": [', "is not JSON"),
        ("list.json", "[]", "no list of answers"),
        ("new.json", '{"format": 2, "answers": []}', "has format 2"),
        ("time.json", '{"format": 1, "answers": [{"id": "x", "value": "y", "seconds": "long"}]}', "not a duration"),
        ("short.json", '{"format": 1, "answers": [{"id": "x"}]}', "short.json:1 lacks value"),
        ("bare.csv", "id,value\nx,relevant\n", "bare.csv:2 lacks review, annotator"),
        ("line.jsonl", "not json\n", "line.jsonl:1: not_json"),
        ("notes.txt", "", "is not .json, .csv or .jsonl"),
        ("void.json", "", "is empty"),
        ("void.csv", "\n", "is empty"),
    ],
)
def test_files_that_are_not_what_was_saved_are_refused(
    review: Review, tmp_path: Path, name: str, text: str, told: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(StorageError, match=told):
        import_annotations(review, [str(tmp_path / name)])
    assert review.annotations() == []


def test_imports_at_the_same_time_that_disagree_are_found_on_reading(review: Review, tmp_path: Path) -> None:
    choices, kept = review.items()[0].choices, {}
    for at in (0, 1):
        (file,) = import_annotations(review, [page_file(review, tmp_path / f"{at}.json", {0: choices[at]})]).files
        kept[file] = file.read_bytes()
        file.delete()
    for file, written in kept.items():
        file.write_bytes(written)
    with pytest.raises(StorageError, match=r"two values, .* remove one of the two files"):
        review.annotations()
