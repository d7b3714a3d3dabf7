"""The page that compares retrieval strategies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fdarx_core.evaluation.tables import MISSING
from fdarx_core.rag.tables import CONTEXT, DOCUMENT, SIMILARITY, ComparisonNames, judge_note, paper_tables, row_names
from fdarx_core.records import Difference, Estimate, Figure, RagAnswer, RagQuestion, RagScore, RagUsage
from fdarx_core.report.charts import COLORS, Series, bar_numbers, grouped_bars
from fdarx_core.report.page_engine import (
    SIGNIFICANT,
    Cell,
    FigurePanel,
    TableBlock,
    by_significance,
    duration,
    render_page,
    signed,
)
from fdarx_core.report.samples import SeededSample

METRIC_NAMES: dict[str, str] = {
    **{metric: name for name, metric in CONTEXT},
    **{metric: f"{group} {name}" for group, name, metric in SIMILARITY},
    **{metric: f"Right document, {name}" for _, name, metric in DOCUMENT},
}
DIFFERENCE_HEADER = (
    "Metric", "Strategy", "Post-processing", "Difference", "95 %", "p", "p, Holm", "Questions",
)  # fmt: skip
USAGE_HEADER = (
    "Strategy", "Post-processing", "Answered", "Refused", "Failed", "Rewrite, s", "Search, s", "Rank, s", "Answer, s",
    "Total, s", "Requests a question", "Tokens in", "Tokens out", "USD",
)  # fmt: skip


def contexts(figures: Sequence[Figure], names: ComparisonNames) -> FigurePanel | None:
    """Return context precision and recall of each strategy under the main post-processing; None without a judge."""
    found = {
        (one.keys["strategy"], one.keys["model"], one.metric): one
        for one in figures
        if one.keys["postprocess"] == names.main and one.keys["strategy"] not in names.ablations
    }
    rows = row_names(
        ((strategy, model) for strategy, model, metric in found if metric in {metric for _, metric in CONTEXT}), names
    )
    if not rows:
        return None
    series = [
        Series(name, COLORS[at], [found.get((*key, metric)) or Estimate(None) for key in rows])
        for at, (name, metric) in enumerate(CONTEXT)
    ]
    titles = list(rows.values())
    return FigurePanel(
        "contexts",
        "Context precision and recall by strategy",
        "Precision: useful contexts are first. Recall: share of the reference answer's statements that the contexts "
        f"support. With 95 % intervals; post-processing: {names.postprocess_title().lower()}.",
        grouped_bars(titles, series, "mean over questions", broken=True),
        *bar_numbers("Strategy", titles, series),
    )


def difference_rows(
    differences: Sequence[Difference], names: ComparisonNames
) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Return the rows below `DIFFERENCE_HEADER` under the main post-processing, and the others.

    The most significant differences come first.
    """
    several = len({one.keys["model"] for one in differences}) > 1
    rows = [
        (one.keys["postprocess"] == names.main, _difference(one, names, several))
        for one in by_significance(differences)
    ]
    return [row for main, row in rows if main], [row for main, row in rows if not main]


def usage_rows(usages: Sequence[RagUsage], names: ComparisonNames) -> list[list[Cell]]:
    """Return the rows below `USAGE_HEADER`: times are the median and, in brackets, the 95th percentile."""
    titles = row_names(((one.strategy, one.model) for one in usages), names)
    order = list(titles)
    return [
        [
            titles[one.strategy, one.model],
            names.postprocess_title(one.postprocess),
            one.answered, one.refused, one.failed,
            *(_times(one, phase) for phase in ("rewrite", "search", "postprocess", "answer", "total")),
            f"{one.requests / max(one.answered + one.refused + one.failed, 1):.1f}",
            one.prompt_tokens, one.completion_tokens, f"{one.cost:,.2f}" if one.cost else MISSING,
        ]
        for one in sorted(usages, key=lambda one: order.index((one.strategy, one.model)))
    ]  # fmt: skip


def _difference(one: Difference, names: ComparisonNames, several: bool) -> list[Cell]:
    model = f" · {one.keys['model']}" if several else ""
    value, low, high = (signed(bound or 0.0, 3) for bound in (one.value, one.low, one.high))
    return [
        METRIC_NAMES.get(one.metric, one.metric),
        f"{names.title(one.first['strategy'])}{model}",
        names.postprocess_title(one.keys["postprocess"]),
        f"{'✓ ' if (one.p_holm or 0.0) < SIGNIFICANT else ''}{value}",
        f"{low} to {high}",
        *("< 0.001" if p is None or p < 0.001 else f"{p:.3f}" for p in (one.p, one.p_holm)),
        one.rows,
    ]


def _times(one: RagUsage, phase: str) -> str:
    middle, most = (getattr(one, f"{phase}_p{share}") for share in (50, 95))
    return MISSING if middle is None else f"{middle:.2f} ({most:.2f})"


SAMPLES = 12
FIRST = 320
"""Characters of a context that are shown."""


def pick_samples(
    questions: Sequence[RagQuestion],
    answers: Iterable[RagAnswer],
    scores: Iterable[RagScore],
    names: ComparisonNames,
    seed: int,
) -> list[dict[str, Any]]:
    """Return up to `SAMPLES` questions by a hash of seed and id, with the answers under the main post-processing.

    The answers are in the order of the strategies in tables.
    """
    picks: SeededSample[RagQuestion] = SeededSample(SAMPLES, seed)
    for question in questions:
        picks.offer("", question.id, lambda question=question: question)  # type: ignore[misc]
    picked = {one.id: one for one in picks.of("")}
    known = {_key(one): one for one in scores if one.question_id in picked and one.postprocess == names.main}
    kept = [one for one in answers if one.question_id in picked and one.postprocess == names.main]
    order = list(names.strategies)
    kept.sort(key=lambda one: order.index(one.strategy) if one.strategy in order else len(order))
    several = len({one.model for one in kept}) > 1
    shown: dict[str, list[dict[str, Any]]] = {id_: [] for id_ in picked}
    for one in kept:
        name, score = names.title(one.strategy), known.get(_key(one))
        title = f"{name} · {one.model}" if several else name
        shown[one.question_id].append({"name": title, "answer": one, "score": score, "contexts": _contexts(one, score)})
    return [{"question": picked[id_], "answers": shown[id_]} for id_ in picked]


def _key(row: RagAnswer | RagScore) -> tuple[str, str, str]:
    return row.question_id, row.strategy, row.model


def _contexts(answer: RagAnswer, score: RagScore | None) -> list[dict[str, Any]]:
    """Return the contexts of an answer; `useful` is the verdict of the judge, None if there is none."""
    titles = dict(zip(answer.candidates, answer.candidate_titles, strict=True))
    verdicts: list[bool | None] = list(score.useful) if score else []
    verdicts += [None] * (len(answer.contexts) - len(verdicts))
    rows = zip(answer.contexts, answer.context_texts, verdicts, strict=True)
    return [
        {
            "number": number,
            "title": titles.get(chunk, chunk),
            "text": _beginning(text),
            "useful": useful,
            "cited": number in answer.citations,
        }
        for number, (chunk, text, useful) in enumerate(rows, 1)
    ]


def _beginning(text: str) -> str:
    """Return the beginning of a text without empty lines, cut between words."""
    lines = "\n".join(line for line in text.split("\n") if line.strip())
    return lines if len(lines) <= FIRST else f"{lines[:FIRST].rsplit(None, 1)[0]} …"


def rag_page(
    info: Mapping[str, Any],
    names: ComparisonNames,
    questions: Sequence[RagQuestion],
    answers: Iterable[RagAnswer],
    scores: Iterable[RagScore],
    *,
    figures: Sequence[Figure],
    by_retriever: Sequence[Figure],
    differences: Sequence[Difference],
    usages: Sequence[RagUsage],
) -> str:
    """Return the page of a comparison. Answers and scores are read once; those of a few sample questions are kept.

    `info` is run.json, `by_retriever` are figures of `title_figures`.
    """
    samples = pick_samples(questions, answers, scores, names, int(info["config"].get("seed", 0)))
    main, others = difference_rows(differences, names)
    return render_page(
        "rag.html.j2",
        info=info,
        took=duration(info),
        questions=len(questions),
        strategies=list(dict.fromkeys(names.title(one.keys["strategy"]) for one in figures)),
        models=list(dict.fromkeys(one.keys["model"] for one in figures)),
        judge=names.judge,
        judged_by=judge_note(names.judge),
        failed=sum(one.failed for one in usages),
        tables=[
            TableBlock(name, table, rivals=True) for name, table in paper_tables(figures, by_retriever, names).items()
        ],
        figure=contexts(figures, names),
        difference_header=DIFFERENCE_HEADER,
        differences=main,
        other_differences=others,
        usage_header=USAGE_HEADER,
        usage=usage_rows(usages, names),
        samples=samples,
    )
