"""The rows of the parts of a factuality run, and its figures, tables and report from them and from run.json."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.baseline.refusals import declines
from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.factuality.figures import FactualityRows
from fdarx_core.factuality.scores import Weights
from fdarx_core.factuality.tables import Summary, metrics_json, summarize, tables
from fdarx_core.llm import TRANSIENT, source_digest
from fdarx_core.pipeline.factuality_steps import AnswerState, FactualitySpec
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Part
from fdarx_core.records import (
    CheckedAnswer,
    Claim,
    ClaimVerdict,
    Difference,
    Evidence,
    FactualityScore,
    Figure,
    PairVerdict,
    Reject,
    SafetyFlag,
    arrow_schema,
)
from fdarx_core.report.answer_viewer import FactualityResults, ScoredAnswer, ScoringMethod
from fdarx_core.report.factuality_page import factuality_page
from fdarx_core.storage import RunDirectory, read_records, read_table, write_records

ANSWERS_PER_PART = 16
CODE_VERSION = source_digest(
    "fdarx_core.factuality", "fdarx_core.retrieval", "fdarx_core.evaluation", "fdarx_core.baseline", "fdarx_core.verify"
)
"""Digest of the code that parses, searches, judges and scores. Results of another version are computed again."""

Rows: TypeAlias = dict[str, list[Any]]
"""The rows of one part by kind, one of `_KINDS` or "answers". The evidence holds each passage once."""

_KINDS: dict[str, type] = {
    "claims": Claim,
    "evidence": Evidence,
    "pairs": PairVerdict,
    "verdicts": ClaimVerdict,
    "flags": SafetyFlag,
    "scores": FactualityScore,
}
_OF_PAIRS = ["answer_id", "claim_id", "kind", "rank", "engine", "entailment", "contradiction"]
"""Columns that ablations need."""


def cut_answers(parts: PartFiles, rows: Iterable[CheckedAnswer | Reject]) -> range:
    """Write the answers, part by part, and the rejects; returns the parts' numbers."""
    read = (row if isinstance(row, Reject) else _with_refusal(row) for row in rows)
    return parts.cut("answers", read, CheckedAnswer, ANSWERS_PER_PART)


def _with_refusal(answer: CheckedAnswer) -> CheckedAnswer:
    """Return an answer with its outcome. Files of answers do not say which of them are refusals."""
    declined = answer.outcome == "answered" and declines(answer.answer)
    return replace(answer, outcome="refused") if declined else answer


def read_states(parts: PartFiles, part: Part) -> list[AnswerState]:
    """Return the answers of a part."""
    return [AnswerState(answer) for answer in parts.read("answers", part.number, CheckedAnswer)]


def write_states(parts: PartFiles, spec: FactualitySpec, part: int, states: Sequence[AnswerState]) -> None:
    """Write what was made of a part. It is made again by the next start if anything failed for now."""
    rows = _rows_of(spec, states)
    for kind, record in _KINDS.items():
        parts.write(kind, part, rows[kind], record)
    reasons = [reason for score in rows["scores"] for reason in score.unscored]
    reasons += [pair.reason for pair in rows["pairs"] if pair.entailment is None]
    if not any(TRANSIENT in reason for reason in reasons):
        parts.mark("", part)


def _rows_of(spec: FactualitySpec, states: Sequence[AnswerState]) -> Rows:
    """Return the rows of a part in the order in which they are stored."""
    pairs = [row for engine in spec.engines for state in states for row in state.pairs[engine.name]]
    pairs += [row for engine in spec.engines for state in states for row in state.unsearched_pairs(engine.name)]
    evidence: dict[str, Evidence] = {}
    for state in states:
        passages = [passage for found in state.evidence.values() for passage in found]
        evidence |= {passage.id: passage for passage in [*passages, *([state.stand_in] if state.stand_in else [])]}
    return {
        "claims": [row for state in states for row in state.claims],
        "evidence": list(evidence.values()),
        "pairs": pairs,
        "verdicts": [row for state in states for row in state.verdicts],
        "flags": [row for state in states if not isinstance(state.flags, str) for row in state.flags],
        "scores": [state.score for state in states if state.score],
    }


def read_rows(run: RunDirectory, number: int, kinds: Sequence[str] = ()) -> Rows:
    """Return the rows of these kinds of a part, or of all kinds and its answers; none where it was never made."""
    rows: Rows = {kind: [] for kind in kinds or _KINDS}
    if run.part("scores", number).exists():
        rows = {kind: list(read_records(run.part(kind, number), _KINDS[kind])) for kind in rows}
    return rows if kinds else {**rows, "answers": list(read_records(run.part("answers", number), CheckedAnswer))}


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
    results = FactualityResults(
        info=info,
        method=method_of(info),
        summary=summary,
        answers=_examined(run, range(info["parts"])),
        rejects=Counter((row.stage, row.reason) for row in read_records(run.part("rejects", 0), Reject)),
        contraindications=info["contraindications"],
    )
    return factuality_page(results)


def _rows(run: RunDirectory, info: Mapping[str, Any]) -> FactualityRows:
    scores: list[FactualityScore] = []
    flags: list[SafetyFlag] = []
    pairs = [pa.schema([arrow_schema(PairVerdict).field(name) for name in _OF_PAIRS]).empty_table()]
    for number in range(info["parts"]):
        made = read_rows(run, number, ("scores", "flags"))
        scores += made["scores"]
        flags += made["flags"]
        with_gold = [row.answer_id for row in made["scores"] if (row.gold, row.gold_claims) != (None, None)]
        if with_gold:
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


def _examined(run: RunDirectory, numbers: Sequence[int]) -> Iterator[ScoredAnswer]:
    """Yield the answers that have a score, part by part."""
    for number in numbers:
        made = read_rows(run, number)
        scores = {row.answer_id: row for row in made["scores"]}
        claims, verdicts, pairs, flags = (_by_answer(made[kind]) for kind in ("claims", "verdicts", "pairs", "flags"))
        evidence = {row.id: row for row in made["evidence"]}
        for answer in made["answers"]:
            if answer.id in scores:
                found = claims[answer.id], verdicts[answer.id], pairs[answer.id]
                yield ScoredAnswer(answer, scores[answer.id], *found, evidence, flags[answer.id])


def _by_answer(rows: Sequence[Any]) -> defaultdict[str, list[Any]]:
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        groups[row.answer_id].append(row)
    return groups
