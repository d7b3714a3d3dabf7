"""The sampled answers as JSON: passages once, then each answer with its claims and what was held against them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from itertools import chain
from typing import Any

from fdarx_core.records import ClaimVerdict, PairVerdict, SafetyFlag
from fdarx_core.report.factuality.passages import pairs_of, pairs_shown, passages_of, weight_of
from fdarx_core.report.factuality.results import ExaminedAnswer, Method
from fdarx_core.report.factuality.spans import spans_of
from fdarx_core.report.factuality.wording import VERDICTS, flag_name, reason_name, unscored_name

FOR_ANSWERS = 2_200_000
BUDGET = 4_500_000
"""Bytes of all texts together; plotly.js takes 4.9 million more of a page."""
GOLD_KINDS = ("must_have", "nice_to_have")
DIGITS = 3

SCORES = ("rouge_1", "rouge_2", "rouge_l", "bleu_4", "gold", "gold_claims")


def dossier(picked: Sequence[ExaminedAnswer], method: Method) -> dict[str, Any]:
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
    answers: Iterable[tuple[ExaminedAnswer, dict[str, Any]]], budget: int
) -> Iterator[tuple[ExaminedAnswer, dict[str, Any]]]:
    for one, item in answers:
        if (weight := weight_of(item)) <= budget:
            budget -= weight
            yield one, item


def _item(one: ExaminedAnswer, method: Method) -> dict[str, Any]:
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


def _gold(one: ExaminedAnswer, method: Method) -> Iterator[list[Any]]:
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
