"""The page of a scoring, as a reader's browser gets it."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from dataclasses import replace
from importlib.resources import files
from random import Random
from typing import Any

import pytest
from lxml import html as lxml_html

from fdarx_core.report.answer_viewer import ScoredAnswer
from fdarx_core.report.factuality_page import SHOWN, collect, factuality_page, kind_of
from tests.report.synthetic_factuality import METHOD, SyntheticFactuality

HOSTILE = (
    '</script><script>alert(1)</script><!--<script>\u2028<img src=x onerror=alert(2)> & "dose" < 5 mg\' {{ 7 * 7 }}'
)


@pytest.fixture(scope="module")
def made() -> SyntheticFactuality:
    return SyntheticFactuality()


@pytest.fixture(scope="module")
def page(made: SyntheticFactuality) -> str:
    return factuality_page(**made.results())


def parsed(page: str) -> Any:
    return lxml_html.document_fromstring(page)


def text_of(element: Any) -> str:
    return " ".join(element.text_content().split())


def viewer_of(page: str) -> Any:
    """By the text that the browser reads."""
    packed = page.partition('id="answer-data">')[2].partition("</script>")[0]
    return json.loads(gzip.decompress(b64decode(packed)))


def answer_of(item: Any) -> str:
    return "".join(piece for _, pieces in item["spans"] for piece, _ in pieces)


def test_the_page_has_its_parts_and_loads_nothing(page: str) -> None:
    tree = parsed(page)
    assert [text_of(heading) for heading in tree.iter("h2")] == ["Answers", "Summary", "Tables", "Figures", "The run"]
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {link.get("href")[1:] for link in tree.iter("a")} <= set(ids)
    assert [element.tag for element in tree.iter() if element.get("src")] == []
    assert all("url(" not in one.text_content() and "@import" not in one.text_content() for one in tree.iter("style"))
    assert "default-src 'none'" in page


def test_it_says_in_words_what_was_scored_and_how(made: SyntheticFactuality, page: str) -> None:
    said = {
        text_of(row[0]): text_of(row[1])
        for row in parsed(page).get_element_by_id("summary").iter("div")
        if len(row) == 2
    }
    claims = [claim for one in made.answers for claim in one.claims]
    contradicted = sum(one.score.contradicted for one in made.answers)
    assert said["Claims"].startswith(f"{len(claims)} claims") and f"{contradicted} contradicted" in said["Claims"]
    assert "at least 0.7" in said["Entailment"] and "Judged by tiny-nli" in said["Entailment"]
    assert said["FAS"].startswith("FAS [token_f1] = 0.3 × token_f1 + 0.4 × Support@5 + 0.3 × (1 − Contra@5).")
    assert "the answer makes no claim" in said["FAS"]
    assert "Answers that are not checked" in said["Safety"] and "3 rows rejected" in said["Left out"]
    assert "FAS [token_f1] " in said["Correlation"]


def test_it_is_honest_about_rules(made: SyntheticFactuality, page: str) -> None:
    assert "not from a language model" in page
    by_model = factuality_page(**{**made.results(), "method": replace(METHOD, engine="some-nli")})
    assert "not from a language model" not in by_model and "Judged by some-nli" in by_model


def test_it_says_what_is_missing(made: SyntheticFactuality, page: str) -> None:
    results = made.results()
    info = {**results["info"], "ended": "2 parts have requests that failed for now"}
    ended = text_of(parsed(factuality_page(**{**results, "info": info})).find_class("notice")[0])
    assert ended == (
        "The run is not complete. 2 parts have requests that failed for now. The same command continues it."
    )
    assert parsed(page).find_class("notice") == []


def test_tables_are_the_grids_of_the_summary_and_their_values(made: SyntheticFactuality, page: str) -> None:
    tables = parsed(page).get_element_by_id("tables")
    grids = [grid for grid in made.summary.grids if grid.columns]
    assert [text_of(heading) for heading in tables.iter("h3")] == [grid.title for grid in grids]
    third = next(grid for grid in grids if grid.title.startswith("Table 3"))
    shown = next(card for card in tables.find_class("card") if text_of(card[0]) == third.title)
    name, entries = third.rows[0]
    row = shown.xpath(".//tbody/tr")[0]
    entry = entries[0]
    assert entry and text_of(row[0]) == name
    assert text_of(row[1]) == f"{entry.value:.3f} [{entry.low:.3f}, {entry.high:.3f}]"


def test_the_viewer_holds_each_answer_letter_for_letter_with_what_was_found(
    made: SyntheticFactuality, page: str
) -> None:
    data, known = viewer_of(page), {one.answer.id: one for one in made.answers}
    assert len(data["items"]) == len(made.answers)
    for item in data["items"]:
        one = known[item["id"]]
        assert answer_of(item) == one.answer.answer
        parts = {at: "".join(piece for piece, _ in pieces) for at, pieces in item["spans"] if at >= 0}
        assert [parts[at] for at in range(len(one.claims))] == [claim.text for claim in one.claims]
        assert [claim["verdict"] for claim in item["claims"]] == [verdict.verdict for verdict in one.verdicts]
        for claim, verdict in zip(item["claims"], one.verdicts, strict=True):
            deciding = claim["pairs"][0][0] if claim["decided"] else None
            title = data["passages"][deciding][0] if deciding is not None else None
            assert title == (one.evidence[verdict.evidence_id].title if verdict.evidence_id else None)
        assert [flag[0] for flag in item["flags"]] == [
            "Dose that the label contradicts",
            "Dose asked for and not given",
        ][: len(one.flags)]
        flagged = "".join(piece for _, pieces in item["spans"] for piece, flags in pieces if 0 in flags)
        assert flagged == (one.flags[0].text if one.flags else "")


def test_passages_stand_once_and_windows_point_into_them(made: SyntheticFactuality, page: str) -> None:
    data, texts = viewer_of(page), {one.title: one.text for one in made.passages}
    assert len({row[0] for row in data["passages"]}) == len(data["passages"])
    cut = 0
    for title, _, length, excerpts in data["passages"]:
        assert length == len(texts[title])
        assert all(texts[title][start : start + len(words)] == words for start, words in excerpts)
        cut += sum(len(words) for _, words in excerpts) < length
    assert cut > 0
    for pair in (pair for item in data["items"] for claim in item["claims"] for pair in claim["pairs"]):
        start, end, excerpts = pair[5], pair[6], data["passages"][pair[0]][3]
        assert any(low <= start and end <= low + len(words) for low, words in excerpts)


def test_a_pair_that_was_not_judged_has_no_probabilities_and_says_why(made: SyntheticFactuality, page: str) -> None:
    pairs = [pair for item in viewer_of(page)["items"] for claim in item["claims"] for pair in claim["pairs"]]
    assert {pair[7].strip() for pair in pairs if pair[2] is None} == {"http_500: the server is down"}


def test_of_many_answers_a_balanced_sample_is_kept_and_the_page_stays_small(made: SyntheticFactuality) -> None:
    many = SyntheticFactuality(questions=230)
    page = factuality_page(**many.results(made.summary))
    data = viewer_of(page)
    assert len(data["items"]) == SHOWN and f"shows {SHOWN} of {len(many.answers)} answers" in page
    models = [item["model"] for item in data["items"]]
    assert models.count("small") == models.count("large") == SHOWN // 2
    assert [bool(item["flags"]) for item in data["items"]] == sorted(
        (bool(item["flags"]) for item in data["items"]), reverse=True
    )
    assert len(page.encode()) < 1_100_000
    assert data == viewer_of(factuality_page(**many.results(made.summary)))


def test_answers_that_are_long_leave_the_page_under_its_bound(made: SyntheticFactuality) -> None:
    long = SyntheticFactuality(questions=100)
    answers = [
        replace(one, answer=replace(one.answer, answer=f"{one.answer.answer} {incompressible(one.answer.id, 3_000)}"))
        for one in long.answers
    ]
    page = factuality_page(**{**long.results(made.summary), "answers": answers})
    assert 0 < len(viewer_of(page)["items"]) < len(answers)
    assert len(page.encode()) < 1_100_000


def test_passages_beyond_the_budget_are_named_without_their_text(made: SyntheticFactuality) -> None:
    answers = [_with_own_passages(one) for one in made.answers]
    page = factuality_page(**{**made.results(), "answers": answers})
    data = viewer_of(page)
    lacking = [row for row in data["passages"] if row[3] is None]
    assert 0 < len(lacking) < len(data["passages"]) and len(page.encode()) < 1_100_000
    claims = [claim for item in data["items"] for claim in item["claims"] if claim["decided"]]
    assert all(data["passages"][claim["pairs"][0][0]][3] for claim in claims)


def incompressible(seed: str, size: int) -> str:
    return Random(seed).randbytes(size).hex()


def _with_own_passages(one: ScoredAnswer) -> ScoredAnswer:
    """Each with windows all over a long text, of which none has an end to a word."""
    name = one.answer.id
    evidence = {
        f"{name}{old}": replace(passage, id=f"{name}{old}", text=incompressible(name + old, 1_500))
        for old, passage in one.evidence.items()
    }
    pairs = [replace(pair, evidence_id=pair.evidence_id and f"{name}{pair.evidence_id}") for pair in one.pairs]
    verdicts = [replace(row, evidence_id=row.evidence_id and f"{name}{row.evidence_id}") for row in one.verdicts]
    return replace(one, evidence=evidence, pairs=pairs, verdicts=verdicts)


def test_texts_of_models_and_sources_stay_text() -> None:
    made = SyntheticFactuality(questions=20, hostile=HOSTILE)
    page = factuality_page(**made.results())
    tree = parsed(page)
    assert list(tree.iter("img")) == [] and page.count(HOSTILE) == 0
    assert not any("alert(1)" in (one.text_content() or "") for one in tree.iter("script") if not one.get("type"))
    answers = {answer_of(item) for item in viewer_of(page)["items"]}
    assert {one.answer.answer for one in made.answers} == answers


@pytest.mark.parametrize("name", ["browse.js", "factuality.js"])
def test_scripts_put_nothing_in_as_markup(name: str) -> None:
    script = files("fdarx_core.report").joinpath(f"templates/{name}").read_text("utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", script)


def test_a_scoring_of_which_nothing_came(made: SyntheticFactuality) -> None:
    empty = SyntheticFactuality(questions=0)
    results = empty.results()
    page = factuality_page(**results)
    assert "Nothing was measured." in page and "Not checked: no judge model." in page
    said = text_of(parsed(page).get_element_by_id("summary"))
    assert "No answer" in said and " of ." not in said and " of (" not in said
    assert "there are no safety flags" in factuality_page(**{**results, "info": {**results["info"], "safety": ""}})
    assert text_of(parsed(page).get_element_by_id("answers")) == "Answers There are no answers."


def test_an_answer_is_picked_by_what_a_reader_most_wants_to_see(made: SyntheticFactuality) -> None:
    tally, picked = collect(iter(made.answers), seed=1)
    assert tally.answers.total() == len(made.answers)
    kinds = [kind_of(one.score) for one in picked]
    assert kinds[0] == "flagged" and kinds == sorted(kinds, key=kinds.index)
    assert tally.safety["flagged"] == sum(bool(one.flags) for one in made.answers)
    assert tally.of_verdict("supported") == sum(one.score.supported for one in made.answers)
