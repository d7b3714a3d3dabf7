"""The figures, tables and report of a factuality run from the rows of its parts and from run.json."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.factuality.figures import FactualityRows
from fdarx_core.factuality.scores import Weights
from fdarx_core.factuality.tables import Summary, metrics_json, summarize, tables
from fdarx_core.pipeline.factuality_parts import FactualityParts
from fdarx_core.records import (
    Claim,
    ClaimVerdict,
    Difference,
    FactualityScore,
    Figure,
    PairVerdict,
    SafetyFlag,
    arrow_schema,
)
from fdarx_core.report.answer_viewer import FactualityResults, ScoredAnswer, ScoringMethod
from fdarx_core.report.factuality_page import factuality_page
from fdarx_core.storage import RunDirectory, read_records, read_table, write_records

_OF_PAIRS = ["answer_id", "claim_id", "kind", "rank", "engine", "entailment", "contradiction"]
"""Columns that ablations need."""

Row = TypeVar("Row", Claim, ClaimVerdict, PairVerdict, SafetyFlag)


def publish(run: RunDirectory, info: Mapping[str, Any], *, seed: int, resamples: int) -> None:
    """Write figures, correlations and differences as Parquet, metrics.json and report.html.

    `info` is the content of the finished run.json. Memory grows with the scores, and with the pairs of the answers that
    have gold.
    """
    rows = _rows(run, info)
    summary = summarize(rows, seed=seed, resamples=resamples)
    write_records(run.file("figures.parquet"), summary.figures, Figure)
    write_records(run.file("correlations.parquet"), summary.correlations, Figure)
    write_records(run.file("differences.parquet"), summary.differences, Difference)
    metrics = metrics_json(rows, summary)
    run.file("metrics.json").write_bytes(orjson.dumps(metrics, option=orjson.OPT_INDENT_2))
    run.file("report.html").write_text(_page(run, info, summary))


def tables_of(run: RunDirectory) -> list[ResultTable]:
    """Return the tables of a published run."""
    return _published(run).grids


def build_factuality_report(run: RunDirectory) -> str:
    """Return the page of a published run, built from its figures."""
    return _page(run, run.info(), _published(run))


def method_of(info: Mapping[str, Any]) -> ScoringMethod:
    """Return how answers were scored, from run.json."""
    method = info["method"]
    return ScoringMethod(**{**method, "weights": Weights(**method["weights"])})


def _published(run: RunDirectory) -> Summary:
    means: list[Figure] = list(read_records(run.file("figures.parquet"), Figure))
    related: list[Figure] = list(read_records(run.file("correlations.parquet"), Figure))
    differ: list[Difference] = list(read_records(run.file("differences.parquet"), Difference))
    return Summary(means, differ, related, tables(means, related, differ, _no_rows(run.info())))


def _page(run: RunDirectory, info: Mapping[str, Any], summary: Summary) -> str:
    parts = FactualityParts(run)
    results = FactualityResults(
        info=info,
        method=method_of(info),
        summary=summary,
        answers=_examined(parts, range(info["parts"])),
        rejects=Counter((row.stage, row.reason) for row in parts.rejects()),
        contraindications=info["contraindications"],
    )
    return factuality_page(results)


def _rows(run: RunDirectory, info: Mapping[str, Any]) -> FactualityRows:
    parts = FactualityParts(run)
    scores: list[FactualityScore] = []
    flags: list[SafetyFlag] = []
    pairs = [pa.schema([arrow_schema(PairVerdict).field(name) for name in _OF_PAIRS]).empty_table()]
    for number in range(info["parts"]):
        made = parts.scored(number, ("scores", "flags"))
        scores += made.scores
        flags += made.flags
        if with_gold := [row.answer_id for row in made.scores if row.gold is not None or row.gold_claims is not None]:
            table = read_table(run.part("pairs", number), _OF_PAIRS)
            pairs.append(table.filter(pc.is_in(table["answer_id"], pa.array(with_gold))))
    return replace(
        _no_rows(info), scores=scores, pairs=pa.concat_tables(pairs), flags=flags if info["safety"] else None
    )


def _no_rows(info: Mapping[str, Any]) -> FactualityRows:
    """Return the method of a run without any answer."""
    method = method_of(info)
    return FactualityRows(
        [],
        engine=method.entailment,
        similarity=method.similarity,
        weights=method.weights,
        threshold=method.threshold,
        k=method.k,
    )


def _examined(parts: FactualityParts, numbers: Sequence[int]) -> Iterator[ScoredAnswer]:
    """Yield the answers that have a score, part by part."""
    for made in map(parts.scored, numbers):
        scores = {row.answer_id: row for row in made.scores}
        claims, verdicts = _by_answer(made.claims), _by_answer(made.verdicts)
        pairs, flags = _by_answer(made.pairs), _by_answer(made.flags)
        evidence = {row.id: row for row in made.evidence}
        for answer in made.answers:
            if answer.id in scores:
                found = claims[answer.id], verdicts[answer.id], pairs[answer.id]
                yield ScoredAnswer(answer, scores[answer.id], *found, evidence, flags[answer.id])


def _by_answer(rows: Sequence[Row]) -> defaultdict[str, list[Row]]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.answer_id].append(row)
    return groups
