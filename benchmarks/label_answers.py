"""Statements that answer questions to labels: learns the baseline's model, and measures it on drugs left out.

    python -m benchmarks.label_answers INDEX [--write] [--out FILE]

INDEX is an index of `../shared/data/spl/dm_spl_release_human_rx.zip`; one with vectors gives the weights with
similarities, one without those by words only. The questions are those of `benchmarks/marked/label_evidence.jsonl` that
name one drug, of the half that serves for tuning. Other readers marked in `benchmarks/marked/label_statements.jsonl`
which of the first 5 statements answer them; these count too. Each part of the drugs is left out in turn. Prints the
share of answerable questions with a marked statement among the first 1, 3 and 5 statements of the first 6 passages,
and for some thresholds what the answers are. With `--write`, the weights of all questions are saved in
`fdarx_core/baseline/statement_ranking.json`; with `--out FILE`, the first 5 statements of each question are written to
be marked. Exits 1 where the model is not better than the share of the question's words in a statement.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from scipy.optimize import minimize

import fdarx_core.baseline
from benchmarks import run
from benchmarks.label_ranking import EVIDENCE, PARTS, has_quote, parts_of, read_evidence, words
from fdarx_core.baseline.label_answering import choose_statements
from fdarx_core.baseline.statement_ranking import (
    ANSWER_FEATURES,
    ATTRIBUTES,
    FEATURES,
    Candidate,
    LabelQuestion,
    StatementWeights,
    answer_features,
    answer_probability,
    read_candidates,
    statement_attributes,
    statement_features,
    statement_scores,
)
from fdarx_core.labels.question_sections import word_stems, written_questions
from fdarx_core.rag.flow import CONTEXTS, number_contexts
from fdarx_core.rag.index import Index
from fdarx_core.rag.search import encode_similarities
from fdarx_core.retrieval.lexical import Floats, Mask

MARKS = EVIDENCE.with_name("label_statements.jsonl")
FIRST = (1, 3, 5)
STEMS = 200
"""The most frequent stems of questions, which can ask for attributes."""
PENALTY, PENALTY_ASKED, PENALTY_ANSWER = 1e-3, 1e-2, 1e-2
LEAST_WEIGHT = 0.02
THRESHOLDS = (0.3, 0.4, 0.44, 0.5, 0.6)
WORTH = {"right": 1.0, "partly": 0.5, "wrong": 0.0}
"""The probability that an answer ought to be given, by what it is."""
PARTLY = 0.2
"""What a statement that answers a part counts for, beside 1 for one that answers."""
LEAST_COMMON = 0.5
"""The share of a quotation's words from which on a statement that shares its passage's quotation has it."""


@dataclass(frozen=True)
class MarkedQuestion:
    """A question with the statements of its contexts.

    `gold`, `partly` and `harmful`, of shape (statements,), say which of them answer, answer a part, and mislead.
    """

    row: dict[str, Any]
    part: int
    question: LabelQuestion
    candidates: list[Candidate]
    gold: Mask
    partly: Mask
    harmful: Mask


def is_marked(one: Candidate, quotes: Sequence[str]) -> bool:
    """Return whether a statement has one of the quotations, or is part of one."""
    own, around = words(one.whole), "\n".join((*one.statement.heads[-1:], one.whole))
    for quote in quotes:
        common = len({*words(quote)} & {*own}) / max(1, len({*words(quote)}))
        if common >= LEAST_COMMON and has_quote(around, [quote]):
            return True
        if len(own) >= 4 and f" {' '.join(own)} " in f" {' '.join(words(quote))} ":
            return True
    return False


def read_questions(index: Index) -> list[MarkedQuestion]:
    """Return the questions on one drug, with the statements of the passages that a search finds."""
    rows = read_evidence(answerable=False)
    parts, found = parts_of(rows), list[MarkedQuestion]()
    marks = {one["id"]: one for one in map(orjson.loads, MARKS.read_bytes().splitlines())}
    encoder = index.sentence_encoder if "cosine" in index.reader.retrievers else None
    for row in rows:
        if len(index.reader.label_drugs.named(row["question"])) != 1:
            continue
        contexts = number_contexts(index.search(row["question"], CONTEXTS))
        asked = LabelQuestion.read(row["question"], contexts)
        candidates = list(read_candidates(contexts))
        if encoder is not None:
            values = encode_similarities(encoder, asked.text, [one.compared_text for one in candidates])
            similar: dict[int, list[tuple[int, float]]] = {}
            for one, value in zip(candidates, values, strict=True):
                similar.setdefault(one.number, []).append((one.at, value))
            candidates = list(read_candidates([{**one, "similarities": similar.get(one["n"], [])} for one in contexts]))
        own = marks.get(row["id"], {})
        good, partly, harmful = (
            np.array([one.whole in own.get(name, ()) for one in candidates], np.bool_)
            for name in ("good", "partly", "harmful")
        )
        quoted = np.array([is_marked(one, row["quotes"]) for one in candidates], np.bool_)
        gold = good | (quoted & ~partly & ~harmful)
        found.append(MarkedQuestion(row, parts[tuple(sorted(row["drug"]))], asked, candidates, gold, partly, harmful))
    return found


def frequent_stems(questions: Sequence[MarkedQuestion]) -> list[str]:
    """Return the stems that most questions have."""
    counts = Counter(stem for one in written_questions() for stem in {*word_stems(one.text)})
    counts.update(stem for one in questions for stem in {*word_stems(one.question.text)})
    return [stem for stem, _ in counts.most_common(STEMS)]


def learn(questions: Sequence[MarkedQuestion], stems: Sequence[str], *, similarity: bool) -> StatementWeights:
    """Return the weights that make marked statements likeliest: softmax over the statements of a question."""
    used = [one for one in questions if one.gold.any() or one.partly.any()]
    features = [statement_features(one.question, one.candidates) for one in used]
    scale = np.concatenate(features).std(axis=0) + 1e-9
    kept = np.array([similarity or name != "similarity" for name in FEATURES], np.float64)
    attributes = [statement_attributes(one.candidates) for one in used]
    asked = [np.array([stem in {*word_stems(one.question.text)} for stem in stems], np.float64) for one in used]
    sizes = (len(FEATURES), len(ATTRIBUTES), len(ATTRIBUTES) * len(stems))
    penalties = np.repeat((PENALTY, PENALTY, PENALTY_ASKED), sizes)
    scaled = [one * kept / scale for one in features]
    golds = [one.gold + PARTLY * one.partly for one in used]
    data = list(zip(scaled, attributes, asked, golds, strict=True))

    def loss(weights: Floats) -> tuple[float, Floats]:
        own, of_attributes, rest = np.split(weights, np.cumsum(sizes)[:2])
        of_stems = rest.reshape(len(ATTRIBUTES), len(stems))
        total, gradient = 0.0, np.zeros_like(weights)
        for values, has, wants, gold in data:
            scores = values @ own + has @ (of_attributes + of_stems @ wants)
            odds = np.exp(scores - scores.max())
            right = odds * gold
            total -= np.log(right.sum() / odds.sum() + 1e-300)
            change = odds / odds.sum() - right / (right.sum() + 1e-300)
            per_attribute = change @ has
            gradient += np.concatenate((change @ values, per_attribute, np.outer(per_attribute, wants).ravel()))
        return float(total / len(data) + penalties @ weights**2), gradient / len(data) + 2 * penalties * weights

    found = minimize(loss, np.zeros(sum(sizes)), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    own, of_attributes, rest = np.split(found, np.cumsum(sizes)[:2])
    of_stems = rest.reshape(len(ATTRIBUTES), len(stems)).T
    wanted = {
        stem: {name: _round(one, 2) for name, one in zip(ATTRIBUTES, row, strict=True) if abs(one) >= LEAST_WEIGHT}
        for stem, row in zip(stems, of_stems, strict=True)
    }
    return StatementWeights(
        {name: _round(one, 4) for name, one in zip(FEATURES, own * kept / scale, strict=True)},
        {name: _round(one, 4) for name, one in zip(ATTRIBUTES, of_attributes, strict=True)},
        {stem: found for stem, found in sorted(wanted.items()) if found},
        {},
    )


def _round(value: float, digits: int) -> float:
    return round(float(value), digits)


def verdict(one: MarkedQuestion, scores: Floats) -> str:
    """Return what the statements that an answer quotes are together: right, partly or wrong."""
    chosen = choose_statements(one.candidates, scores)
    return "right" if one.gold[chosen].any() else "partly" if one.partly[chosen].any() else "wrong"


def learn_answer(
    questions: Sequence[MarkedQuestion], scores: Sequence[Floats], weights: StatementWeights
) -> dict[str, float]:
    """Return the weights of a logistic regression of what the chosen statements are worth."""
    used = [(one, values) for one, values in zip(questions, scores, strict=True) if one.candidates]
    features = np.array([answer_features(one.question, one.candidates, values, weights) for one, values in used])
    right = np.array([WORTH[verdict(one, values)] for one, values in used])
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    data = np.column_stack(((features - mean) / scale, np.ones(len(used))))

    def loss(weights: Floats) -> tuple[float, Floats]:
        total = data @ weights
        value = np.logaddexp(0, total) - right * total
        gradient = (1 / (1 + np.exp(-total)) - right) @ data / len(data)
        penalized = np.append(weights[:-1], 0.0)
        return float(value.mean() + PENALTY_ANSWER * penalized @ penalized), gradient + 2 * PENALTY_ANSWER * penalized

    found = minimize(loss, np.zeros(data.shape[1]), jac=True, method="L-BFGS-B").x
    own = found[:-1] / scale
    named = zip(("", *ANSWER_FEATURES), (found[-1] - own @ mean, *own), strict=True)
    return {name: _round(one, 4) for name, one in named}


def main(place: str, /, *, write: bool = False, out: str = "") -> int:
    """Learn, measure and print."""
    questions = read_questions(Index.open(place))
    similarity = any(candidate.similarity for one in questions for candidate in one.candidates)
    stems = frequent_stems(questions)
    scores, chances = [np.zeros(0)] * len(questions), [0.0] * len(questions)
    for part in range(PARTS):
        others = [one for one in questions if one.part != part]
        weights = learn(others, stems, similarity=similarity)
        of_others = [statement_scores(one.question, one.candidates, weights) for one in others]
        weights = replace(weights, answer=learn_answer(others, of_others, weights))
        for at, one in enumerate(questions):
            if one.part == part and one.candidates:
                scores[at] = statement_scores(one.question, one.candidates, weights)
                chances[at] = answer_probability(one.question, one.candidates, scores[at], weights)
    asked = [(one, values) for one, values in zip(questions, scores, strict=True) if one.row["answerable"]]
    print(f"{len(questions)} questions, {len(asked)} answerable, similarity: {similarity}")
    ours, words_alone = (_first([one.gold for one, _ in asked], ranking) for ranking in _rankings(asked))
    for name, shares in (("model", ours), ("words of the question", words_alone)):
        print(f"{name:22} " + ", ".join(f"first {n} {share:.3f}" for n, share in zip(FIRST, shares, strict=True)))
    for threshold in THRESHOLDS:
        counts = Counter[str]()
        for one, values, chance in zip(questions, scores, chances, strict=True):
            kind = "answerable" if one.row["answerable"] else "unanswerable"
            given = "refused" if chance < threshold else verdict(one, values)
            counts[f"{kind} {given}"] += 1
        print(f"threshold {threshold}: {dict(sorted(counts.items()))}")
    if out:
        sheets = [_sheet(one, values) for one, values in zip(questions, scores, strict=True)]
        Path(out).write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in sheets), encoding="utf-8")
    if write:
        _save(questions, stems, similarity=similarity)
    return int(ours[0] <= words_alone[0])


def _sheet(one: MarkedQuestion, scores: Floats) -> dict[str, Any]:
    """Return a question with its first statements, for somebody who marks which of them answer it."""
    best = [one.candidates[at] for at in np.argsort(-scores, kind="stable")[: FIRST[-1]].tolist()]
    shown = [{"section": each.section, "headings": each.statement.heads, "text": each.whole} for each in best]
    return {key: one.row[key] for key in ("id", "question", "expected")} | {"statements": shown}


def _rankings(asked: Sequence[tuple[MarkedQuestion, Floats]]) -> tuple[list[Floats], list[Floats]]:
    own = FEATURES.index("own")
    return [values for _, values in asked], [
        statement_features(one.question, one.candidates)[:, own] for one, _ in asked
    ]


def _first(golds: Sequence[Mask], scores: Sequence[Floats]) -> list[float]:
    ranks = list[float]()
    for gold, values in zip(golds, scores, strict=True):
        places = np.flatnonzero(gold[np.argsort(-values, kind="stable")])
        ranks.append(float(places[0]) if len(places) else np.inf)
    return [float(np.mean(np.array(ranks) < most)) for most in FIRST]


def _save(questions: Sequence[MarkedQuestion], stems: Sequence[str], *, similarity: bool) -> None:
    weights = learn(questions, stems, similarity=similarity)
    scores = [statement_scores(one.question, one.candidates, weights) for one in questions]
    answer = learn_answer(questions, scores, weights)
    path = Path(next(iter(fdarx_core.baseline.__path__))) / "statement_ranking.json"
    saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    saved["with_similarity" if similarity else "words_only"] = {
        "features": weights.features, "attributes": weights.attributes, "asked": weights.asked, "answer": answer
    }  # fmt: skip
    path.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
