"""A whole factuality run: answers, the checks of each, then figures, tables and the report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.similarity import AnswerSimilarity
from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.extras import require
from fdarx_core.factuality.evidence.sources import open_evidence
from fdarx_core.factuality.evidence.subjects import LabelNames
from fdarx_core.factuality.figures import FactualityRows
from fdarx_core.factuality.safety import SafetyPassages, safety_counts, safety_sentence
from fdarx_core.factuality.scores import ScoringMethod, Weights
from fdarx_core.factuality.tables import Summary, metrics_json, summarize, tables
from fdarx_core.labels.rxnorm import read_rxnorm
from fdarx_core.llm import TRANSIENT, source_digest
from fdarx_core.pipeline.executor import Stages
from fdarx_core.pipeline.factuality_steps import AnswerState, FactualitySetup, factuality_steps
from fdarx_core.pipeline.job import PipelineJob
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Part, Resource, Stage, guarded
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
from fdarx_core.report.answer_viewer import ScoredAnswer
from fdarx_core.report.factuality_page import factuality_page, factuality_sentence
from fdarx_core.report.figure_limits import FactualityChecks
from fdarx_core.storage import RunDirectory, read_records, read_table, write_records
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.run_directory import read_labels
from fdarx_core.text.refusals import declines
from fdarx_core.verify.cross_encoder import CrossEncoder

ANSWERS_PER_PART = 16
CODE_VERSION = source_digest(
    "fdarx_core.factuality",
    "fdarx_core.retrieval",
    "fdarx_core.evaluation",
    "fdarx_core.baseline",
    "fdarx_core.text",
    "fdarx_core.verify",
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
_OF_PAIRS = [
    "answer_id", "claim_id", "kind", "rank", "engine", "entailment", "neutral", "contradiction", "on_subject",
]  # fmt: skip
"""Columns that ablations need."""


def cut_answers(parts: PartFiles, rows: Iterable[CheckedAnswer | Reject]) -> range:
    """Write the answers, part by part, and the rejects; returns the parts' numbers."""

    def with_outcomes() -> Iterator[CheckedAnswer | Reject]:
        for row in rows:  # files of answers do not say which of them are refusals
            if isinstance(row, CheckedAnswer) and row.outcome == "answered" and declines(row.answer):
                row = replace(row, outcome="refused")
            yield row

    return parts.write_parts("answers", with_outcomes(), CheckedAnswer, ANSWERS_PER_PART)


def read_states(parts: PartFiles, part: Part) -> list[AnswerState]:
    """Return the answers of a part."""
    return [AnswerState(answer) for answer in parts.read("answers", part.number, CheckedAnswer)]


def write_states(parts: PartFiles, spec: FactualitySetup, part: int, states: Sequence[AnswerState]) -> None:
    """Write what was made of a part. It is made again by the next start if anything failed for now."""
    pairs = [row for engine in spec.engines for state in states for row in state.pairs[engine.name]]
    pairs += [row for engine in spec.engines for state in states for row in state.unsearched_pairs(engine.name)]
    evidence: dict[str, Evidence] = {}
    for state in states:
        evidence |= state.all_evidence()
    rows: Rows = {
        "claims": [row for state in states for row in state.claims],
        "evidence": list(evidence.values()),
        "pairs": pairs,
        "verdicts": [row for state in states for row in state.verdicts],
        "flags": [row for state in states for row in state.flags],
        "scores": [state.score for state in states if state.score],
    }
    for kind, record in _KINDS.items():
        parts.write(kind, part, rows[kind], record)
    reasons = [reason for score in rows["scores"] for reason in score.unscored]
    reasons += [pair.reason for pair in rows["pairs"] if pair.entailment is None]
    if not any(TRANSIENT in reason for reason in reasons):
        parts.mark_complete("", part)


def read_rows(run: RunDirectory, number: int, kinds: Sequence[str] = ()) -> Rows:
    """Return the rows of these kinds of a part, or of all kinds and its answers; none where it was never made."""
    rows: Rows = {kind: [] for kind in kinds or _KINDS}
    if run.part("scores", number).exists():
        rows = {kind: list(read_records(run.part(kind, number), _KINDS[kind])) for kind in rows}
    return rows if kinds else {**rows, "answers": list(read_records(run.part("answers", number), CheckedAnswer))}


def publish(run: RunDirectory, info: Mapping[str, Any], *, seed: int, resamples: int) -> str:
    """Write figures, correlations and differences as Parquet, metrics.json and report.html; return the result in words.

    `info` is the content of the finished run.json. Memory grows with the scores, and with the pairs of the answers that
    have reference statements.
    """
    rows = _rows(run, info)
    summary = summarize(rows, seed=seed, resamples=resamples)
    write_records(run.file("figures.parquet"), summary.figures, Figure)
    write_records(run.file("correlations.parquet"), summary.correlations, Figure)
    write_records(run.file("differences.parquet"), summary.differences, Difference)
    metrics = metrics_json(rows, summary)
    run.file("metrics.json").write_bytes(orjson.dumps(metrics, option=orjson.OPT_INDENT_2))
    run.file("report.html").write_text(_page(run, info, summary))
    return factuality_sentence(summary, rows.method)


def safety_of(run: RunDirectory) -> str:
    """Return in words what the safety checks of a finished run found; "" where no labels were given for them."""
    info = run.info()
    if not info["safety"]:
        return ""
    counts = Counter[str]()
    for number in range(info["parts"]):
        for score in read_rows(run, number, ("scores",))["scores"]:
            counts += safety_counts(score)
    return safety_sentence(counts, by_model=info["checks_safety"])


def checks_of(run: RunDirectory) -> FactualityChecks:
    """Return what limits the figures of a finished run. One part of it is in memory at a time."""
    info = run.info()
    checks = FactualityChecks(method_of(info))
    for _ in checks.counted(_examined(run, range(info["parts"]))):
        pass
    return checks


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
    means = list(read_records(run.file("figures.parquet"), Figure))
    related = list(read_records(run.file("correlations.parquet"), Figure))
    differences = list(read_records(run.file("differences.parquet"), Difference))
    rows = FactualityRows([], method=method_of(run.info()))
    return Summary(means, differences, related, tables(means, related, differences, rows))


def _page(run: RunDirectory, info: Mapping[str, Any], summary: Summary) -> str:
    return factuality_page(
        info=info,
        method=method_of(info),
        summary=summary,
        answers=_examined(run, range(info["parts"])),
        rejects=Counter((row.stage, row.reason) for row in read_records(run.part("rejects", 0), Reject)),
    )


def _rows(run: RunDirectory, info: Mapping[str, Any]) -> FactualityRows:
    scores: list[FactualityScore] = []
    flags: list[SafetyFlag] = []
    pairs = [pa.schema([arrow_schema(PairVerdict).field(name) for name in _OF_PAIRS]).empty_table()]
    for number in range(info["parts"]):
        made = read_rows(run, number, ("scores", "flags"))
        scores += made["scores"]
        flags += made["flags"]
        kept = [row.answer_id for row in made["scores"] if (row.completeness, row.stated_in_references) != (None, None)]
        if kept:
            table = read_table(run.part("pairs", number), _OF_PAIRS)
            pairs.append(table.filter(pc.is_in(table["answer_id"], pa.array(kept))))
    return FactualityRows(scores, pa.concat_tables(pairs), flags if info["checks_safety"] else None, method_of(info))


def _examined(run: RunDirectory, numbers: Sequence[int]) -> Iterator[ScoredAnswer]:
    """Yield the answers that have a score, part by part."""
    for number in numbers:
        made = read_rows(run, number)
        scores = {row.answer_id: row for row in made["scores"]}
        by_answer, kinds = defaultdict[tuple[str, str], list[Any]](list), ("claims", "verdicts", "pairs", "flags")
        for kind in kinds:
            for row in made[kind]:
                by_answer[kind, row.answer_id].append(row)
        evidence = {row.id: row for row in made["evidence"]}
        for answer in made["answers"]:
            if answer.id in scores:
                claims, verdicts, pairs, flags = (by_answer[kind, answer.id] for kind in kinds)
                yield ScoredAnswer(answer, scores[answer.id], claims, verdicts, pairs, evidence, flags)


_CPUS_PER_MODEL = 8
"""CPUs for each model on a cluster without GPUs; more models would take more memory."""
_CPUS_PER_SOURCE = 4
_MOST_SOURCES = 16


class SafetyLabels:
    """The passages of the labels of a build for safety checks. `rxnorm` is the place of RxNorm's names, "" for none."""

    def __init__(self, build: RunDirectory, rxnorm: str) -> None:
        labels = ((rows.label, list(rows.passages.values())) for rows in read_labels(build))
        self._passages = SafetyPassages(labels, read_rxnorm(rxnorm) if rxnorm else ())

    def find(self, answers: Sequence[CheckedAnswer]) -> list[list[Evidence] | str]:
        """Return the passages for each answer, or why there are none."""
        return [guarded(self._passages.find, answer) for answer in answers]


@dataclass(slots=True, kw_only=True)
class FactualityEvaluation(PipelineJob):
    """A factuality run; see `PipelineJob`.

    `rows` returns the answers to be scored, and rejects for rows that are none; `input_info` is what run.json says of
    them.
    """

    phase: ClassVar[str] = "check"
    code_version: ClassVar[str] = CODE_VERSION

    spec: FactualitySetup
    rows: Callable[[], Iterator[CheckedAnswer | Reject]]
    input_info: dict[str, Any]

    def prepare(self, *, planned: bool) -> None:
        """Cut the answers into parts."""
        require("eval")
        with self.timed("intake"):
            self.progress("intake", 0, 0, "")
            self.numbers = cut_answers(self.parts, self.rows())

    def stages(self, *, planned: bool) -> Stages:
        steps = factuality_steps(self.spec, planned=planned)
        stage = Stage("check", partial(read_states, self.parts), steps, partial(write_states, self.parts, self.spec))
        return [(stage, [Part(number) for number in self.numbers])]

    def resources(self, *, planned: bool) -> Mapping[str, Resource]:
        """Return the source of evidence and the models. On GPUs, all kinds that compute on them share them equally."""
        spec, cpus = self.spec, self.executor.cpus
        nli = [engine for engine in spec.engines if engine.kind == "nli"]
        encodes = {name for name, source in spec.searched.items() if spec.encoder or source.startswith("index:")}
        on_gpus = partial(self.executor.models_resource, kinds=len(nli) + spec.measures_similarity + len(encodes))
        found: dict[str, Resource] = {}
        size = min(_MOST_SOURCES, max(1, cpus // _CPUS_PER_SOURCE))
        for name, text in spec.searched.items():
            source = (text, spec.directories, spec.retriever)
            opened = on_gpus(open_evidence, *source, off_gpu=size) if name in encodes else None
            found[name] = opened or Resource(open_evidence, source, size)
        if spec.checks_safety:
            found["safety"] = Resource(SafetyLabels, (open_build(spec.safety), spec.rxnorm))
        if planned:
            return found
        if spec.names_from == "names":
            found["names"] = Resource(LabelNames, (spec.safety,))
        if spec.measures_similarity:
            encoder = None if spec.bertscore else spec.encoder  # not needed beside BERTScore
            found["similarity"] = on_gpus(AnswerSimilarity, spec.bertscore, spec.bertscore_layers, encoder)
        open_model = {engine.name: partial(CrossEncoder, engine.place, labels=engine.labels) for engine in nli}
        of_model = max(1, cpus // _CPUS_PER_MODEL)
        return found | {name: on_gpus(factory, off_gpu=of_model) for name, factory in open_model.items()}

    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        about = {
            **self.input_info,
            "parts": len(self.numbers),
            "method": asdict(self.spec.method),
            "safety": self.spec.safety,
            "checks_safety": self.spec.checks_safety,
        }
        return self.publish_parts(ended, about, partial(publish, self.run, seed=self.seed, resamples=self.resamples))
