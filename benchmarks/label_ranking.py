"""The ranking of a drug's passages for a question: learns its weights, and measures them on drugs left out.

    python -m benchmarks.label_ranking INDEX [--write]

INDEX is an index of `../shared/data/spl/dm_spl_release_human_rx.zip`. The questions are those of
`benchmarks/marked/label_evidence.jsonl` that name one drug and have an answer: 39 drugs of the half that serves for
tuning. Prints the share of questions with a passage that has the marked words among the first 1, 3 and 6, with weights
learned from the other drugs (five parts), beside BM25 of the same passages. With `--write`, the weights of all
questions are saved as `fdarx_core/retrieval/index/label_ranking.json`; an index with vectors gives also those with
similarities. Exits 1 where the ranking is not better than BM25.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from scipy.optimize import minimize

import fdarx_core.retrieval.index
from benchmarks import run
from fdarx_core.rag.index import Index
from fdarx_core.rag.search import SearchQuery, encode_queries
from fdarx_core.retrieval.index.label_ranking import FEATURES
from fdarx_core.retrieval.lexical import Floats, Integers, Mask

EVIDENCE = Path(__file__).parent / "marked" / "label_evidence.jsonl"
FIRST = (1, 3, 6)
PARTS = 5
PENALTY = 1e-3
"""The factor of the squared weights of standardized features."""
SAME_WORDS, SAME_ORDER = 0.9, 0.85
"""Shares of a quotation's words, and of those in its order, from which a passage of another label has it as well."""


@dataclass(frozen=True)
class Ranked:
    """The candidates for one question: their features, shape (candidates, features), and which have the answer."""

    part: int
    features: Floats
    gold: Mask


def words(text: str) -> list[str]:
    """Return the words and numbers of a text in lower case."""
    return re.findall(r"[a-z]+|\d+(?:\.\d+)?", text.lower())


def has_quote(text: str, quotes: Sequence[str]) -> bool:
    """Return whether a text has one of the quotations, or one with nearly the same words in the same order."""
    found = words(text)
    for quote in map(words, quotes):
        if quote and f" {' '.join(quote)} " in f" {' '.join(found)} ":
            return True
        if len(quote) < 5 or (Counter(quote) & Counter(found)).total() < SAME_WORDS * len(quote):
            continue
        blocks = SequenceMatcher(None, quote, found, autojunk=False).get_matching_blocks()
        if sum(block.size for block in blocks) >= SAME_ORDER * len(quote):
            return True
    return False


def parts_of(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, ...], int]:
    """Return the part of each drug, so that the parts have about as many questions."""
    sizes, parts = [0] * PARTS, dict[tuple[str, ...], int]()
    counts = Counter(tuple(sorted(row["drug"])) for row in rows)
    for drug, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        parts[drug] = sizes.index(min(sizes))
        sizes[parts[drug]] += count
    return parts


def learn(questions: Sequence[Ranked], columns: Sequence[int]) -> Floats:
    """Return the weights that make passages with the answer likeliest: softmax over the candidates of a question.

    Args:
        questions: what to learn from; those without a candidate that has the answer are left out.
        columns: the features that have a weight; the others get 0.
    """
    used = [one for one in questions if one.gold.any()]
    everything = np.concatenate([one.features for one in used])[:, columns]
    scale = everything.std(axis=0) + 1e-9
    data = [(one.features[:, columns] / scale, one.gold) for one in used]

    def loss(weights: Floats) -> tuple[float, Floats]:
        total, gradient = 0.0, np.zeros(len(columns))
        for features, gold in data:
            odds = np.exp((scores := features @ weights) - scores.max())
            right = odds * gold
            total -= np.log(right.sum() / odds.sum() + 1e-300)
            gradient -= (right / (right.sum() + 1e-300) - odds / odds.sum()) @ features
        return float(total / len(data) + PENALTY * (weights @ weights)), gradient / len(data) + 2 * PENALTY * weights

    found = np.zeros(questions[0].features.shape[1])
    found[list(columns)] = minimize(loss, np.zeros(len(columns)), jac=True, method="L-BFGS-B").x / scale
    return found


def left_out(questions: Sequence[Ranked], columns: Sequence[int]) -> list[Floats]:
    """Return the scores of each question's candidates by weights that are learned from the other parts."""
    weights = [learn([one for one in questions if one.part != part], columns) for part in range(PARTS)]
    return [one.features @ weights[one.part] for one in questions]


def shares_first(questions: Sequence[Ranked], scores: Sequence[Floats], first: Sequence[int] = FIRST) -> list[float]:
    """Return the shares of questions with an answer among the first candidates."""
    ranks = list[float]()
    for one, values in zip(questions, scores, strict=True):
        gold = one.gold[np.argsort(-values, kind="stable")]
        ranks.append(float(np.flatnonzero(gold)[0]) if gold.any() else np.inf)
    return [float(np.mean(np.array(ranks) < most)) for most in first]


def read_evidence(*, answerable: bool = True) -> list[dict[str, Any]]:
    """Return the marked questions, with or without those that their labels do not answer."""
    rows = [orjson.loads(line) for line in EVIDENCE.read_bytes().splitlines()]
    return [row for row in rows if row["answerable"] or not answerable]


def candidates_of(index: Index, question: str) -> tuple[str, Integers]:
    """Return a question without names, and the passages of the one drug that it names; none for other questions."""
    reader = index.reader
    named = reader.label_drugs.named(question)
    if len(named) != 1:
        return "", np.zeros(0, np.int64)
    passing: Mask = np.isin(reader.documents, named[0].own) & ~reader.headings
    asked = reader.label_drugs.without_names(reader.label_drugs.corrected(question))
    return asked, np.flatnonzero(reader.near_copies.representatives(passing))


def similarities(index: Index, question: str, positions: Integers) -> Floats | None:
    """Return the cosines of passages with a question; None where the index has no vectors."""
    if "cosine" not in index.reader.retrievers or index.sentence_encoder is None:
        return None
    vectors = encode_queries(index.sentence_encoder, [SearchQuery(question, 1, True)])
    within = np.zeros(len(index), np.bool_)
    within[positions] = True
    [ranked] = index.reader.search([question], len(positions), retriever="cosine", vectors=vectors, within=within)
    found = dict(ranked)
    return np.array([found.get(at, 0.0) for at in positions.tolist()])


def ranked_questions(index: Index, prepare: Callable[[dict[str, Any]], None] = lambda row: None) -> list[Ranked]:
    """Return the questions on one drug with their candidates."""
    rows = read_evidence()
    parts, found = parts_of(rows), list[Ranked]()
    for row in rows:
        asked, positions = candidates_of(index, row["question"])
        if not len(positions):
            continue
        cosines = similarities(index, row["question"], positions)
        texts = index.reader.texts()
        gold = np.array([has_quote(texts[at], row["quotes"]) for at in positions.tolist()])
        features = index.reader.label_ranker.features(asked, positions, cosines)
        found.append(Ranked(parts[tuple(sorted(row["drug"]))], features, gold))
    return found


def main(place: str, /, *, write: bool = False) -> int:
    """Learn, measure and print."""
    index = Index.open(place)
    questions = ranked_questions(index)
    print(f"{len(questions)} questions on one drug; {sum(one.gold.any() for one in questions)} have a marked passage")
    by_words = [at for at, name in enumerate(FEATURES) if name != "similarity"]
    kinds = {"words_only": by_words}
    if any(one.features[:, -1].any() for one in questions):
        kinds["with_similarity"] = list(range(len(FEATURES)))
    bm25 = shares_first(questions, [one.features[:, 0] for one in questions])
    print(f"{'BM25 (stems)':16} {_shares(bm25)}")
    weights, worse = dict[str, dict[str, float]](), False
    for kind, columns in kinds.items():
        shares = shares_first(questions, left_out(questions, columns))
        worse |= shares[0] <= bm25[0]
        learned = learn(questions, columns)
        weights[kind] = {name: round(float(one), 4) for name, one in zip(FEATURES, learned, strict=True)}
        print(f"{kind:16} {_shares(shares)}   weights {weights[kind]}")
    if write:
        path = Path(next(iter(fdarx_core.retrieval.index.__path__))) / "label_ranking.json"
        saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps({**saved, **weights}, indent=2) + "\n", encoding="utf-8")
    return int(worse)


def _shares(values: Sequence[float]) -> str:
    return ", ".join(f"first {first} {value:.3f}" for first, value in zip(FIRST, values, strict=True))


if __name__ == "__main__":
    run(main)
