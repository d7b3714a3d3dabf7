"""The pages of a review: the annotator's page and the report of agreement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.baseline.stems import best_sentences, terms
from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.report.page_engine import Cell, environment, plain_table
from fdarx_core.report.wrong_answers import GROUP_NAMES
from fdarx_core.review.agreement import (
    TASK_NAMES,
    TIE,
    UNDECIDED,
    Agreement,
    ConfusionMatrix,
    table_3,
    table_4,
    table_5,
)
from fdarx_core.review.agreement_metrics import AnnotatedItem
from fdarx_core.review.tasks import REVIEW_TASKS

GUIDES: dict[str, str] = {
    "relevance": "Relevant: the reply bears on whether a generic may be approved, how its study is designed, what its "
    "label must say, or how the drug is used safely. Judge the question alone, whatever its answer may be.",
    "category": "Choose the one topic under which a reviewer would look for the answer; None where it is on nothing "
    "that a label tells.",
    "correctness": "Judge by the text shown, not by what you know. Every number, unit, population and condition must "
    "agree. Two passages: each must contribute, neither alone may be enough. Where the answer says that there is no "
    "information, it is correct if the text indeed gives none.",
    "quality": "Whether the answer is right does not count here. Unfit: the question gives its answer away; names a "
    "population, dose or study that the text does not speak of; can't be answered from it; is vague or trivial; or "
    "joins two facts that have nothing to do with each other.",
    "grade": "A: all of the reference that matters clinically is there, in whatever words. B: a number is missing or "
    "wrong, a population or warning is wrong, something is made up, or a main element is left out. C: it declines. "
    "Where the reference says that there is no information, any recommendation is B and declining is C.",
}

SHOWN = "Text that the judge was shown"
SHOWN_BESIDE: dict[str, str] = {"grade": "What the reference rests on (the judge saw the reference alone)"}
"""What the text beside an item is, where it is not what the judge was shown."""


Piece = tuple[str, str]
"""A kind (plain, evidence or near) and characters of the context."""


def pieces_of(item: ReviewItem) -> list[Piece]:
    """All of the context, in order.

    evidence is what a judge was shown, letter for letter; near are those of its sentences that hold most of the
    answer's words and numbers (the reference's where an answer is graded, the question's where none is expected).
    They are found by rules, for rejected questions too: the judge's own quotation would tell what it decided.
    """
    near, pieces, at = _nearest(item), list[Piece](), 0
    for passage in item.evidence:
        start = item.context.find(passage, at)
        if start >= 0:
            pieces += [("plain", item.context[at:start]), *_marked(passage, near)]
            at = start + len(passage)
    pieces.append(("plain", item.context[at:]))
    return [(kind, text) for kind, text in pieces if text]


def _nearest(item: ReviewItem) -> list[str]:
    sought = item.question if item.type == "refusal" else item.gold or item.answer
    return best_sentences(terms(sought), "\n".join(item.evidence))


def _marked(passage: str, near: Sequence[str]) -> Iterator[Piece]:
    at = 0
    for start, sentence in sorted((passage.find(sentence), sentence) for sentence in near):
        if start >= at:
            yield "evidence", passage[at:start]
            yield "near", sentence
            at = start + len(sentence)
    yield "evidence", passage[at:]


def annotator_page(info: Mapping[str, Any], items: Sequence[ReviewItem], annotator: str) -> str:
    """The page; `info` is the review's review.json. The decisions stand in the file, out of sight until asked for."""
    texts: dict[str, int] = {}
    payload = {
        "review": info["digest"],
        "annotator": annotator,
        "file": f"review-{info['digest']}-{annotator}.json",
        "tasks": {name: _task(name) for name in info["tasks"]},
        "items": [_item(item, texts) for item in items],
        "texts": list(texts),
    }
    return environment().get_template("review.html.j2").render(info=info, annotator=annotator, payload=payload)


def _task(name: str) -> dict[str, Any]:
    task = REVIEW_TASKS[name]
    return {
        "asks": task.asks,
        "guide": GUIDES[name],
        "shown": SHOWN_BESIDE.get(name, SHOWN),
        "choices": [list(pair) for pair in task.choices.items()],
    }


def _item(item: ReviewItem, texts: dict[str, int]) -> dict[str, Any]:
    """Passages recur from item to item: each text stands once, and `context` names its place."""
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


@dataclass(frozen=True, slots=True)
class ConfusionCell:
    """The items of one cell of a confusion table; `anchor` is unique in the page."""

    anchor: str
    people: str
    judge: str
    items: list[AnnotatedItem]

    @property
    def agree(self) -> bool:
        return self.people == self.judge


@dataclass(frozen=True, slots=True)
class ConfusionTable:
    """A confusion table whose cells lead to their items; a cell without items is None."""

    name: str
    title: str
    columns: list[str]
    rows: list[tuple[str, list[ConfusionCell | None]]]

    @property
    def groups(self) -> list[ConfusionCell]:
        """Those on which judge and people differ first, the largest first."""
        found = [group for _, cells in self.rows for group in cells if group]
        return sorted(found, key=lambda one: (one.agree, -len(one.items)))


def agreement_page(info: Mapping[str, Any], found: Agreement, calibrated: Sequence[ResultTable] = ()) -> str:
    """The page. `info` is the review's review.json; tables of `calibrated` accuracy follow the paper's."""
    tables = [table_3(found), table_4(found), table_5(found), *calibrated]
    return (
        environment()
        .get_template("review_report.html.j2")
        .render(
            info={name: value for name, value in info.items() if name not in ("strata", "versions")},
            versions=info.get("versions", {}),
            strata=[[one["name"], one["size"], one["drawn"]] for one in info.get("strata", ())],
            found=found,
            people=_people(found),
            header=["Task", "Items", "With a vote", "Ties", "No decision", *_people(found)],
            progress=list(_progress(found)),
            tables=[plain_table(f"table-{at}", grid) for at, grid in enumerate(tables, 3) if grid.rows],
            confusions=list(_shown(found)),
            unvoted=sum(not one.annotations for one in found.voted),
            tie=TIE,
            undecided=UNDECIDED,
        )
    )


def _people(found: Agreement) -> list[str]:
    return sorted({name for one in found.tallies for name in one.votes})


def _progress(found: Agreement) -> Iterator[list[Cell]]:
    for one in found.tallies:
        counts = [one.items, one.judged, len(one.ties), one.undecided]
        yield [TASK_NAMES[one.task], *counts, *(one.votes.get(name, 0) for name in _people(found))]


def _shown(found: Agreement) -> Iterator[ConfusionTable]:
    items = {one.item.id: one for one in found.voted}
    several = {one.task for one in found.confusions if sum(one.task == other.task for other in found.confusions) > 1}
    for at, one in enumerate(found.confusions):
        title = TASK_NAMES[one.task] + (f", {one.judge or 'no judge'}" if one.task in several else "")
        yield ConfusionTable(f"confusion-{at}", title, one.columns, list(_rows(one, at, items)))


def _rows(
    table: ConfusionMatrix, at: int, items: Mapping[str, AnnotatedItem]
) -> Iterator[tuple[str, list[ConfusionCell | None]]]:
    for down, (people, cells) in enumerate(zip(table.rows, table.cells, strict=True)):
        yield (
            people,
            [
                ConfusionCell(f"cell-{at}-{down}-{across}", people, judge, [items[one] for one in ids]) if ids else None
                for across, (judge, ids) in enumerate(zip(table.columns, cells, strict=True))
            ],
        )
