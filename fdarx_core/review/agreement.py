"""Agreement of judges with people and of people with each other. Source: FDARxBench §A.1, Tables 3, 4 and 5."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pyarrow as pa

from fdarx_core.evaluation.bootstrap import RESAMPLES, estimate
from fdarx_core.evaluation.metrics import Mask, Metric, ScoreColumns
from fdarx_core.evaluation.tables import ResultTable, build_table, interval_note
from fdarx_core.records import Estimate, Figure
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.records.question_types import QUESTION_TYPES, type_title
from fdarx_core.review.agreement_metrics import (
    JUDGE,
    WEIGHT,
    AnnotatedItem,
    alpha_metric,
    collect_votes,
    consensus,
    table_metrics,
    unanimous,
)
from fdarx_core.review.tasks import REVIEW_TASKS, Scale, task_scales

ALL = "all"
TIE = "tie"
UNDECIDED = "no decision"
_VOTES = "annotator {}"
"""The column of an annotator's votes, by number."""
_OF_QUESTIONS = ("relevance", "category")
_COEFFICIENTS = (("Acc.", "accuracy"), ("F1", "f1"), ("Prec.", "precision"), ("Rec.", "recall"), ("κ", "kappa"))
_RANGES = (
    ("Judge, acc.", "annotator", "accuracy"),
    ("Judge, F1", "annotator", "f1"),
    ("Judge, prec.", "annotator", "precision"),
    ("Judge, rec.", "annotator", "recall"),
    ("Pairs, match", "pair", "accuracy"),
    ("Pairs, F1", "pair", "f1"),
    ("Pairs, κ", "pair", "kappa"),
)
_ROUNDING = 1e-9
"""Bounds that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """The ids of items by people's consensus (rows, or `TIE`) and the judge's decision (columns, or `UNDECIDED`).

    Values that neither gave are left out.
    """

    task: str
    judge: str
    rows: list[str]
    columns: list[str]
    cells: list[list[list[str]]]


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """The progress of a task: its items, those with a vote, and each annotator's votes.

    Of the items with a vote, `undecided` counts those without a decision of the judge, `ties` lists those that tie, and
    `adjudicated` counts those whose disagreement was settled. `unsure` counts marks.
    """

    task: str
    items: int
    judged: int
    undecided: int
    ties: list[str]
    votes: dict[str, int]
    unsure: int = 0
    adjudicated: int = 0


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of judges and people in a review.

    `informed` counts the votes that were given with the judge's decision in view; with `blind` they are in no figure.
    """

    voted: list[AnnotatedItem]
    figures: list[Figure]
    confusions: list[ConfusionMatrix]
    tallies: list[TaskProgress]
    informed: int
    blind: bool
    weighted: bool
    seed: int


def measure_agreement(
    items: Iterable[ReviewItem],
    annotations: Sequence[Annotation],
    *,
    blind: bool = False,
    weighted: bool = False,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Agreement:
    """Measure agreement of judges with people, and of people with each other, in each task that has votes.

    Args:
        items: the items of the review.
        annotations: one vote for each annotator and item, at most.
        blind: leave out votes that were given with the judge's decision in view.
        weighted: weight each item by the inverse of its fraction, for figures of the whole run.
        seed: of the bootstrap.
        resamples: of the bootstrap, over labels.

    Raises:
        ValueError: as `collect_votes` does.
    """
    voted = collect_votes(items, annotations, blind=blind)
    figures: list[Figure] = []
    matrices: list[ConfusionMatrix] = []
    progress: list[TaskProgress] = []
    for name, task in REVIEW_TASKS.items():
        of_task = [annotated for annotated in voted if annotated.item.task == name]
        with_votes = [annotated for annotated in of_task if annotated.values]
        if of_task:
            counts = TaskProgress(
                name,
                items=len(of_task),
                judged=len(with_votes),
                undecided=sum(not annotated.item.decision for annotated in with_votes),
                ties=[annotated.item.id for annotated in with_votes if not consensus(annotated.values)],
                votes=dict(Counter(vote.annotator for annotated in with_votes for vote in annotated.annotations)),
                unsure=sum(len(annotated.unsure) for annotated in of_task),
                adjudicated=sum(bool(annotated.adjudications) for annotated in of_task),
            )
            progress.append(counts)
        if with_votes:
            scales = task_scales(task)
            for scale in scales:
                figures += task_figures(of_task, scale, weighted=weighted, seed=seed, resamples=resamples)
            matrices += confusion_matrices(with_votes, scales[-1])
    informed = sum(annotation.saw_decision for annotation in annotations)
    return Agreement(voted, figures, matrices, progress, informed, blind, weighted, seed)


def confusion_matrices(with_votes: Sequence[AnnotatedItem], scale: Scale) -> list[ConfusionMatrix]:
    """Return a matrix for each judge of a task, over all values of the scale."""
    matrices: list[ConfusionMatrix] = []
    for judge in sorted({annotated.item.judge for annotated in with_votes}):
        cells: dict[tuple[str, str], list[str]] = defaultdict(list)
        for voted in with_votes:
            if voted.item.judge == judge:
                cells[consensus(voted.values) or TIE, voted.item.decision or UNDECIDED].append(voted.item.id)
        used = [value for value in scale.values if any(value in key for key in cells)]
        rows = [*used, *([TIE] if any(row == TIE for row, _ in cells) else [])]
        decisions = {column for _, column in cells}
        columns = [*(used if decisions != {UNDECIDED} else []), *([UNDECIDED] if UNDECIDED in decisions else [])]
        grid = [[cells.get((row, column), []) for column in columns] for row in rows]
        matrices.append(ConfusionMatrix(scale.task, judge, rows, columns, grid))
    return matrices


def task_figures(
    voted: Sequence[AnnotatedItem], scale: Scale, *, weighted: bool, seed: int, resamples: int
) -> list[Figure]:
    """Return all coefficients of the items of one task, by judge and question type, where there are items.

    The keys of a figure are task, values and positive (of the scale; positive is "" where it has none), judge and type
    (of the items, `all` for any), between and who. `between` is consensus or unanimous (people together, the judge as
    predictor), annotator (one of them, the same), pair (two annotators) or annotators (all); `who` names them. Bounds
    are None where the value rests on one label or never varies; `unscored` counts items that the judge did not decide.
    """
    people = sorted({vote.annotator for annotated in voted for vote in annotated.annotations})
    columns = _columns(voted, scale, people, weighted)
    named = list(_named_metrics(people, scale))
    figures: list[Figure] = []
    for judge, type_, rows in _item_groups(columns):
        keys = {
            "task": scale.task, "values": ", ".join(scale.values), "positive": scale.positive, "judge": judge,
            "type": type_,
        }  # fmt: skip
        slices = [(metric, rows) for *_, metric in named]
        for (between, who, name, _), got in zip(
            named, estimate(columns, slices, seed=seed, resamples=resamples), strict=True
        ):
            if got.rows or got.unscored:
                if got.low is None or got.high is None or got.high - got.low < _ROUNDING:
                    got.low = got.high = None  # a few items without an error do not show that there is none
                figures.append(Figure.of(name, {**keys, "between": between, "who": who}, got))
    return figures


def _named_metrics(people: Sequence[str], scale: Scale) -> Iterator[tuple[str, str, str, Metric]]:
    """Yield (between, who, metric, metric over items) for all coefficients."""
    for reference in ("consensus", "unanimous"):
        for name, metric in table_metrics(reference, JUDGE, scale).items():
            yield reference, "", name, metric
    columns = {person: _VOTES.format(number) for number, person in enumerate(people)}
    for person, column in columns.items():
        for name, metric in table_metrics(column, JUDGE, scale).items():
            yield "annotator", person, name, metric
    for first, second in combinations(people, 2):
        for name, metric in table_metrics(columns[first], columns[second], scale).items():
            yield "pair", f"{first}, {second}", name, metric
    if len(people) > 1:
        yield "annotators", ", ".join(people), "alpha", alpha_metric(list(columns.values()), scale)


def _columns(voted: Sequence[AnnotatedItem], scale: Scale, people: Sequence[str], weighted: bool) -> ScoreColumns:
    votes = [{vote.annotator: scale.read(vote.value) for vote in annotated.annotations} for annotated in voted]
    items = [annotated.item for annotated in voted]
    weights = [1 / item.fraction if weighted else 1.0 for item in items]
    mean = sum(weights) / max(len(weights), 1)  # weights are 1 on average: chance corrections count items
    choices = {
        JUDGE: [item.decision for item in items],
        "consensus": [consensus([scale.read(value) for value in annotated.values]) for annotated in voted],
        "unanimous": [unanimous(list(of.values())) for of in votes],
        **{_VOTES.format(number): [of.get(person, "") for of in votes] for number, person in enumerate(people)},
    }
    texts = {"question_id": "id", "cluster": "set_id", "type": "type", "by": "judge"}
    columns = {name: pa.array([getattr(item, of) for item in items], pa.string()) for name, of in texts.items()}
    columns[WEIGHT] = pa.array([weight / mean for weight in weights], pa.float64())
    for name, values in choices.items():
        codes = [scale.code(scale.read(value) if value else "") for value in values]
        columns[name] = pa.array(codes, pa.float64())
    return ScoreColumns(pa.table(columns))


def _item_groups(columns: ScoreColumns) -> Iterator[tuple[str, str, Mask]]:
    """Yield the items of each judge, and of all judges where there are several, by question type and together."""
    judges = sorted({name for name in columns.strings("by").tolist() if name})
    types = [name for name in QUESTION_TYPES if columns.is_in("type", name).any()]
    everything = columns.is_in("type", *set(columns.strings("type").tolist()))
    for judge in [*judges, ALL] if len(judges) > 1 else judges or [ALL]:
        of_judge = everything if judge == ALL else columns.is_in("by", judge)
        for type_ in types if len(types) > 1 else []:
            rows = of_judge & columns.is_in("type", type_)
            if rows.any():
                yield judge, type_, rows
        yield judge, ALL, of_judge


def agreement_tables(agreement: Agreement) -> list[ResultTable]:
    """Return Tables 3 to 5 of the paper; one has no rows where there is nothing to show.

    Table 3 is the judge against people on relevance and category, all types together; Table 4 is each judge against
    people on questions and answers, by question type. Source: FDARxBench Tables 3, 4 and 5.
    """
    figures = agreement.figures
    of_questions = [figure for figure in figures if figure.keys["task"] in _OF_QUESTIONS and figure.keys["type"] == ALL]
    others = [figure for figure in figures if figure.keys["task"] not in _OF_QUESTIONS and _in_own_row(figure)]
    return [
        _judge_table("Table 3. Relevance and category of questions: judge and people", of_questions, agreement),
        _judge_table("Table 4. Correctness and quality: judge and people", others, agreement),
        _annotators_table(agreement),
    ]


def _annotators_table(agreement: Agreement) -> ResultTable:
    """Return the lowest and highest figures of the annotators, against the judge and each other, and α of all.

    There are no rows where no two annotators judged the same item.
    """
    judges: dict[str, set[str]] = defaultdict(set)
    for figure in agreement.figures:
        judges[figure.keys["task"]].add(figure.keys["judge"])
    in_own_row = [figure for figure in agreement.figures if _in_own_row(figure)]
    figures = [figure for figure in in_own_row if figure.keys["judge"] == ALL or len(judges[figure.keys["task"]]) == 1]
    cells: list[tuple[str, Hashable, Estimate]] = []
    for name, row in _rows(figures).items():
        if _count(row, "pair"):
            for group, between, metric in _RANGES:
                known = [figure.value for figure in _cell(row, between, metric) if figure.value is not None]
                bounds = (("low", min(known)), ("high", max(known))) if known else ()
                cells += [(name, (group, bound), Estimate(value)) for bound, value in bounds]
            cells += [(name, "alpha", figure) for figure in _cell(row, "annotators", "alpha")]
    columns = [(group, bound, (group, bound)) for group, _, _ in _RANGES for bound in ("low", "high")]
    several = any(len(_cell(row, "pair", "accuracy")) > 1 for row in _rows(figures).values())
    judged = any(key[0].startswith("Judge") for _, key, _ in cells if isinstance(key, tuple))
    title = f"Table 5. Annotators: each against {'the judge and against ' * judged}each other"
    table = build_table(title, "Task", [*columns, ("All", "α", "alpha")], cells)
    table.notes += [
        f"{'Judge: with one annotator at a time as the reference. ' * judged}Pairs: two annotators, on the items that "
        f"both judged.{' Low and high are of different people.' * (judged or several)}",
        "α: Krippendorff's, for nominal values, over all votes.",
        *_notes(agreement, figures),
    ]
    return table


def _judge_table(title: str, figures: Sequence[Figure], agreement: Agreement) -> ResultTable:
    together = (("Consensus", "consensus"), ("Unanimous", "unanimous"))
    cells = [
        (f"{name} ({_count(row, 'consensus')}; {_count(row, 'unanimous')})", (between, metric), figure)
        for name, row in _rows(figures).items()
        for _, between in together
        for _, metric in _COEFFICIENTS
        for figure in _cell(row, between, metric)[:1]
    ]
    columns = [(group, name, (between, metric)) for group, between in together for name, metric in _COEFFICIENTS]
    table = build_table(title, "Task", columns, cells)
    table.notes += [
        "The judge predicts, people are the reference. In brackets: the items with a consensus; those with at least "
        "two votes, all equal. A κ near 0 beside a high accuracy: nearly all items have one value, as by chance.",
        *_notes(agreement, figures),
    ]
    return table


_Row = dict[tuple[str, str], list[Figure]]
"""The figures of one task, scale, judge and question type, by `between` and metric."""


def _rows(figures: Sequence[Figure]) -> dict[str, _Row]:
    """Group the figures into named rows, in their order."""
    rows: dict[str, _Row] = {}
    of_task: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for figure in figures:
        if figure.keys not in of_task[figure.keys["task"]]:
            of_task[figure.keys["task"]].append(figure.keys)
    for figure in figures:
        row = rows.setdefault(_row_name(figure.keys, of_task[figure.keys["task"]]), {})
        row.setdefault((figure.keys["between"], figure.metric), []).append(figure)
    return rows


def _row_name(keys: Mapping[str, str], of_task: Sequence[Mapping[str, str]]) -> str:
    """Name the task, and the scale, type and judge where there are several; all judges together have no name."""
    parts = [REVIEW_TASKS[keys["task"]].title]
    if any(other["positive"] != keys["positive"] for other in of_task) and not keys["positive"]:
        parts.append(f"{len(keys['values'].split(', '))} values")
    elif len({other["type"] for other in of_task}) > 1:
        parts.append("all types" if keys["type"] == ALL else type_title(keys["type"]).lower())
    if keys["judge"] != ALL and len({other["judge"] for other in of_task}) > 1:
        parts.append(keys["judge"])
    return ", ".join(parts)


def _cell(row: _Row, between: str, metric: str) -> list[Figure]:
    """Return the figures of a cell. In rows of several equal values, the macro F1 stands for the F1."""
    return row.get((between, metric)) or row.get((between, "macro_f1" if metric == "f1" else metric), [])


def _count(row: _Row, between: str) -> int:
    return sum(figure.rows for figure in _cell(row, between, "accuracy"))


def _in_own_row(figure: Figure) -> bool:
    """Return whether a figure is in a row of its own: question types are where the paper's tables have them."""
    return figure.keys["type"] == ALL or (bool(figure.keys["positive"]) and figure.keys["task"] not in _OF_QUESTIONS)


def _notes(agreement: Agreement, figures: Sequence[Figure]) -> list[str]:
    """Return the notes of a table of these figures: what intervals rest on, and what is in no figure."""
    tasks = {figure.keys["task"] for figure in figures}
    progress = [counts for counts in agreement.tallies if counts.task in tasks]
    fractions = {annotated.item.fraction for annotated in agreement.voted if annotated.item.task in tasks}
    notes = [interval_note(figures, "labels")]
    if any(figure.clusters > 1 for figure in figures):
        notes.append("There is no interval where all resamples are equal, as where nobody differs.")
    if any(figure.metric == "macro_f1" for figure in figures):
        notes.append("The F1 of several equal values is the macro F1.")
    if len(fractions) > 1:
        rates = f"of some strata only 1 in {1 / min(fractions):,.0f} items were drawn, and of others more"
        notes.append(
            f"Figures of the whole run: each item counts for those that it was drawn from; {rates}."
            if agreement.weighted
            else f"Figures of the sample: each item counts once, but {rates}. --weighted gives those of the whole run."
        )
    counted = {
        "Items whose votes tie, in no consensus": sum(len(row.ties) for row in progress),
        "Items whose adjudicated value is the consensus": sum(row.adjudicated for row in progress),
        "Votes “unsure”, which are in no figure": sum(row.unsure for row in progress),
        "Items on which the judge reached no decision, in none of its figures": sum(
            row.undecided for row in progress if row.undecided < row.judged
        ),
    }
    notes += [f"{text}: {count:,}." for text, count in counted.items() if count]
    if agreement.informed:
        what = "left out" if agreement.blind else "counted"
        notes.append(
            f"Votes of the whole review given with the judge's decision in view, {what}: {agreement.informed:,}."
        )
    return notes
