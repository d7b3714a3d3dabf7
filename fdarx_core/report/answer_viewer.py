"""The answer viewer of a factuality page: answers, claims and passages as JSON for the page's script."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import chain, pairwise
from typing import Any

import orjson

from fdarx_core.factuality.scores import Weights
from fdarx_core.factuality.tables import Summary
from fdarx_core.records import (
    CheckedAnswer,
    Claim,
    ClaimVerdict,
    Evidence,
    FactualityScore,
    PairVerdict,
    SafetyFlag,
)
from fdarx_core.report.page_engine import readable


@dataclass(frozen=True, slots=True)
class VerdictStyle:
    """`sign` stands before the word wherever there is colour; the colour tells apart with red-green blindness too."""

    name: str
    sign: str
    colour: str
    meaning: str


VERDICTS: dict[str, VerdictStyle] = {
    "supported": VerdictStyle("Supported", "✓", "#4477aa", "a passage entails it"),
    "contradicted": VerdictStyle("Contradicted", "✗", "#c8553d", "a passage says otherwise"),
    "unsupported": VerdictStyle("Unsupported", "?", "#8a8a94", "no passage decides, or none was found"),
    "unscored": VerdictStyle("Unscored", "–", "#b08fb8", "no judgement was reached; in no share"),
}
"""In the order in which the page shows them."""

FLAG_NAMES: dict[str, str] = {
    "dose_missing": "Dose asked for and not given",
    "dose_unsupported": "Dose that the label does not have",
    "contraindicated_population": "Population that the label excludes",
    "contraindicated_condition": "Condition that the label excludes",
    "contraindicated_drug": "Drug that the label excludes",
}

SOURCE_NAMES: dict[str, str] = {"labels": "label", "index": "index", "pubmed": "PubMed", "file": "file"}

EVIDENCE_NAMES: dict[str, str] = {
    "labels": "Passages of the label that a question is about, of those of the drugs that it names, or of all labels",
    "all-labels": "Passages of all labels",
    "index": "Chunks of an index",
    "file": "Rows of a file",
    "pubmed": "Abstracts of PubMed",
}
"""By the kind of evidence that a run names."""

METRIC_NAMES: dict[str, str] = {
    "fas": "FAS",
    "support": "Support",
    "contra": "Contra",
    "unsupported": "Unsupported",
    "similarity": "Similarity",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "rouge_l": "ROUGE-L",
    "bleu_4": "BLEU-4",
    "gold": "Gold by statements",
    "gold_claims": "Gold by claims",
}

GOLD_NAMES: dict[str, str] = {"gold": "gold by statements", "gold_claims": "gold by claims"}
GOLD_MEANINGS: dict[str, str] = {
    "gold": "Gold by statements: must-have statements that the answer entails ÷ (those + nice-to-have it contradicts).",
    "gold_claims": "Gold by claims: the share of the answer's claims that all statements together entail.",
}

REASONS: dict[str, str] = {
    "no_evidence": "no evidence was found",
    "no_claims": "the answer makes no claim",
    "no_reference": "there is no reference answer",
    "no_verdict": "none of the claims could be judged",
    "not_measured": "the similarity was not measured",
    "not_judged": "it was not judged",
    "failed": "the model gave no answer",
}

BY_RULES = "baseline"


def metric_name(metric: str) -> str:
    """ "Support@5" of support@5; a metric that is not known here by its own name."""
    name, at, k = metric.partition("@")
    return f"{METRIC_NAMES.get(name, name)}{at}{k}"


def unscored_name(told: str) -> str:
    """What a score says in `unscored`, `field: reason, reason`, in words."""
    measure, _, reasons = told.partition(": ")
    return f"{metric_name(measure)}: {', '.join(map(reason_name, reasons.split(', ')))}"


def reason_name(reason: str) -> str:
    """A reason's fixed name in words; what an engine or a server said stays as it is."""
    if reason in REASONS:
        return REASONS[reason]
    return readable(reason) if reason.replace("_", "").isalnum() and "_" in reason else reason


def flag_name(kind: str) -> str:
    """In words."""
    return FLAG_NAMES.get(kind, readable(kind))


@dataclass(frozen=True, slots=True)
class ScoringMethod:
    """How answers were scored, each part by the name it goes by in the run.

    `claims` is baseline or a model's name, `evidence` the source's name; `entailment` is the engine as
    `PairVerdict.engine` has it, `compared` the second one of the ablation, "" for none. `similarity` names the measure
    that is the first term of FAS.
    """

    claims: str
    entailment: str
    evidence: str
    similarity: str
    threshold: float
    k: int
    weights: Weights
    compared: str = ""


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """One answer with all that was found of it.

    `pairs` are of any kind and engine; `evidence` holds, by id, at least the passages that those of kind evidence name.
    """

    answer: CheckedAnswer
    score: FactualityScore
    claims: Sequence[Claim] = ()
    verdicts: Sequence[ClaimVerdict] = ()
    pairs: Sequence[PairVerdict] = ()
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    flags: Sequence[SafetyFlag] = ()


@dataclass(frozen=True, slots=True)
class FactualityResults:
    """What a scoring gave. `info` is the run's run.json with what finishing will add (`notes` in it are shown).

    `answers` is gone through once, so it may read a part of the run at a time; a bounded sample of it is kept.
    `rejects` counts rejected rows by stage and reason, `contraindications` the rows of that table.
    """

    info: Mapping[str, Any]
    method: ScoringMethod
    summary: Summary
    answers: Iterable[ScoredAnswer]
    rejects: Mapping[tuple[str, str], int]
    contraindications: int = 0


WHOLE = 1_800
"""Characters up to which a passage is kept whole."""
AROUND = 250
"""Characters before and after a window; the cut falls between words."""
MOST = 1_200
"""Characters of one window: a window may be the whole passage, and then its beginning says what it is on."""

Excerpt = tuple[int, str]
"""Where it starts in the passage, in characters, and its text."""


def excerpts_of(text: str, windows: Iterable[tuple[int, int]]) -> list[Excerpt]:
    """In order and apart from each other; `text[start:start + len(excerpt)]` is each, letter for letter."""
    if len(text) <= WHOLE:
        return [(0, text)]
    ranges: list[tuple[int, int]] = []
    for start, end in sorted(_around(text, *window) for window in windows):
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((start, end))
    return [(start, text[start:end]) for start, end in ranges]


def _around(text: str, start: int, end: int) -> tuple[int, int]:
    low, high = max(start - AROUND, 0), min(min(end, start + MOST) + AROUND, len(text))
    after = text.find(" ", high)
    return text.rfind(" ", 0, low + 1) + 1, len(text) if after < 0 else after


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters of an answer that the same flags lie over; `flags` are their places in the list of flags."""

    text: str
    flags: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A claim's pieces, or those between two claims; `claim` is its place in the list of claims, None between."""

    claim: int | None
    pieces: list[Piece]


def spans_of(answer: str, claims: Sequence[Claim], flags: Sequence[SafetyFlag]) -> list[Span]:
    """All of the answer, in order. `claims` never overlap, in any order; flags may."""
    spans, at = [], 0
    for place, claim in sorted(enumerate(claims), key=lambda one: one[1].start):
        spans.append(Span(None, list(_pieces(answer, at, claim.start, flags))))
        spans.append(Span(place, list(_pieces(answer, claim.start, claim.end, flags))))
        at = claim.end
    spans.append(Span(None, list(_pieces(answer, at, len(answer), flags))))
    return [span for span in spans if span.pieces]


def _pieces(answer: str, start: int, end: int, flags: Sequence[SafetyFlag]) -> Iterator[Piece]:
    within = {edge for flag in flags for edge in (flag.start, flag.end) if start < edge < end}
    edges = sorted({start, end, *within})
    for low, high in pairwise(edges):
        over = tuple(place for place, flag in enumerate(flags) if flag.start <= low and high <= flag.end)
        yield Piece(answer[low:high], over)


Window = tuple[int, int]


def weight_of(item: Any) -> int:
    """Bytes that it takes as JSON in a script element, where each of <, > and & is written with six."""
    written = orjson.dumps(item)
    return len(written) + 5 * sum(map(written.count, (b"<", b">", b"&")))


def pairs_of(one: ScoredAnswer, method: ScoringMethod) -> list[PairVerdict]:
    """Of every kind, as the main engine judged them."""
    return [pair for pair in one.pairs if pair.engine == method.entailment]


def pairs_shown(one: ScoredAnswer, method: ScoringMethod) -> list[PairVerdict]:
    """The claims of an answer against the k best passages, as the main engine judged them, by rank."""
    kept = [pair for pair in pairs_of(one, method) if pair.kind == "evidence" and pair.rank <= method.k]
    return sorted(kept, key=lambda pair: pair.rank)


def passages_of(
    shown: Sequence[ScoredAnswer], method: ScoringMethod, budget: int
) -> tuple[list[list[Any]], dict[str, int]]:
    """Rows of title, where it stands, length and excerpts (None where the budget is spent), and each id's row.

    Those that decided come first.
    """
    windows: dict[str, list[Window]] = defaultdict(list)
    found: dict[str, Evidence] = {}
    for one in shown:
        found.update(one.evidence)
        for pair in pairs_shown(one, method):
            windows[pair.evidence_id].append((pair.start, pair.end))
    deciding = [verdict.evidence_id for one in shown for verdict in one.verdicts if verdict.evidence_id in windows]
    ordered = list(dict.fromkeys([*deciding, *windows]))
    rows: dict[str, list[Any]] = {}
    for name in ordered:
        row = _passage(found[name], windows[name])
        weight = weight_of(row)
        rows[name] = row if weight <= budget else [*row[:3], None]
        budget -= weight if weight <= budget else 0
    return list(rows.values()), {name: at for at, name in enumerate(rows)}


def _passage(evidence: Evidence, windows: Sequence[Window]) -> list[Any]:
    year = str(evidence.year) if evidence.year else ""
    parts = [SOURCE_NAMES.get(evidence.source, evidence.source), evidence.section, evidence.place, year]
    label = f"label {evidence.set_id}" if evidence.set_id else ""
    title = evidence.title or evidence.drug or evidence.id
    where = " · ".join(part for part in (*parts, label) if part)
    return [title, where, len(evidence.text), excerpts_of(evidence.text, windows)]


FOR_ANSWERS = 2_200_000
BUDGET = 4_500_000
"""Bytes of all texts together; plotly.js takes 4.9 million more of a page."""
GOLD_KINDS = ("must_have", "nice_to_have")
DIGITS = 3

SCORES = ("rouge_1", "rouge_2", "rouge_l", "bleu_4", "gold", "gold_claims")


def viewer_payload(picked: Sequence[ScoredAnswer], method: ScoringMethod) -> dict[str, Any]:
    """What the page's script reads. Answers first, as many as go into the budget, in their order; then passages.

    Of passages those that decided come first; one whose text does not go in is named without it.
    """
    answers = [(one, item) for one in picked if (item := _item(one, method))]
    kept = list(_within(answers, FOR_ANSWERS))
    left = BUDGET - sum(weight_of(item) for _, item in kept)
    passages, places = passages_of([one for one, _ in kept], method, left)
    for _, item in kept:
        for pair in chain.from_iterable(claim["pairs"] for claim in item["claims"]):
            pair[0] = places[pair[0]]
    return {
        "threshold": method.threshold,
        "weights": astuple(method.weights),
        "similarity": method.similarity,
        "k": method.k,
        "verdicts": {name: [style.name, style.sign, style.meaning] for name, style in VERDICTS.items()},
        "passages": passages,
        "items": [item for _, item in kept],
    }


def _within(
    answers: Iterable[tuple[ScoredAnswer, dict[str, Any]]], budget: int
) -> Iterator[tuple[ScoredAnswer, dict[str, Any]]]:
    for one, item in answers:
        if (weight := weight_of(item)) <= budget:
            budget -= weight
            yield one, item


def _item(one: ScoredAnswer, method: ScoringMethod) -> dict[str, Any]:
    answer, score = one.answer, one.score
    verdicts = {verdict.claim_id: verdict for verdict in one.verdicts}
    pairs: dict[str, list[PairVerdict]] = defaultdict(list)
    for pair in pairs_shown(one, method):
        pairs[pair.claim_id].append(pair)
    return {
        "id": answer.id, "model": answer.model, "dataset": answer.dataset, "setting": answer.setting,
        "type": answer.type, "question": answer.question, "drug": answer.drug, "set_id": answer.set_id,
        "outcome": answer.outcome,
        "spans": [
            [-1 if span.claim is None else span.claim, [[piece.text, piece.flags] for piece in span.pieces]]
            for span in spans_of(answer.answer, one.claims, one.flags)
        ],
        "claims": [
            _claim(claim.text, claim.resolved, verdicts.get(claim.id), pairs[claim.id]) for claim in one.claims
        ],
        "flags": [_flag(flag) for flag in one.flags],
        "terms": [_short(score.similarity), _short(score.support), _short(score.contra), _short(score.fas)],
        "scores": {name: _short(getattr(score, name)) for name in SCORES},
        "unscored": [unscored_name(told) for told in score.unscored],
        "gold": [*_gold(one, method)],
        "references": answer.references[:1],
    }  # fmt: skip


def _claim(text: str, resolved: str, verdict: ClaimVerdict | None, pairs: Sequence[PairVerdict]) -> dict[str, Any]:
    """The pair that decided goes first, then by rank. `resolved` is "" where it is the claim's own text.

    A claim that nobody judged is unscored.
    """
    ordered = sorted(pairs, key=lambda pair: (not _decides(pair, verdict), pair.rank))
    return {
        "resolved": "" if resolved == text else resolved,
        "verdict": verdict.verdict if verdict else "unscored",
        "score": _short(verdict.score) if verdict else None,
        "decided": any(_decides(pair, verdict) for pair in pairs),
        "reason": reason_name(verdict.reason if verdict else "not_judged"),
        "pairs": [
            [pair.evidence_id, pair.rank, _short(pair.entailment), _short(pair.neutral), _short(pair.contradiction),
             pair.start, pair.end, reason_name(pair.reason)]
            for pair in ordered
        ],
    }  # fmt: skip


def _decides(pair: PairVerdict, verdict: ClaimVerdict | None) -> bool:
    return verdict is not None and bool(verdict.evidence_id) and pair.evidence_id == verdict.evidence_id


def _flag(flag: SafetyFlag) -> list[str]:
    return [flag_name(flag.kind), flag.text, flag.subject, flag.drug, flag.because, flag.marker, flag.set_id]


def _gold(one: ScoredAnswer, method: ScoringMethod) -> Iterator[list[Any]]:
    """Each gold statement: its kind, text, the answer's verdict on it, that verdict's probability, why."""
    for pair in pairs_of(one, method):
        if pair.kind in GOLD_KINDS:
            statements = one.answer.must_have if pair.kind == "must_have" else one.answer.nice_to_have
            kind = "must have" if pair.kind == "must_have" else "nice to have"
            yield [kind, statements[pair.number], *_judged(pair, method.threshold), reason_name(pair.reason)]


def _judged(pair: PairVerdict, threshold: float) -> tuple[str, float | None]:
    if pair.entailment is None or pair.contradiction is None:
        return "unscored", None
    if max(pair.entailment, pair.contradiction) < threshold:
        return "unsupported", _short(pair.entailment)
    supported = pair.entailment >= pair.contradiction
    return ("supported", _short(pair.entailment)) if supported else ("contradicted", _short(pair.contradiction))


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
