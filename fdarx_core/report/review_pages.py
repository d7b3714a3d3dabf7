"""The pages of a review: the annotator's page and the report of agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fdarx_core.evaluation.tables import select
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
                **{
                    part: getattr(REVIEW_TASKS[name], part) for part in ("title", "asks", "guide", "shown", "statement")
                },
                "choices": [list(pair) for pair in REVIEW_TASKS[name].options.items()],
            }
            for name in info["tasks"]
        },
        "unsure": UNSURE,
        "items": [_item(one, texts) for one in items],
        "texts": list(texts),
    }
    hidden = "" if any(one.item.decision for one in items) else " hidden"  # of parts on the judge
    return render_page("review.html.j2", info=info, annotator=annotator, payload=payload, unjudged=hidden)


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
    """Return for each task how often judges and people agree, over all judges, and each two people."""
    said: dict[str, dict[str, str]] = {}
    for one in select(found.figures, "accuracy", type=ALL):  # the last ones of a task are of all judges
        if one.value is not None and one.keys["between"] in ("consensus", "pair"):
            who = (one.keys["who"] or "judge, people").replace(", ", " and ")
            of_task = said.setdefault(REVIEW_TASKS[one.keys["task"]].title, {})
            of_task[who] = f"{who} agree on {percent(one)} of {plural(one.rows, 'item')}"
    return " ".join(f"{task}: {', '.join(parts.values())}." for task, parts in said.items())


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
        group_name=group_name,
        strata=info.get("strata", ()),
        found=found,
        judged=any(one.item.decision for one in found.voted),
        people=sorted({name for one in found.tallies for name in one.votes}),
        tasks=REVIEW_TASKS,
        tables=[TableBlock(f"table-{at}", table) for at, table in enumerate(agreement_tables(found), 3) if table.rows],
        confusions=confusions,
        items={one.item.id: one for one in found.voted},
        unvoted=sum(not one.values for one in found.voted),
        tie=TIE,
        undecided=UNDECIDED,
    )
