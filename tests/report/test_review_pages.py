"""The page of agreement: every number leads to its items, and what people wrote stays text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from lxml import html

from fdarx_core.evaluation.tables import table_text
from fdarx_core.report.review_pages import agreement_page
from fdarx_core.review.agreement import agreement_tables, measure_agreement
from tests.review.synthetic_reviews import item, simulated, votes

INFO = {
    "digest": "d1",
    "run": "runs/made-up",
    "strata": [{"name": "kept factual", "size": 40, "drawn": 4}],
    "versions": {"fdarx": "0"},
}


def test_every_count_leads_to_its_items_and_every_voted_item_stands_once() -> None:
    items, given = simulated(n=30)
    found = measure_agreement(items, given, resamples=20)
    page: Any = html.fromstring(agreement_page(INFO, found))
    ids = page.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.xpath("//a/@href")} <= set(ids)
    voted = sorted(f"item-{one.item.id}" for one in found.voted if one.annotations)
    assert sorted(one for one in ids if one.startswith("item-")) == voted
    for table in found.confusions:
        counted = sum(len(cell) for row in table.cells for cell in row)
        assert counted == next(one.judged for one in found.tallies if one.task == table.task)
    for link in page.xpath("//table[@class='confusion']//a"):
        (heading,) = page.xpath(f"//h4[@id='{link.get('href')[1:]}']")
        assert heading.text_content().endswith(f"· {link.text_content()}")


def test_the_page_loads_nothing_and_remarks_stay_text() -> None:
    one = replace(item("a"), question="<b>Bold</b>?")
    given = votes(one, {"anna": "incorrect"}, remark="<script>alert(1)</script>")
    page = agreement_page(INFO, measure_agreement([one], given))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;b&gt;Bold" in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)


def test_a_review_without_votes_says_so() -> None:
    page = agreement_page(INFO, measure_agreement([item("a")], []))
    assert "There are no votes yet" in page


def test_tables_have_the_rows_of_the_paper() -> None:
    found = measure_agreement(*simulated(n=30), resamples=20)
    assert [name.rpartition(" (")[0] for name, _ in agreement_tables(found)[0].rows] == [
        "Relevance",
        "Relevance, 3 values",
        "Category",
    ]
    types = ("factual", "multi-hop", "refusal", "all types")
    tasks = ("QA correctness", "Question quality", "Answer grade", "Claim verdict", "Safety flag")
    wanted = [f"{task}, {row}" for task in (*tasks, "Answer of the service") for row in (*types, "3 values")]
    wanted = [row for row in wanted if "3" not in row or row.startswith(("Answer grade", "Claim"))]
    assert [name.rpartition(" (")[0] for name, _ in agreement_tables(found)[1].rows] == wanted
    people = ["Relevance", "Relevance, 3 values", "Category", *wanted]
    assert [name for name, _ in agreement_tables(found)[2].rows] == people


def test_judges_have_rows_of_their_own_beside_that_of_all() -> None:
    items = [item("a", "grade", judge="rule"), item("b", "grade", judge="llm"), item("c", "grade", judge="llm")]
    found = measure_agreement(
        items, [vote for one in items for vote in votes(one, {"anna": "correct", "ben": "correct"})]
    )
    names = [name for name, _ in agreement_tables(found)[1].rows]
    assert names[:3] == ["Answer grade, llm (2; 2)", "Answer grade, rule (1; 1)", "Answer grade (3; 3)"]
    assert [name for name, _ in agreement_tables(found)[2].rows] == ["Answer grade", "Answer grade, 3 values"]


def test_tables_say_what_is_in_no_figure() -> None:
    items = [item("a"), item("b", decision="", set_id="label-a"), item("c")]
    given = [
        *votes(items[0], {"anna": "correct"}, saw_decision=True),
        *votes(items[1], {"anna": "correct"}),
        *votes(items[2], {"anna": "correct", "ben": "incorrect"}),
    ]
    text = table_text(agreement_tables(measure_agreement(items, given))[1])
    assert "QA correctness (1; 0)" in text
    assert "Items whose votes tie, in no consensus: 1." in text
    assert "Items on which the judge reached no decision, in none of its figures: 1." in text
    assert "Votes of the whole review given with the judge's decision in view, counted: 1." in text
    ranges = agreement_tables(measure_agreement(items, given))[2]
    assert [entry.value if entry else None for entry in ranges.rows[0][1]][:2] == [0, 1]


def test_the_page_begins_with_how_often_judges_and_people_agree() -> None:
    items = [item(name, type="multihop") for name in "abcd"]
    said = [*votes(items[0], {"anna": "correct", "ben": "incorrect"})]
    said += [vote for one in items[1:] for vote in votes(one, {"anna": "correct", "ben": "correct"})]
    page = agreement_page(INFO, measure_agreement(items, said))
    tree: Any = html.fromstring(page)
    (result,) = tree.find_class("result")
    assert result.text_content() == (
        "QA correctness: judge and people agree on 100 % of 3 items, anna and ben agree on 75 % "
        "[25 %, 100 %] of 4 items."
    )
    assert "multi-hop" in page and "made-up”" in page
