"""How good a verification engine is on pairs of a text and a statement whose relation people have marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import estimate_figures
from fdarx_core.evaluation.metrics import Mask, Metric, Numbers, ScoreColumns, divide, every_row, ratio
from fdarx_core.evaluation.tables import ResultTable, build_table, table_text
from fdarx_core.records import Figure, content_id
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.tables import read_json_lines, text_at
from fdarx_core.verify import TextPair, Verdict, open_engine, verify

MARKS = ("supported", "contradicted", "unsupported", "not_supported")
"""Marks of a pair. A source with two classes has `not_supported` for everything that is not supported."""
_DENIALS = ("contradicted", "unsupported")
ALL_SOURCES = "all"
PER_CLASS = ("precision", "recall")

_MARK_OF = {
    **{mark: mark for mark in MARKS},
    **dict.fromkeys(("entailment", "entailed", "supports", "support", "true"), "supported"),
    **dict.fromkeys(("contradiction", "refuted", "refutes", "contradicts", "false"), "contradicted"),
    **dict.fromkeys(("neutral", "not enough info", "nei", "not_enough_info"), "unsupported"),
}
_FIELDS = {
    "text": ("text", "evidence", "premise"),
    "statement": ("statement", "claim", "hypothesis"),
    "mark": ("mark", "label", "gold"),
}


@dataclass(frozen=True, slots=True)
class MarkedPair:
    """A text and a statement with the mark of people; `source` is the name of the file it was read from."""

    text: str
    statement: str
    mark: str
    source: str
    drug: str = ""


def read_marked_pairs(file: Location) -> list[MarkedPair]:
    """Read pairs from a file of JSON lines.

    Each line has the text (text, evidence or premise), the statement (statement, claim or hypothesis) and its mark
    (mark, label or gold: one of `MARKS`, or the names that NLI sets have for them), and may have the `drug`.

    Raises:
        StorageError: the file is missing, or a line is not such a pair; the message names the line.
    """
    source, found = file.name.partition(".")[0], list[MarkedPair]()
    for line in read_json_lines(file):
        where, row = line.place, line.row
        if line.fault:
            raise StorageError(f"{where} is no JSON object with text, statement and mark: {line.fault}")
        values = {name: text_at(row, *keys) for name, keys in _FIELDS.items()}
        for name, keys in _FIELDS.items():
            if not values[name]:
                raise StorageError(f"{where} has no {name}; give it in a field {', '.join(keys[:-1])} or {keys[-1]}")
        mark = _MARK_OF.get(values["mark"].lower())
        if mark is None:
            raise StorageError(f"{where} has the unknown mark {values['mark']!r}; marks are {', '.join(MARKS)}")
        found.append(MarkedPair(values["text"], values["statement"], mark, source, text_at(row, "drug")))
    if not found:
        raise StorageError(f"{file} has no marked pairs; give JSON lines with text, statement and mark")
    return found


def score_engine(
    pairs: Sequence[MarkedPair], verdicts: Sequence[Verdict], *, seed: int = 0, resamples: int = 2000
) -> list[Figure]:
    """Return the figures of an engine by source, with intervals by bootstrap over texts.

    Sources with the same classes also have figures over all of them together.

    `macro_f1` is the mean F1 over the marks that occur, where an undecided pair is found by no class;
    `precision_decided` is the share of right verdicts among the decided pairs, `decided` the share of these;
    `precision_MARK` and `recall_MARK` are those of one class. The key of a figure is `source`. A figure that has no
    meaning is left out.
    """
    two_classes = {pair.source for pair in pairs if pair.mark == "not_supported"}
    found = [
        "not_supported" if pair.source in two_classes and verdict.verdict in _DENIALS else verdict.verdict
        for pair, verdict in zip(pairs, verdicts, strict=True)
    ]
    rows = {
        "cluster": [content_id(pair.text) for pair in pairs],
        "question_id": [str(number) for number in range(len(pairs))],
        "source": [pair.source for pair in pairs],
        "mark": [pair.mark for pair in pairs],
        "verdict": found,
    }
    columns = ScoreColumns(pa.table(rows))
    sources = sorted({pair.source for pair in pairs})
    slices: list[tuple[str, Mask]] = [(source, columns.is_in("source", source)) for source in sources]
    if len(sources) > 1 and len(two_classes) in (0, len(sources)):
        slices.insert(0, (ALL_SOURCES, every_row(columns)))
    wanted = [({"source": source}, metric, here) for source, here in slices for metric in _METRICS]
    figures = estimate_figures(columns, wanted, seed=seed, resamples=resamples)
    return [figure for figure in figures if figure.value is not None]


_CHUNK = 200


def score_pairs(
    marked: Sequence[MarkedPair],
    engine: str,
    *,
    threshold: float,
    seed: int,
    resamples: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, Any], str]:
    """Judge marked pairs; return what is kept of the engine's figures, as `read_engine_scores` reads it, and a table.

    Args:
        marked: the pairs.
        engine: the name of the engine, as `open_engine` takes it.
        threshold: the probability from which a class decides.
        seed: as in `score_engine`.
        resamples: as in `score_engine`.
        progress: is called with the number of pairs judged, and of all.
    """
    judge, verdicts = open_engine(engine), list[Verdict]()
    progress(0, len(marked))
    for start in range(0, len(marked), _CHUNK):
        chunk = [TextPair(pair.text, pair.statement, pair.drug) for pair in marked[start : start + _CHUNK]]
        verdicts += verify(chunk, judge, threshold=threshold)
        progress(len(verdicts), len(marked))
    figures = score_engine(marked, verdicts, seed=seed, resamples=resamples)
    kept = {"engine": judge.name, "threshold": threshold, "figures": [figure.to_row() for figure in figures]}
    return kept, table_text(engine_table(judge.name, figures))


def _decided(columns: ScoreColumns) -> Numbers:
    """Return whether the verdict is right, whether there is one, and 1 for every pair."""
    decided = ~columns.is_in("verdict", "undecided")
    right = decided & (columns.strings("verdict") == columns.strings("mark"))
    return np.column_stack([right, decided, np.ones(columns.rows)]).astype(np.float64)


def _counts(marks: Iterable[str], columns: ScoreColumns) -> Numbers:
    """Return by mark: whether mark and verdict are it, whether the verdict is, whether the mark is."""
    counts = [
        column
        for mark in marks
        for found, marked in [(columns.is_in("verdict", mark), columns.is_in("mark", mark))]
        for column in (found & marked, found, marked)
    ]
    return np.column_stack(counts).astype(np.float64)


def _f1(sums: Numbers) -> Numbers:
    """Return the mean of 2 · hits ÷ (found + marked) over the marks that occur."""
    hits, found, marked = (sums[..., start::3] for start in range(3))
    scores = np.where(marked > 0, divide(2 * hits, found + marked), 0.0)
    return divide(scores.sum(axis=-1), np.count_nonzero(marked > 0, axis=-1))


_METRICS = [
    Metric("macro_f1", every_row, partial(_counts, MARKS), _f1),
    Metric("precision_decided", every_row, _decided, ratio),
    Metric("decided", every_row, _decided, lambda sums: ratio(sums[..., 1:])),
    *(
        Metric(f"{name}_{mark}", every_row, partial(_counts, (mark,)), combine)
        for mark in MARKS
        for name, combine in zip(PER_CLASS, (ratio, lambda sums: ratio(sums[..., ::2])), strict=True)
    ),
]


def engine_table(engine: str, figures: Sequence[Figure]) -> ResultTable:
    """Return the figures as a table with a row for each source."""
    columns = [
        ("", "macro-F1", "macro_f1"),
        ("Decided", "precision", "precision_decided"),
        ("Decided", "share", "decided"),
        *((mark.replace("_", " "), name, f"{name}_{mark}") for mark in MARKS for name in PER_CLASS),
    ]
    pairs = {figure.keys["source"]: figure.rows for figure in figures if figure.metric == "macro_f1"}
    names = {source: f"{source} ({rows:,})" for source, rows in pairs.items()}
    cells = [(names[figure.keys["source"]], figure.metric, figure) for figure in figures]
    return build_table(f"{engine} on marked pairs", "source", columns, cells, "texts")


NOT_MEASURED = "How often it is right was not measured; `fdarx verify --pairs FILE --engine NAME` does that."


def read_engine_scores(file: Location) -> dict[str, Any]:
    """Read a file of `fdarx verify --out`: the engine, the threshold, and the rows of its figures.

    Raises:
        StorageError: the file is missing, or is not such a file.
    """
    try:
        scores: dict[str, Any] = orjson.loads(file.read_text())
        [Figure.from_row(row).keys["source"] for row in scores["figures"]]
        return {"engine": str(scores["engine"]), "threshold": float(scores["threshold"]), "figures": scores["figures"]}
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{file} has no figures of an engine; give what `fdarx verify --out FILE` writes") from error


def known_scores(engine: str) -> dict[str, Any] | None:
    """Return the figures of an engine that the package was released with, in the same form; None for other engines."""
    resource = files("fdarx_core.verify").joinpath("measured.json")
    scores: dict[str, Any] = orjson.loads(resource.read_bytes())
    return scores if scores["engine"] == engine else None


def measured_note(engine: str, scores: Mapping[str, Any] | None) -> str:
    """Return a sentence with the measured scores of an engine by source, or with the command that measures them.

    `scores` is the result of `read_engine_scores`, None if the engine was not measured.
    """
    if scores is None:
        return NOT_MEASURED
    by_source: dict[str, dict[str, Figure]] = {}
    for figure in map(Figure.from_row, scores["figures"]):
        by_source.setdefault(figure.keys["source"], {})[figure.metric] = figure
    by_source.pop(ALL_SOURCES, None)
    names = {"macro_f1": "macro-F1", "precision_decided": "precision of the decided", "decided": "share decided"}
    notes = []
    for source, figures in by_source.items():
        values = [f"{name} {figures[metric].value:.2f}" for metric, name in names.items() if metric in figures]
        notes.append(f"{source} ({max(scored.rows for scored in figures.values()):,} pairs) {', '.join(values)}")
    return (
        f"{engine} on pairs that people marked, from a probability of {scores['threshold']:g} on: {'; '.join(notes)}."
    )
