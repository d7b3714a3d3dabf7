"""The answer viewer of a factuality page: answers, claims and passages as JSON for the script of the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import chain, pairwise
from typing import Any
from zlib import Z_SYNC_FLUSH, compressobj

import orjson

from fdarx_core.factuality.scores import ScoringMethod, class_of
from fdarx_core.factuality.tables import set_name
from fdarx_core.records import CheckedAnswer, Claim, ClaimVerdict, Evidence, FactualityScore, PairVerdict, SafetyFlag
from fdarx_core.report.page_engine import PAGE_STYLES, PAGE_WORDS, readable
from fdarx_core.report.samples import join_places

VERDICTS = PAGE_STYLES["verdicts"]
"""The name, sign, color and meaning of each verdict, in the order of the page. The sign precedes the name wherever the
color is used, for readers who cannot see it."""

BY_RULES = "baseline"
"""The engine of claims that needs no model."""


def metric_name(metric: str) -> str:
    """Return the name of a metric, for example "Support@5"; an unknown metric keeps its name."""
    name, sign, rest = metric.partition("[" if "[" in metric else "@")
    return f"{PAGE_WORDS['factuality_metrics'].get(name, name)}{' [' if sign == '[' else sign}{rest}"


def unscored_name(entry: str) -> str:
    """Return an entry `field: reason, reason` of `unscored` in words."""
    measure, _, reasons = entry.partition(": ")
    return f"{metric_name(measure)}: {', '.join(map(reason_name, reasons.split(', ')))}"


def reason_name(reason: str) -> str:
    """Return the fixed name of a reason in words; messages of an engine or a server are unchanged."""
    in_words = readable(reason) if reason.replace("_", "").isalnum() and "_" in reason else reason
    return PAGE_WORDS["unscored_reasons"].get(reason, in_words)


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """One answer with its claims, verdicts, evidence and flags.

    `pairs` are of any kind and engine; `evidence` contains, by id, at least the passages of the pairs of kind evidence.
    """

    answer: CheckedAnswer
    score: FactualityScore
    claims: Sequence[Claim] = ()
    verdicts: Sequence[ClaimVerdict] = ()
    pairs: Sequence[PairVerdict] = ()
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    flags: Sequence[SafetyFlag] = ()


WHOLE = 1_800
"""Characters up to which a whole passage is shown."""
AROUND = 250
"""Characters before and after a window; cuts are between words."""
MOST = 1_200
"""Characters of one window; of a longer one the beginning is shown."""


def excerpts_of(text: str, windows: Iterable[tuple[int, int]]) -> list[tuple[int, str]]:
    """Return separate excerpts in order: the start of each in the passage, in characters, and its text."""
    if len(text) <= WHOLE:
        return [(0, text)]
    around: list[tuple[int, int]] = []
    for start, end in windows:
        low, high = max(start - AROUND, 0), min(min(end, start + MOST) + AROUND, len(text))
        after = text.find(" ", high)
        around.append((text.rfind(" ", 0, low + 1) + 1, len(text) if after < 0 else after))
    return [(start, text[start:end]) for start, end in join_places(sorted(around))]


Piece = tuple[str, tuple[int, ...]]
"""Characters of an answer that the same flags cover, and the positions of these flags."""
Span = tuple[int, list[Piece]]
"""The pieces of a claim, with its position in the list of claims; -1 for text between claims."""


def spans_of(answer: str, claims: Sequence[Claim], flags: Sequence[SafetyFlag]) -> list[Span]:
    """Return the whole answer as spans, in order. `claims` are in any order and never overlap; flags may overlap."""
    spans: list[Span] = []
    at = 0
    for place, claim in sorted(enumerate(claims), key=lambda one: one[1].start):
        spans.append((-1, list(_pieces(answer, at, claim.start, flags))))
        spans.append((place, list(_pieces(answer, claim.start, claim.end, flags))))
        at = claim.end
    spans.append((-1, list(_pieces(answer, at, len(answer), flags))))
    return [(place, pieces) for place, pieces in spans if pieces]


def _pieces(answer: str, start: int, end: int, flags: Sequence[SafetyFlag]) -> Iterator[Piece]:
    within = {edge for flag in flags for edge in (flag.start, flag.end) if start < edge < end}
    edges = sorted({start, end, *within})
    for low, high in pairwise(edges):
        over = tuple(place for place, flag in enumerate(flags) if flag.start <= low and high <= flag.end)
        yield answer[low:high], over


class PackedSize:
    """Counts the bytes that items take on a page, where all of them are one compressed block in base64."""

    def __init__(self) -> None:
        self._compressor = compressobj(9)

    def add(self, item: Any) -> int:
        """Return the bytes of an item after those before it."""
        written = self._compressor.compress(orjson.dumps(item)) + self._compressor.flush(Z_SYNC_FLUSH)
        return len(written) * 4 // 3


def pairs_shown(scored: ScoredAnswer, method: ScoringMethod) -> list[PairVerdict]:
    """Return the verdicts of the main engine on the claims with the k best passages, by rank."""
    near = [pair for pair in scored.pairs if pair.kind == "evidence" and pair.rank <= method.k]
    return sorted((pair for pair in near if pair.engine == method.engine), key=lambda pair: pair.rank)


def passages_of(
    shown: Sequence[ScoredAnswer], method: ScoringMethod, budget: int
) -> tuple[list[list[Any]], dict[str, int]]:
    """Return rows of title, source, length and excerpts (None if the budget is spent), and the row of each id.

    Passages that decided a verdict come first.
    """
    windows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    found: dict[str, Evidence] = {}
    for scored in shown:
        found.update(scored.evidence)
        for pair in pairs_shown(scored, method):
            windows[pair.evidence_id].append((pair.start, pair.end))
    verdicts = (verdict for scored in shown for verdict in scored.verdicts)
    deciding = [verdict.evidence_id for verdict in verdicts if verdict.evidence_id in windows]
    rows: dict[str, list[Any]] = {}
    size = PackedSize()
    for name in dict.fromkeys([*deciding, *windows]):
        evidence = found[name]
        source = PAGE_WORDS["evidence_sources"].get(evidence.source, evidence.source)
        label = f"label {evidence.set_id}" if evidence.set_id else ""
        where = " · ".join(filter(None, (source, evidence.section, evidence.place, str(evidence.year or ""), label)))
        title = evidence.title or evidence.drug or evidence.id
        row = [title, where, len(evidence.text), excerpts_of(evidence.text, windows[name])]
        weight = size.add(row)
        rows[name] = row if weight <= budget else [*row[:3], None]
        budget -= weight if weight <= budget else 0
    return list(rows.values()), {name: at for at, name in enumerate(rows)}


FOR_ANSWERS = 350_000
BUDGET = 800_000
"""Bytes of all texts of a page, compressed."""
DIGITS = 3

SCORES = (
    "coverage", "decided", "rouge_1", "rouge_2", "rouge_l", "bleu_4", "completeness", "stated_in_references",
)  # fmt: skip


def viewer_payload(picked: Sequence[ScoredAnswer], method: ScoringMethod) -> dict[str, Any]:
    """Return the data for the script of the page: as many answers as the budget allows, then their passages.

    Passages that decided a verdict come first; a passage that exceeds the budget has no text.
    """
    kept: list[tuple[ScoredAnswer, dict[str, Any]]] = []
    left, size = FOR_ANSWERS, PackedSize()
    for scored in picked:
        item = _item(scored, method)
        if (weight := size.add(item)) <= left:
            left -= weight
            kept.append((scored, item))
    passages, places = passages_of([scored for scored, _ in kept], method, BUDGET - FOR_ANSWERS + left)
    for _, item in kept:
        for pair in chain.from_iterable(claim["pairs"] for claim in item["claims"]):
            pair[0] = places[pair[0]]
    return {
        "threshold": method.threshold,
        "weights": astuple(method.weights),
        "similarity": method.similarity,
        "k": method.k,
        "names": {name: metric_name(name) for name in SCORES},
        "verdicts": {name: [style[part] for part in ("name", "sign", "meaning")] for name, style in VERDICTS.items()},
        "passages": passages,
        "items": [item for _, item in kept],
    }


def _item(scored: ScoredAnswer, method: ScoringMethod) -> dict[str, Any]:
    answer, score = scored.answer, scored.score
    verdicts = {verdict.claim_id: verdict for verdict in scored.verdicts}
    pairs: dict[str, list[PairVerdict]] = defaultdict(list)
    for pair in pairs_shown(scored, method):
        pairs[pair.claim_id].append(pair)
    statements = []  # kind and text of each reference statement; verdict, probability and reason for this answer
    for pair in scored.pairs:
        if pair.engine == method.engine and pair.kind in ("must_have", "nice_to_have"):
            texts = answer.must_have if pair.kind == "must_have" else answer.nice_to_have
            verdict, share = class_of(pair, method.threshold)
            reason = reason_name(pair.reason)
            statements.append([readable(pair.kind), texts[pair.number], verdict, _short(share), reason])
    flag_names = PAGE_WORDS["safety_flags"]
    return {
        "id": answer.id, "model": answer.model, "dataset": answer.dataset, "setting": set_name("", answer.setting),
        "type": answer.type, "question": answer.question, "drug": answer.drug, "set_id": answer.set_id,
        "outcome": answer.outcome,
        "spans": spans_of(answer.answer, scored.claims, scored.flags),
        "claims": [
            _claim(claim.text, claim.resolved, verdicts.get(claim.id), pairs[claim.id]) for claim in scored.claims
        ],
        "flags": [
            [flag_names.get(flag.kind, readable(flag.kind)), flag.text, flag.subject, flag.drug, flag.because,
             flag.marker, flag.set_id]
            for flag in scored.flags
        ],
        "terms": [_short(score.similarity), _short(score.support), _short(score.contra), _short(score.fas)],
        "scores": {name: _short(getattr(score, name)) for name in SCORES},
        "unscored": [unscored_name(entry) for entry in score.unscored],
        "statements": statements,
        "references": answer.references[:1],
    }  # fmt: skip


def _claim(text: str, resolved: str, verdict: ClaimVerdict | None, pairs: Sequence[PairVerdict]) -> dict[str, Any]:
    """Return a claim with its pairs: the one that decided first, then by rank. A claim without verdict is unscored.

    `resolved` is "" if it equals the text of the claim.
    """

    def decides(pair: PairVerdict) -> bool:
        return verdict is not None and bool(verdict.evidence_id) and pair.evidence_id == verdict.evidence_id

    return {
        "resolved": "" if resolved == text else resolved,
        "verdict": verdict.verdict if verdict else "unscored",
        "score": _short(verdict.score) if verdict else None,
        "decided": any(map(decides, pairs)),
        "reason": reason_name(verdict.reason if verdict else "not_judged"),
        "pairs": [
            [pair.evidence_id, pair.rank, _short(pair.entailment), _short(pair.neutral), _short(pair.contradiction),
             pair.start, pair.end, reason_name(pair.reason), pair.on_subject]
            for pair in sorted(pairs, key=lambda pair: (not decides(pair), pair.rank))
        ],
    }  # fmt: skip


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
