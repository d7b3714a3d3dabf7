"""An annotator's page in a real browser, from a file: judged through the keyboard, saved, taken in, reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.report.review_pages import annotator_page
from fdarx_core.review.items import draw_sample
from fdarx_core.review.review_set import Review, open_review, write_review
from jobs.cli import main
from tests.review.synthetic_reviews import HOSTILE, ReviewedBuild, ReviewedEvaluation
from tests.serving.browser import browser as chromium

pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright: pip install 'fdarx[test]'")
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import BrowserType, Page

pytestmark = pytest.mark.service
ITEMS = 20
ASKED = """byId("file").addEventListener("click", (event) => {
  event.preventDefault();
  byId("file").dataset.asked = "yes";
}, { once: true })"""


@pytest.fixture(scope="module")
def engine() -> Iterator[BrowserType]:
    with sync_playwright() as playwright:
        yield playwright.chromium


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> ReviewedBuild:
    return ReviewedBuild(tmp_path_factory.mktemp("review") / "build")


@pytest.fixture
def review(build: ReviewedBuild, tmp_path: Path) -> Review:
    drawn = draw_sample(build.run, ITEMS, tasks=["correctness"])
    return write_review(str(tmp_path / "set"), drawn, ["anna", "ben"], {}, annotator_page)


@pytest.fixture
def page(engine: BrowserType, tmp_path: Path) -> Iterator[Page]:
    """A page of a browser with nothing kept; whatever breaks in it or would load anything fails the test.

    With a profile of its own, as people have: without one Chromium now and then loses what a first page kept.
    """
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here; install one, or set BROWSER_PATH")
    faults: list[str] = []
    context = engine.launch_persistent_context(
        tmp_path / "profile",
        executable_path=path,
        args=["--no-sandbox"],
        viewport={"width": 1280, "height": 900},
        accept_downloads=True,
    )
    opened = context.new_page()
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
    opened.on("dialog", lambda asked: faults.append(asked.message))
    opened.on("request", lambda asked: faults.append(asked.url) if asked.url.startswith("http") else None)
    yield opened
    context.close()
    assert faults == []


def visit(page: Page, review: Review, annotator: str) -> list[ReviewItem]:
    page.goto(Path(f"{review.root}/{annotator}.html").as_uri())
    return review.items()


def saved(page: Page, folder: Path) -> tuple[str, dict[str, Any]]:
    """Press s, and read the file that the browser was given."""
    with page.expect_download() as download:
        page.keyboard.press("s")
    place = folder / download.value.suggested_filename
    download.value.save_as(place)
    return str(place), json.loads(place.read_text("utf-8"))


def annotate(page: Page, review: Review, annotator: str, odd: int) -> None:
    """All items by keys alone, digits and letters in turn; every `odd`-th against the judge."""
    for at, item in enumerate(visit(page, review, annotator)):
        expect(page.locator("#place")).to_contain_text(f"Item {at + 1} of {ITEMS}")
        choice = item.choices.index(item.decision) if item.decision else 0
        choice = 1 - choice if at % odd == odd - 1 else choice
        page.keyboard.press("12"[choice] if at % 2 else "ab"[choice])
    expect(page.locator("#status")).to_contain_text("All items are answered")
    expect(page.locator("#counted")).to_have_text(f"{ITEMS} of {ITEMS} answered")


def test_twenty_items_are_judged_by_keys_saved_taken_in_and_reported(
    page: Page, review: Review, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for annotator, odd in (("anna", 5), ("ben", 4)):
        annotate(page, review, annotator, odd)
        files.append(saved(page, tmp_path)[0])
        expect(page.locator("#kept")).to_have_text("all in the saved file")
    assert main(["review", "import", str(review.root), *files]) == 0
    assert f"{2 * ITEMS} annotations were taken in" in capsys.readouterr().out
    said = {(row.annotator, row.item_id): row.value for row in open_review(str(review.root)).annotations()}
    for at, item in enumerate(review.items()):
        against = [name for name, odd in (("anna", 5), ("ben", 4)) if at % odd == odd - 1]
        for name in ("anna", "ben"):
            assert (said[name, item.id] != (item.decision or "correct")) == (name in against)
    assert main(["review", "report", str(review.root), "--resamples", "100"]) == 0


def test_answers_outlive_a_reload_and_each_annotator_has_their_own(page: Page, review: Review, tmp_path: Path) -> None:
    items = visit(page, review, "anna")
    for key in ("1", "2", "r"):
        page.keyboard.press(key)
    page.keyboard.type("no dose of 1 or 2 mg: n, p, s")
    page.reload()
    expect(page.locator("#place")).to_contain_text(f"Item 3 of {ITEMS}")
    expect(page.locator("#remark")).to_have_value("no dose of 1 or 2 mg: n, p, s")
    expect(page.locator("#counted")).to_have_text(f"2 of {ITEMS} answered")
    _, file = saved(page, tmp_path)
    assert [(row["id"], row["value"]) for row in file["answers"]] == [
        *((items[0].id, "correct"), (items[1].id, "incorrect"), (items[2].id, ""))
    ]
    visit(page, review, "ben")
    expect(page.locator("#counted")).to_have_text(f"0 of {ITEMS} answered")


def test_the_evidence_is_above_the_choices_on_a_phone(page: Page, review: Review) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, review, "anna")
    tops = [page.locator(f"#{name}").bounding_box() for name in ("question", "context", "choices")]
    assert sorted(one["y"] for one in tops if one) == [one["y"] for one in tops if one]
    assert "main" not in (page.locator("#save").get_attribute("class") or "")


def test_undo_takes_back_one_answer_after_the_other(page: Page, review: Review, tmp_path: Path) -> None:
    visit(page, review, "anna")
    for key in ("1", "2", "p", "1", "u"):
        page.keyboard.press(key)
    expect(page.locator("#place")).to_contain_text("Item 2 of")
    expect(page.locator('[aria-pressed="true"]')).to_have_attribute("data-value", "incorrect")
    page.keyboard.press("u")
    expect(page.locator('[aria-pressed="true"]')).to_have_count(0)
    page.keyboard.press("u")
    expect(page.locator("#counted")).to_have_text(f"0 of {ITEMS} answered")
    page.keyboard.press("u")
    expect(page.locator("#status")).to_have_text("There is nothing to undo.")


def test_the_decision_is_hidden_until_asked_for_which_is_recorded(page: Page, review: Review, tmp_path: Path) -> None:
    visit(page, review, "anna")
    assert "strict-judge" not in page.locator("main").inner_text()
    page.keyboard.press("1")
    page.keyboard.press("d")
    expect(page.locator("#decision")).to_contain_text("judge strict-judge")
    page.keyboard.press("1")
    expect(page.locator("#decision")).to_be_hidden()
    _, file = saved(page, tmp_path)
    assert [row["saw_decision"] for row in file["answers"]] == [False, True]
    assert all(row["seconds"] >= 0 for row in file["answers"])


def test_a_key_held_down_and_keys_of_the_browser_answer_nothing(page: Page, review: Review) -> None:
    visit(page, review, "anna")
    page.keyboard.down("1")
    for _ in range(5):
        page.keyboard.down("1")
    page.keyboard.up("1")
    expect(page.locator("#counted")).to_have_text(f"1 of {ITEMS} answered")
    for keys in ("Control+1", "Alt+2", "9", "x"):
        page.keyboard.press(keys)
    expect(page.locator("#counted")).to_have_text(f"1 of {ITEMS} answered")


def test_what_labels_say_is_text_and_the_context_stands_letter_for_letter(page: Page, review: Review) -> None:
    for item in visit(page, review, "anna")[:8]:
        assert page.locator("#question").text_content() == item.question
        assert page.locator("#context").text_content() == item.context
        assert HOSTILE in item.question and page.locator("main img").count() == 0
        page.keyboard.press("n")


def test_a_browser_that_keeps_nothing_is_told_of(page: Page, review: Review) -> None:
    page.add_init_script("Storage.prototype.setItem = () => { throw new Error('full'); }")
    visit(page, review, "anna")
    page.keyboard.press("1")
    expect(page.locator("#trouble")).to_contain_text("Save the file before you close")
    expect(page.locator("#counted")).to_have_text(f"1 of {ITEMS} answered")
    page.keyboard.press("s")


def test_what_the_browser_kept_damaged_is_set_aside(page: Page, review: Review) -> None:
    visit(page, review, "anna")
    place = f"fdarx-review:{review.digest}:anna"
    page.evaluate("place => localStorage.setItem(place, '{cut')", place)
    page.reload()
    expect(page.locator("#trouble")).to_contain_text("are damaged. They were set aside")
    page.keyboard.press("1")
    expect(page.locator("#counted")).to_have_text(f"1 of {ITEMS} answered")
    assert page.evaluate("place => localStorage.getItem(place + ':damaged')", place) == "{cut"


def test_answers_are_graded_against_the_reference_on_a_narrow_screen(
    page: Page, build: ReviewedBuild, tmp_path: Path
) -> None:
    drawn = draw_sample(ReviewedEvaluation(tmp_path / "evaluation", build).run, 5)
    review = write_review(str(tmp_path / "grades"), drawn, ["anna"], {}, annotator_page)
    page.set_viewport_size({"width": 390, "height": 800})
    item = visit(page, review, "anna")[0]
    expect(page.locator("#gold")).to_have_text(item.gold)
    expect(page.locator("#answer")).to_have_text(item.answer)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("c")
    _, file = saved(page, tmp_path)
    assert file["answers"][0]["value"] == "not_attempted"


def load(page: Page, file: str, key: str = "l") -> None:
    """Press l, and choose the file. The browser's own dialog is not waited for: playwright misses it at times."""
    page.evaluate(ASKED)
    page.keyboard.press(key)
    expect(page.locator("#file")).to_have_attribute("data-asked", "yes")
    page.evaluate("delete byId('file').dataset.asked")
    page.locator("#file").set_input_files(file)


def elsewhere(page: Page, place: str) -> None:
    """The same page in a browser that has kept nothing."""
    page.evaluate("place => localStorage.removeItem(place)", place)
    page.reload()


def test_a_saved_file_goes_on_in_another_browser(page: Page, review: Review, tmp_path: Path) -> None:
    items = visit(page, review, "anna")
    for key in ("1", "d", "2", "r"):
        page.keyboard.press(key)
    page.keyboard.type("half of it")
    page.keyboard.press("Escape")
    file, before = saved(page, tmp_path)
    elsewhere(page, f"fdarx-review:{review.digest}:anna")
    expect(page.locator("#counted")).to_have_text(f"0 of {ITEMS} answered")
    load(page, file)
    expect(page.locator("#status")).to_contain_text("2 answers, 1 remark")
    expect(page.locator("#place")).to_contain_text(f"Item 3 of {ITEMS}")
    expect(page.locator("#remark")).to_have_value("half of it")
    expect(page.locator("#kept")).to_have_text("all in the saved file")
    page.keyboard.press("1")
    page.reload()
    expect(page.locator("#counted")).to_have_text(f"3 of {ITEMS} answered")
    _, after = saved(page, tmp_path)
    assert after["answers"][:2] == before["answers"][:2]
    assert [row["value"] for row in after["answers"]] == ["correct", "incorrect", "correct"]
    assert [row["saw_decision"] for row in after["answers"]] == [False, True, False]
    assert after["answers"][2]["remark"] == "half of it" and after["answers"][2]["id"] == items[2].id


def test_what_was_answered_here_stays_and_the_difference_is_told(page: Page, review: Review, tmp_path: Path) -> None:
    visit(page, review, "anna")
    for key in ("1", "1", "1", "1"):
        page.keyboard.press(key)
    file, _ = saved(page, tmp_path)
    elsewhere(page, f"fdarx-review:{review.digest}:anna")
    for key in ("1", "2", "r"):
        page.keyboard.press(key)
    page.keyboard.type("mine")
    page.keyboard.press("Escape")
    page.locator("#load").focus()
    load(page, file, "Enter")
    expect(page.locator("#refused")).to_have_text(
        f"review-{review.digest}-anna.json has other answers for item 2 (Correct). The answers on this page are kept; "
        "check these items again."
    )
    expect(page.locator("#status")).to_contain_text("2 answers, 0 remarks")
    expect(page.locator("#place")).to_contain_text(f"Item 5 of {ITEMS}")
    expect(page.locator("#kept")).to_have_text("4 items not yet in a saved file")
    _, after = saved(page, tmp_path)
    assert [row["value"] for row in after["answers"]] == ["correct", "incorrect", "correct", "correct"]
    assert after["answers"][2]["remark"] == "mine"
    load(page, file)
    expect(page.locator("#status")).to_contain_text("0 answers, 0 remarks")


def test_a_file_of_another_or_a_damaged_one_loads_nothing(page: Page, review: Review, tmp_path: Path) -> None:
    item = visit(page, review, "anna")[0]
    mine = [{"id": item.id, "value": "correct"}]
    whole = {"format": 1, "review": review.digest, "annotator": "anna", "answers": mine}
    changes: tuple[tuple[dict[str, Any] | None, str], ...] = (
        ({"annotator": "ben"}, "holds the answers of ben, this page is for anna"),
        ({"review": "0123"}, f"is of review 0123, this is review {review.digest}"),
        ({"format": 2}, "has format 2, this page reads 1"),
        ({"answers": None}, "was not saved by this page: it has no list of answers"),
        (
            {"answers": [{"id": "0123", "value": "correct"}]},
            "can't be read: answer 1 is not for an item of this review",
        ),
        ({"answers": [None]}, "can't be read: answer 1 is not for an item of this review"),
        ({"answers": [*mine, {"id": item.id, "value": "A"}]}, 'can\'t be read: answer 2 is "A", which is not a choice'),
        (None, "is not JSON: choose a file that this page saved"),
    )
    for at, (change, told) in enumerate(changes):
        file = tmp_path / f"file-{at}.json"
        file.write_text("{cut" if change is None else json.dumps(whole | change))
        load(page, str(file))
        expect(page.locator("#refused")).to_have_text(f"{file.name} {told}. Nothing was loaded.")
        expect(page.locator("#counted")).to_have_text(f"0 of {ITEMS} answered")
    file.write_text(json.dumps(whole))
    load(page, str(file))
    expect(page.locator("#refused")).to_be_hidden()
    expect(page.locator("#counted")).to_have_text(f"1 of {ITEMS} answered")
