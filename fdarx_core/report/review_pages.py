"""The pages of a review: the annotator's page and the report of agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fdarx_core.evaluation.tables import select
from fdarx_core.records.question_types import type_title
from fdarx_core.report.page_engine import TableBlock, group_name, plural, render_page
from fdarx_core.report.result_sentences import percent
from fdarx_core.review.agreement import ALL, TIE, UNDECIDED, Agreement, agreement_tables
from fdarx_core.review.agreement_metrics import AnnotatedItem
from fdarx_core.review.tasks import REVIEW_TASKS, UNSURE, pieces_of


def annotator_page(info: Mapping[str, Any], items: Sequence[AnnotatedItem], annotator: str) -> str:
    """Return the page; `info` is review.json. It shows the marks that the items have, which only adjudicators see.

    The file contains the decisions, which are hidden until asked for.
    """
    texts: dict[str, int] = {}
    payload = {
        "review": info["digest"],
        "annotator": annotator,
        "file": f"review-{info['digest']}-{annotator}.json",
        "tasks": {
            name: {
                **{part: getattr(REVIEW_TASKS[name], part) for part in ("asks", "guide", "shown", "statement")},
                "choices": [list(pair) for pair in REVIEW_TASKS[name].options.items()],
            }
            for name in info["tasks"]
        },
        "unsure": UNSURE,
        "items": [_item(one, texts) for one in items],
        "texts": list(texts),
    }
    return render_page("review.html.j2", info=info, annotator=annotator, payload=payload)


def _item(annotated: AnnotatedItem, texts: dict[str, int]) -> dict[str, Any]:
    """Return an item for the page. Each text is stored once in `texts`; `context` has its position."""
    item = annotated.item
    label = f"label {item.set_id}" if item.drug else ""
    return {
        "id": item.id,
        "task": item.task,
        "about": list(filter(None, (item.drug, label, group_name(item.type).lower()))),
        "question": item.question,
        "answer": item.answer if REVIEW_TASKS[item.task].shows_answer else None,
        "statement": item.statement,
        "gold": item.gold,
        "marks": [[mark.annotator, mark.value, mark.remark] for mark in (*annotated.annotations, *annotated.unsure)],
        "context": [[kind, texts.setdefault(text, len(texts))] for kind, text in pieces_of(item)],
        "decision": item.decision,
        "because": item.because,
        "engine": item.judge,
        "judge": " · ".join(filter(None, (item.judge and f"judge {item.judge}", item.model, item.setting))),
    }


def agreement_sentence(found: Agreement) -> str:
    """Return for each task how often the judges agree with people, and people with each other."""
    said: list[str] = []
    for name in dict.fromkeys(figure.keys["task"] for figure in found.figures):
        figures = [one for one in select(found.figures, "accuracy", task=name, type=ALL) if one.value is not None]
        values = figures[-1].keys["values"] if figures else ""
        alike = {kind: select(figures, between=kind, values=values) for kind in ("consensus", "pair")}
        judges = {one.keys["judge"] for one in alike["consensus"]}
        parts = [
            f"the judge{'s agree' if len(judges) > 1 else ' agrees'} with people on {percent(one)} of "
            f"{plural(one.rows, 'item')}"
            for one in alike["consensus"]
            if len(judges) == 1 or one.keys["judge"] == ALL
        ]
        pairs = [one for one in alike["pair"] if one.keys["judge"] == ALL] or alike["pair"]
        if len(pairs) == 1:
            parts.append(f"{pairs[0].keys['who'].replace(', ', ' and ')} with each other on {percent(pairs[0])}")
        elif shares := sorted(one.value or 0.0 for one in pairs):
            parts.append(f"two people with each other on {shares[0]:.0%} to {shares[-1]:.0%}".replace("%", " %"))
        said += [f"{REVIEW_TASKS[name].title}: {', '.join(parts)}."] if parts else []
    return " ".join(said)


def agreement_page(info: Mapping[str, Any], found: Agreement) -> str:
    """Return the page. `info` is review.json.

    The cells of a confusion matrix with items are listed; those where judge and people differ first, the largest first.
    """
    tasks = Counter(matrix.task for matrix in found.confusions)
    confusions = []
    for matrix in found.confusions:
        places = [
            (matrix.rows[down] == matrix.columns[across], -len(ids), down, across)
            for down, row in enumerate(matrix.cells)
            for across, ids in enumerate(row)
            if ids
        ]
        title = REVIEW_TASKS[matrix.task].title + (f", {matrix.judge or 'no judge'}" if tasks[matrix.task] > 1 else "")
        confusions.append((title, matrix, [(down, across) for *_, down, across in sorted(places)]))
    return render_page(
        "review_report.html.j2",
        info={name: value for name, value in info.items() if name not in ("strata", "versions")},
        result=agreement_sentence(found),
        versions=info.get("versions", {}),
        type_title=type_title,
        strata=info.get("strata", ()),
        found=found,
        people=sorted({name for one in found.tallies for name in one.votes}),
        tasks=REVIEW_TASKS,
        tables=[TableBlock(f"table-{at}", table) for at, table in enumerate(agreement_tables(found), 3) if table.rows],
        confusions=confusions,
        items={one.item.id: one for one in found.voted},
        unvoted=sum(not one.values for one in found.voted),
        tie=TIE,
        undecided=UNDECIDED,
    )
