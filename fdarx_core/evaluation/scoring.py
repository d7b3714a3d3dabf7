"""The numbers of one prediction or one ranking, from which all metrics and subgroups are computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fdarx_core.evaluation.gold import PassageKey, equivalents_by_gold, gold_indices, gold_keys, passage_keys
from fdarx_core.evaluation.metrics import added_metrics
from fdarx_core.evaluation.overlap import overlaps
from fdarx_core.evaluation.ranking import STRICT, eq_hits, eq_right, f1_at, ndcg_at, recall_at, reciprocal_rank
from fdarx_core.evaluation.settings import FULL_LABEL, RETRIEVED
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import (
    Equivalence,
    Grade,
    LabelSummary,
    Passage,
    Prediction,
    QuestionAnswer,
    Ranking,
    RetrievalScore,
    Score,
)

MARKED = frozenset({FULL_LABEL, RETRIEVED})
"""The settings whose prompts have passages with markers and ask for citations."""
OTHER_SECTION = "other"
_USAGE = ("prompt_tokens", "cached_tokens", "completion_tokens", "latency_s", "cost")


def question_features(
    question: QuestionAnswer, subject: LabelSummary, passages: Mapping[int, Passage]
) -> dict[str, Any]:
    """Return the fields of `Score` that describe the question, from type to label_characters.

    `passages` are the available passages of the label, by doc_chunk_index. The section is the common name of the
    nearest section of the first gold passage that has one, or "other".
    """
    return {
        "type": question.type,
        "answer_kind": question.answer_kind,
        "category": question.category,
        "section": _section(question, passages),
        "numeric": any(character.isdigit() for character in question.answer),
        "label_characters": subject.characters,
    }


def score(
    described: Mapping[str, Any],
    question: QuestionAnswer,
    prediction: Prediction,
    grade: Grade | None,
    equivalence: Equivalence | None,
    citing: Collection[str] = MARKED,
) -> Score:
    """Return the row of one prediction; `citing` are the settings whose citations are compared with gold passages.

    Citations and overlaps are for answerable questions that were answered or refused. A refusal cites nothing, and its
    words are compared with the gold answer. Source: FDARxBench §B.7.
    """
    understood = question.type != "refusal" and prediction.outcome in ("answered", "refused")
    gold = gold_keys(question)
    cites = understood and bool(gold) and prediction.setting in citing
    return Score(
        prediction_id=prediction.id,
        question_id=question.id,
        set_id=question.set_id,
        model=prediction.model,
        setting=prediction.setting,
        retriever=prediction.retriever,
        **described,
        outcome=prediction.outcome,
        grade=grade.outcome if grade else "",
        gold=len(gold),
        **(_citations(prediction, gold, equivalents_by_gold(equivalence)) if cites else {}),
        **(overlaps(prediction.answer, question.answer) if understood else {}),
        **{name: getattr(prediction, name) for name in _USAGE},
        extra=_added_scores(question, prediction, grade),
    )


def score_ranking(
    described: Mapping[str, Any], question: QuestionAnswer, ranking: Ranking, equivalence: Equivalence | None
) -> RetrievalScore | None:
    """Return the row of one ranking; None for a question without gold passages, such as a refusal question."""
    gold = gold_keys(question)
    if not gold:
        return None
    ranked = passage_keys(question.set_id, ranking.ranked, ranking.ranked_set_ids)
    return RetrievalScore(
        question_id=question.id,
        set_id=question.set_id,
        retriever=ranking.retriever,
        **described,
        gold=len(gold),
        **_found(ranked, gold, STRICT, ""),
        **_found(ranked, gold, equivalents_by_gold(equivalence), "eq_"),
    )


def _added_scores(question: QuestionAnswer, prediction: Prediction, grade: Grade | None) -> dict[str, float]:
    """Return the numbers that metrics of other packages give to the answer, by the metrics' names."""
    scorers = {name: metric.score for name, metric in added_metrics().items() if metric.score}
    values = {name: scorer(question, prediction, grade) for name, scorer in scorers.items()}
    return {name: float(value) for name, value in values.items() if value is not None}


def _section(question: QuestionAnswer, passages: Mapping[int, Passage]) -> str:
    gold = gold_indices(question)
    if not gold:
        return OTHER_SECTION
    if gold[0] in passages:
        return SECTION_NAMES.get(passages[gold[0]].core_code, OTHER_SECTION)
    codes = dict(zip(question.gold_passages, question.gold_codes, strict=False))
    return SECTION_NAMES.get(codes.get(gold[0], ""), OTHER_SECTION)


def _citations(
    prediction: Prediction, gold: list[PassageKey], equivalents: Mapping[PassageKey, Collection[PassageKey]]
) -> dict[str, Any]:
    """Return the counts of citations; a cited passage that was not shown counts as wrong."""
    if prediction.outcome == "refused":
        return dict.fromkeys(("cited", "hits", "eq_hits", "eq_right"), 0)
    cited = passage_keys(prediction.set_id, prediction.cited, prediction.cited_set_ids)
    return {
        "cited": len(cited) + prediction.cited_unknown,
        "hits": eq_hits(cited, gold, STRICT),
        "eq_hits": eq_hits(cited, gold, equivalents),
        "eq_right": eq_right(cited, gold, equivalents),
    }


def _found(
    ranked: list[PassageKey],
    gold: list[PassageKey],
    equivalents: Mapping[PassageKey, Collection[PassageKey]],
    prefix: str,
) -> dict[str, Any]:
    found = {f"recall_{k}": recall_at(k, ranked, gold, equivalents) for k in (1, 5, 10)}
    found["recall_gold"] = recall_at(len(gold), ranked, gold, equivalents)
    found["f1_gold"] = f1_at(len(gold), ranked, gold, equivalents)
    found["mrr"] = reciprocal_rank(ranked, gold, equivalents)
    found["ndcg_10"] = ndcg_at(10, ranked, gold, equivalents)
    return {f"{prefix}{name}": value for name, value in found.items()}
