"""The page that compares retrieval strategies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.rag import tables
from fdarx_core.rag.tables import CONTEXT, DOCUMENT, SIMILARITY, ComparisonNames, row_names
from fdarx_core.records import RagAnswer, RagDifference, RagFigure, RagQuestion, RagScore, RagUsage
from fdarx_core.report.charts import COLOURS, NAME_WIDTH, Bars, Interval, grouped_bars
from fdarx_core.report.page_engine import Cell, FigurePanel, PaperTable, duration, environment, paper_table
from fdarx_core.report.samples import SeededSample

MISSING = "–"
SIGNIFICANT = 0.05
"""Of p after Holm's correction."""
METRICS = [metric for _, metric in CONTEXT]
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


def contexts(figures: Sequence[RagFigure], what: ComparisonNames) -> FigurePanel | None:
    """Context precision and recall of each strategy under the main post-processing; None where nothing was judged."""
    kept = [one for one in figures if one.postprocess == what.main and one.strategy not in what.ablations]
    found = {(one.strategy, one.model, one.metric): one for one in kept}
    names = row_names((one for one in kept if one.metric in METRICS), what)
    if not names:
        return None
    series = [
        Bars(name, COLOURS[at], [_interval(found.get((*key, metric))) for key in names])
        for at, (name, metric) in enumerate(CONTEXT)
    ]
    return FigurePanel(
        "contexts",
        "Context precision and recall by strategy",
        "Precision: useful contexts stand first. Recall: share of the reference answer's statements that the contexts "
        f"bear out. With 95 % intervals; post-processing: {what.postprocessors.get(what.main, what.main).lower()}.",
        _drawn(list(names.values()), series),
        ["Strategy", *(part for one in series for part in (one.name, "95 %"))],
        [
            [name, *(part for one in series for part in _written(one.values[at]))]
            for at, name in enumerate(names.values())
        ],
        legend=[(one.name, one.colour) for one in series],
    )


def _drawn(names: Sequence[str], series: Sequence[Bars]) -> go.Figure:
    """Bars whose names are broken: narrow screens would have no room for bars."""
    broken = ["<br>".join(escape(line) for line in wrap(name, NAME_WIDTH)) for name in names]
    return grouped_bars(names, series, "mean over questions").update_traces(y=broken)


def difference_rows(
    differences: Sequence[RagDifference], what: ComparisonNames
) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Rows below `DIFFERENCE_HEADER`, the surest first: those under the main post-processing, and the others."""
    ordered = sorted(differences, key=lambda one: (one.p_holm, one.p, -abs(one.difference)))
    several = len({one.model for one in differences}) > 1
    main = [_difference(one, what, several) for one in ordered if one.postprocess == what.main]
    return main, [_difference(one, what, several) for one in ordered if one.postprocess != what.main]


def usage_rows(usages: Sequence[RagUsage], what: ComparisonNames) -> list[list[Cell]]:
    """Rows below `USAGE_HEADER`: times are the median and, in brackets, the 95th percentile."""
    names = row_names([RagFigure(one.strategy, "", one.model, "", None, None, None, 0, 0) for one in usages], what)
    order = list(names)
    return [
        [
            names[one.strategy, one.model],
            what.postprocessors.get(one.postprocess, one.postprocess),
            one.answered, one.refused, one.failed,
            *(_times(one, phase) for phase in ("rewrite", "search", "postprocess", "answer", "total")),
            f"{one.requests / max(one.answered + one.refused + one.failed, 1):.1f}",
            one.prompt_tokens, one.completion_tokens, f"{one.cost:,.2f}" if one.cost else "–",
        ]
        for one in sorted(usages, key=lambda one: order.index((one.strategy, one.model)))
    ]  # fmt: skip


def _difference(one: RagDifference, what: ComparisonNames, several: bool) -> list[Cell]:
    model = f" · {one.model}" if several else ""
    return [
        METRIC_NAMES.get(one.metric, one.metric),
        f"{what.title(one.strategy)}{model}",
        what.postprocessors.get(one.postprocess, one.postprocess),
        f"{'✓ ' if one.p_holm < SIGNIFICANT else ''}{_signed(one.difference)}",
        f"{_signed(one.low)} to {_signed(one.high)}",
        _chance(one.p),
        _chance(one.p_holm),
        one.rows,
    ]


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{abs(value):.3f}"


def _chance(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _times(one: RagUsage, phase: str) -> str:
    middle, most = (getattr(one, f"{phase}_p{share}") for share in (50, 95))
    return MISSING if middle is None else f"{middle:.2f} ({most:.2f})"


def _interval(figure: RagFigure | None) -> Interval:
    return Interval(figure.value, figure.low, figure.high) if figure else Interval(None)


def _written(interval: Interval) -> tuple[str, str]:
    if interval.value is None:
        return MISSING, MISSING
    ends = MISSING if interval.low is None else f"{interval.low:.3f}–{interval.high:.3f}"
    return f"{interval.value:.3f}", ends


SAMPLES = 12
FIRST = 320
"""Characters of a context that are shown."""


@dataclass(frozen=True, slots=True)
class SampleContext:
    """`useful` is the judge's verdict, None where there is none; `cited` whether the answer cites it."""

    number: int
    title: str
    text: str
    useful: bool | None
    cited: bool


@dataclass(frozen=True, slots=True)
class SampleAnswer:
    """What one strategy made of a question."""

    name: str
    answer: RagAnswer
    score: RagScore | None
    contexts: list[SampleContext]


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question with an answer a strategy and model, under the main post-processing."""

    question: RagQuestion
    answers: list[SampleAnswer]


def pick_samples(
    questions: Sequence[RagQuestion],
    answers: Iterable[RagAnswer],
    scores: Iterable[RagScore],
    what: ComparisonNames,
    seed: int,
) -> list[SampleQuestion]:
    """Up to `SAMPLES`, in the order of the hash; strategies in the order of the tables."""
    picks: SeededSample[RagQuestion] = SeededSample(SAMPLES, seed)
    for one in questions:
        picks.offer("", one.id, lambda one=one: one)  # type: ignore[misc]
    picked = {one.id: one for one in picks.of("")}
    known = {_key(one): one for one in scores if one.question_id in picked and one.postprocess == what.main}
    kept = [one for one in answers if one.question_id in picked and one.postprocess == what.main]
    order = list(what.strategies)
    kept.sort(key=lambda one: order.index(one.strategy) if one.strategy in order else len(order))
    several = len({one.model for one in kept}) > 1
    return [
        SampleQuestion(
            question,
            [_shown(one, known.get(_key(one)), what, several) for one in kept if one.question_id == question.id],
        )
        for question in picked.values()
    ]


def _key(row: RagAnswer | RagScore) -> tuple[str, str, str]:
    return row.question_id, row.strategy, row.model


def _shown(answer: RagAnswer, score: RagScore | None, what: ComparisonNames, several: bool) -> SampleAnswer:
    name = what.title(answer.strategy)
    return SampleAnswer(f"{name} · {answer.model}" if several else name, answer, score, _contexts(answer, score))


def _contexts(answer: RagAnswer, score: RagScore | None) -> list[SampleContext]:
    titles = dict(zip(answer.candidates, answer.candidate_titles, strict=True))
    verdicts: list[bool | None] = list(score.useful) if score else []
    verdicts += [None] * (len(answer.contexts) - len(verdicts))
    return [
        SampleContext(number, titles.get(chunk, chunk), _beginning(text), verdict, number in answer.citations)
        for number, (chunk, text, verdict) in enumerate(
            zip(answer.contexts, answer.context_texts, verdicts, strict=True), 1
        )
    ]


def _beginning(text: str) -> str:
    """The first lines, without empty ones, cut between words."""
    lines = "\n".join(line for line in text.split("\n") if line.strip())
    return lines if len(lines) <= FIRST else f"{lines[:FIRST].rsplit(None, 1)[0]} …"


@dataclass(frozen=True, slots=True)
class RagResults:
    """What a comparison gave. `by_retriever` are figures of `title_figures`; `info` is the run's run.json."""

    info: Mapping[str, Any]
    what: ComparisonNames
    questions: Sequence[RagQuestion]
    figures: Sequence[RagFigure]
    differences: Sequence[RagDifference]
    usages: Sequence[RagUsage]
    by_retriever: Sequence[RagFigure] = ()


def rag_page(results: RagResults, answers: Iterable[RagAnswer], scores: Iterable[RagScore]) -> str:
    """The page. Answers and scores are gone through once; those of a few sample questions are kept."""
    samples = pick_samples(results.questions, answers, scores, results.what, _seed(results))
    return environment().get_template("rag.html.j2").render(_content(results), samples=samples)


def _content(results: RagResults) -> dict[str, Any]:
    info, what = results.info, results.what
    main, others = difference_rows(results.differences, what)
    return {
        "info": info,
        "took": duration(info),
        "questions": len(results.questions),
        "strategies": list(dict.fromkeys(what.title(one.strategy) for one in results.figures)),
        "models": list(dict.fromkeys(one.model for one in results.figures)),
        "judge": what.judge,
        "judged_by": tables.judge_note(what.judge),
        "failed": sum(one.failed for one in results.usages),
        "tables": [one for one in map(_shown_page, _grids(results)) if one.strict.grid.columns],
        "figure": contexts(results.figures, what),
        "difference_header": DIFFERENCE_HEADER,
        "differences": main,
        "other_differences": others,
        "usage_header": USAGE_HEADER,
        "usage": usage_rows(results.usages, what),
    }


def _grids(results: RagResults) -> list[tuple[str, ResultTable]]:
    figures, what = results.figures, results.what
    return [
        ("table-2", tables.table_2(figures, what)),
        ("table-3", tables.table_3(figures, what)),
        ("table-4", tables.table_4(figures, what)),
        ("table-5", tables.table_5(figures, what)),
        ("documents", tables.documents_table(figures, what)),
        ("retrievers", tables.retrievers_table(results.by_retriever)),
    ]


def _shown_page(named: tuple[str, ResultTable]) -> PaperTable:
    return paper_table(*named)


def _seed(results: RagResults) -> int:
    return int(results.info["config"].get("seed", 0))
