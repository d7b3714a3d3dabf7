"""The pages of a review: the annotator's page and the report of agreement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fdarx_core.baseline.stems import best_sentences, terms
from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.report.names import GROUP_NAMES, PAGE_WORDS
from fdarx_core.report.page_engine import Cell, TableBlock, render_page
from fdarx_core.review.agreement import TASK_NAMES, TIE, UNDECIDED, Agreement, table_3, table_4, table_5
from fdarx_core.review.agreement_metrics import AnnotatedItem
from fdarx_core.review.tasks import REVIEW_TASKS

GUIDES = PAGE_WORDS["review_guides"]

SHOWN = "Text that the judge was shown"
SHOWN_BESIDE: dict[str, str] = {"grade": "What the reference rests on (the judge saw the reference alone)"}
"""The title of the text beside an item, where the judge was not shown that text."""


Piece = tuple[str, str]
"""A kind (plain, evidence or near) and characters of the context."""


def pieces_of(item: ReviewItem) -> list[Piece]:
    """Return the whole context in order.

    Pieces of kind evidence are the text that the judge was shown. Pieces of kind near are its sentences with most of
    the words and numbers of the answer (of the reference where an answer is graded, of the question where no answer is
    expected). Rules find them, for rejected questions too, because the quotation of the judge would show its decision.
    """
    sought = item.question if item.type == "refusal" else item.gold or item.answer
    near, pieces, at = best_sentences(terms(sought), "\n".join(item.evidence)), list[Piece](), 0
    for passage in item.evidence:
        start = item.context.find(passage, at)
        if start >= 0:
            pieces += [("plain", item.context[at:start]), *_marked(passage, near)]
            at = start + len(passage)
    pieces.append(("plain", item.context[at:]))
    return [(kind, text) for kind, text in pieces if text]


def _marked(passage: str, near: Sequence[str]) -> Iterator[Piece]:
    at = 0
    for start, sentence in sorted((passage.find(sentence), sentence) for sentence in near):
        if start >= at:
            yield "evidence", passage[at:start]
            yield "near", sentence
            at = start + len(sentence)
    yield "evidence", passage[at:]


def annotator_page(info: Mapping[str, Any], items: Sequence[ReviewItem], annotator: str) -> str:
    """Return the page; `info` is review.json. The file contains the decisions, which are hidden until asked for."""
    texts: dict[str, int] = {}
    payload = {
        "review": info["digest"],
        "annotator": annotator,
        "file": f"review-{info['digest']}-{annotator}.json",
        "tasks": {
            name: {
                "asks": REVIEW_TASKS[name].asks,
                "guide": GUIDES[name],
                "shown": SHOWN_BESIDE.get(name, SHOWN),
                "choices": [list(pair) for pair in REVIEW_TASKS[name].choices.items()],
            }
            for name in info["tasks"]
        },
        "items": [_item(item, texts) for item in items],
        "texts": list(texts),
    }
    return render_page("review.html.j2", info=info, annotator=annotator, payload=payload)


def _item(item: ReviewItem, texts: dict[str, int]) -> dict[str, Any]:
    """Return an item for the page. Each text is stored once in `texts`; `context` has its position."""
    return {
        "id": item.id,
        "task": item.task,
        "about": [item.drug, f"label {item.set_id}", GROUP_NAMES.get(item.type, item.type).lower()],
        "question": item.question,
        "answer": item.answer if REVIEW_TASKS[item.task].shows_answer else None,
        "gold": item.gold,
        "context": [[kind, texts.setdefault(text, len(texts))] for kind, text in pieces_of(item)],
        "decision": item.decision,
        "because": item.because,
        "judge": " · ".join(filter(None, (item.judge and f"judge {item.judge}", item.model, item.setting))),
    }


def agreement_page(info: Mapping[str, Any], found: Agreement, calibrated: Sequence[ResultTable] = ()) -> str:
    """Return the page. `info` is review.json; tables of `calibrated` accuracy follow those of the paper."""
    tables = [table_3(found), table_4(found), table_5(found), *calibrated]
    return render_page(
        "review_report.html.j2",
        info={name: value for name, value in info.items() if name not in ("strata", "versions")},
        versions=info.get("versions", {}),
        strata=[[one["name"], one["size"], one["drawn"]] for one in info.get("strata", ())],
        found=found,
        people=_people(found),
        header=["Task", "Items", "With a vote", "Ties", "No decision", *_people(found)],
        progress=list(_progress(found)),
        tables=[TableBlock(f"table-{at}", table) for at, table in enumerate(tables, 3) if table.rows],
        confusions=_confusions(found),
        unvoted=sum(not one.annotations for one in found.voted),
        tie=TIE,
        undecided=UNDECIDED,
    )


def _people(found: Agreement) -> list[str]:
    return sorted({name for one in found.tallies for name in one.votes})


def _progress(found: Agreement) -> Iterator[list[Cell]]:
    for one in found.tallies:
        counts = [one.items, one.judged, len(one.ties), one.undecided]
        yield [TASK_NAMES[one.task], *counts, *(one.votes.get(name, 0) for name in _people(found))]


def _confusions(found: Agreement) -> list[dict[str, Any]]:
    """Return the confusion tables. Each cell with items has an `anchor` that is unique in the page.

    `groups` are these cells: those where judge and people differ first, the largest first.
    """
    items = {one.item.id: one for one in found.voted}
    several = {one.task for one in found.confusions if sum(one.task == other.task for other in found.confusions) > 1}
    tables: list[dict[str, Any]] = []
    for at, one in enumerate(found.confusions):
        rows: list[tuple[str, list[dict[str, Any] | None]]] = [
            (people, [_cell(f"cell-{at}-{down}-{across}", people, judge, [items[id_] for id_ in ids])
                      for across, (judge, ids) in enumerate(zip(one.columns, cells, strict=True))])
            for down, (people, cells) in enumerate(zip(one.rows, one.cells, strict=True))
        ]  # fmt: skip
        groups: list[dict[str, Any]] = [one_cell for _, shown in rows for one_cell in shown if one_cell]
        tables.append(
            {
                "name": f"confusion-{at}",
                "title": TASK_NAMES[one.task] + (f", {one.judge or 'no judge'}" if one.task in several else ""),
                "columns": one.columns,
                "rows": rows,
                "groups": sorted(groups, key=lambda cell: (cell["agree"], -len(cell["voted"]))),
            }
        )
    return tables


def _cell(anchor: str, people: str, judge: str, items: list[AnnotatedItem]) -> dict[str, Any] | None:
    made = {"anchor": anchor, "people": people, "judge": judge, "voted": items, "agree": people == judge}
    return made if items else None
