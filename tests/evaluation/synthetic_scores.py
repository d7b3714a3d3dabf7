"""Score and RetrievalScore rows drawn at random, with labels of uneven size that differ in difficulty."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fdarx_core.records import RetrievalScore, Score, to_table

TYPES = ("factual", "factual", "factual", "multihop", "refusal")
CATEGORIES = ("Dosage & Administration", "Adverse Events", "Contraindications", "Pharmacokinetics")
SECTIONS = ("Warnings and precautions", "Dosage and administration", "Clinical pharmacology", "Overdosage")


def score_rows(labels: int = 12, *, seed: int = 0, model: str = "m", setting: str = "full_label") -> list[Score]:
    """About 20 rows a label, all outcomes and grades among them; citations and refusal questions in full_label only."""
    dice = np.random.default_rng(seed)
    rows: list[Score] = []
    for label in range(labels):
        ease, characters = dice.beta(3, 3), int(dice.integers(20_000, 200_000))
        for number in range(1 + dice.poisson(20)):
            row = _score(dice, f"label-{label:03d}", f"{label:03d}-{number:03d}", float(ease), characters)
            row.model, row.setting = model, setting
            rows.append(row if setting == "full_label" else _uncited(row))
    return [row for row in rows if row.type != "refusal" or setting == "full_label"]


def retrieval_rows(labels: int = 12, *, seed: int = 0, retriever: str = "bm25") -> list[RetrievalScore]:
    """About 20 rows a label."""
    dice = np.random.default_rng(seed)
    return [_retrieval(dice, row, retriever) for row in score_rows(labels, seed=0) if row.type != "refusal"]


def table(rows: list[Score]) -> pa.Table:
    return to_table(rows, Score)


def _score(dice: np.random.Generator, set_id: str, question: str, ease: float, characters: int) -> Score:
    type_ = str(dice.choice(TYPES))
    outcome = str(dice.choice(["answered", "refused", "unparsed", "failed"], p=[0.75, 0.17, 0.05, 0.03]))
    read = outcome in ("answered", "refused")
    gold = 0 if type_ == "refusal" else int(dice.integers(1, 4))
    cited = int(dice.integers(0, 5)) if read else None
    hits = int(dice.binomial(min(cited, gold), ease)) if cited is not None else None
    prompt = int(dice.integers(1_000, 40_000)) if read else 0
    return Score(
        prediction_id=f"p-{question}",
        question_id=f"q-{question}",
        set_id=set_id,
        cluster=set_id,
        model="",
        setting="",
        retriever="",
        type=type_,
        answer_kind=type_,
        category=str(dice.choice(CATEGORIES)),
        section=str(dice.choice(SECTIONS, p=[0.5, 0.3, 0.18, 0.02])),
        numeric=bool(dice.random() < 0.4),
        label_characters=characters,
        outcome=outcome,
        grade=_grade(dice, outcome, type_, ease),
        gold=gold,
        cited=cited,
        hits=hits,
        eq_hits=None if hits is None else int(dice.integers(hits, gold + 1)) if cited else 0,
        eq_right=None if hits is None or cited is None else int(dice.integers(hits, cited + 1)),
        bleu=float(dice.beta(1, 3)) if read and type_ != "refusal" else None,
        meteor=float(dice.beta(2, 3)) if read and type_ != "refusal" else None,
        rouge_l=float(dice.beta(2, 3)) if read and type_ != "refusal" else None,
        prompt_tokens=prompt,
        cached_tokens=int(prompt * dice.random()),
        completion_tokens=int(dice.integers(5, 90)) if read else 0,
        latency_s=float(dice.exponential(2.0)),
        cost=float(prompt * 1e-6) if read else None,
    )


def _grade(dice: np.random.Generator, outcome: str, type_: str, ease: float) -> str:
    if outcome in ("unparsed", "failed"):
        return ""
    if outcome == "refused":
        return "not_attempted"
    if type_ == "refusal":
        return "incorrect"
    grades = ["correct", "incorrect", "not_attempted", "unscored"]
    return str(dice.choice(grades, p=[0.9 * ease, 0.9 * (1 - ease), 0.05, 0.05]))


def _uncited(row: Score) -> Score:
    row.cited = row.hits = row.eq_hits = row.eq_right = None
    return row


def _retrieval(dice: np.random.Generator, row: Score, retriever: str) -> RetrievalScore:
    label = (row.set_id, row.cluster)
    question = (row.question_id, *label, retriever, row.type, row.answer_kind, row.category, row.section)
    numbers = dice.beta(2, 2, 14).tolist()
    return RetrievalScore(*question, row.numeric, row.label_characters, row.gold, *numbers)
