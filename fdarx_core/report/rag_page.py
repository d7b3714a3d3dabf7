"""The page that compares retrieval strategies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from fdarx_core.evaluation.tables import select
from fdarx_core.rag.strategies import ABLATIONS
from fdarx_core.rag.tables import CONTEXT_METRICS, METRIC_NAMES, ComparisonNames, judge_note, paper_tables, row_names
from fdarx_core.records import Difference, Estimate, Figure, RagAnswer, RagQuestion, RagScore, RagUsage, content_id
from fdarx_core.report.charts import COLORS, Series, bar_numbers, bars
from fdarx_core.report.page_engine import SIGNIFICANT, FigurePanel, TableBlock, by_significance, duration, render_page
from fdarx_core.report.result_sentences import difference_sentence


def contexts(figures: Sequence[Figure], names: ComparisonNames) -> FigurePanel | None:
    """Return context precision and recall of each strategy under the main post-processing; None without a judge."""
    found = {
        (figure.keys["strategy"], figure.keys["model"], figure.metric): figure
        for figure in figures
        if figure.keys["postprocess"] == names.main
        and figure.keys["strategy"] not in ABLATIONS
        and any(figure.metric == metric for _, metric in CONTEXT_METRICS)
    }
    rows = row_names(((strategy, model) for strategy, model, _ in found), names)
    if not rows:
        return None
    series = [
        Series(name, COLORS[at], [found.get((*key, metric)) or Estimate(None) for key in rows])
        for at, (name, metric) in enumerate(CONTEXT_METRICS)
    ]
    titles = list(rows.values())
    return FigurePanel.worded(
        "contexts",
        bars(titles, series, "estimates", "mean over questions"),
        *bar_numbers("Strategy", titles, series),
        postprocess=names.postprocess_title().lower(),
    )


SAMPLES = 12


def _key(row: RagAnswer | RagScore) -> tuple[str, str, str]:
    return row.question_id, row.strategy, row.model


def rag_sentence(differences: Sequence[Difference], names: ComparisonNames) -> str:
    """Return in words whether a strategy is better than the question alone; "" where nothing was compared."""
    whole = [one for one in select(differences, postprocess=names.main) if one.first["strategy"] not in ABLATIONS]
    metric = next((name for name in METRIC_NAMES if select(whole, name)), "")
    rate, compared = METRIC_NAMES.get(metric, "").lower(), select(whole, metric)
    named = partial(difference_sentence, clusters="document")
    return named(compared, lambda side: names.title(side["strategy"]), f"has a higher {rate}", rate)


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

    The samples are up to `SAMPLES` questions by a hash of seed and id, with the answers under the main post-processing.

    `info` is run.json, `by_retriever` are figures of `title_figures`.
    """
    seed, strategies = str(info["config"].get("seed", 0)), list(names.strategies)
    ranked = sorted(questions, key=lambda question: content_id(seed, question.id))
    picked = {row.id: row for row in ranked[:SAMPLES]}
    known = {_key(score): score for score in scores if score.question_id in picked and score.postprocess == names.main}
    kept = [answer for answer in answers if answer.question_id in picked and answer.postprocess == names.main]
    kept.sort(key=lambda row: strategies.index(row.strategy) if row.strategy in strategies else len(strategies))
    several = len({row.model for row in kept}) > 1
    shown: dict[str, list[dict[str, Any]]] = {id_: [] for id_ in picked}
    for row in kept:
        title = names.title(row.strategy) + (f" · {row.model}" if several else "")
        parts, at = list[tuple[str, bool]](), 0  # of the text, each with whether it is an unverified statement
        for start, end in zip(row.unverified_starts, row.unverified_ends, strict=True):
            parts += [(row.answer[at:start], False), (row.answer[start:end], True)]
            at = end
        parts.append((row.answer[at:], False))
        sample = {"name": title, "answer": row, "parts": parts, "score": known.get(_key(row))}
        shown[row.question_id].append(sample)
    usage_titles = row_names(((usage.strategy, usage.model) for usage in usages), names)
    order, used = list(usage_titles), {figure.keys["strategy"] for figure in figures}
    tables = paper_tables(figures, by_retriever, names)
    return render_page(
        "rag.html.j2",
        info=info,
        result=rag_sentence(differences, names),
        took=duration(info),
        questions=len(questions),
        compared=(len(used - ABLATIONS.keys()), len(used & ABLATIONS.keys())),
        models=list(dict.fromkeys(one.keys["model"] for one in figures)),
        judge=names.judge,
        judged_by=judge_note(names.judge),
        failed=sum(one.failed for one in usages),
        tables=[TableBlock(name, table, rivals=True) for name, table in tables.items() if name != "contexts-table"],
        figure=contexts(figures, names),
        names=names,
        metric_names=METRIC_NAMES,
        significant=SIGNIFICANT,
        differences=by_significance(differences),
        usages=sorted(usages, key=lambda one: order.index((one.strategy, one.model))),
        usage_titles=usage_titles,
        samples=[{"question": picked[id_], "answers": shown[id_]} for id_ in picked],
    )
