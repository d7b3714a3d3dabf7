"""How often the section that answers a question is found, for questions of a writer whom the model has not read.

    python -m benchmarks.question_sections

Each writer of `fdarx_core/labels/question_sections.tsv` is left out in turn. A logistic regression (scikit-learn) on
the same features is the peer. Exits 1 where naive Bayes is more than 0.1 worse than the regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from benchmarks import run
from fdarx_core.labels.question_sections import SectionClassifier, WrittenQuestion, word_stems, written_questions

FIRST = 3


def shares_found(groups: Sequence[str], odds: np.ndarray, asked: Sequence[WrittenQuestion]) -> tuple[float, float]:
    """Return the share of questions whose group is the likeliest, and one of the `FIRST` likeliest."""
    order = np.argsort(-odds, axis=1)
    ranks = [[groups[at] for at in row].index(one.group) for row, one in zip(order, asked, strict=True)]
    return float(np.mean(np.array(ranks) == 0)), float(np.mean(np.array(ranks) < FIRST))


def peer(learned: Sequence[WrittenQuestion], asked: Sequence[WrittenQuestion]) -> tuple[float, float]:
    """Return the shares that a logistic regression finds."""
    vectorizer = CountVectorizer(analyzer=lambda text: [*word_stems(text), *map(" ".join, pairwise(word_stems(text)))])
    counts = np.log1p(vectorizer.fit_transform([one.text for one in learned]))
    model = LogisticRegression(C=10, max_iter=400).fit(counts, [one.group for one in learned])
    odds = model.predict_proba(np.log1p(vectorizer.transform([one.text for one in asked])))
    return shares_found(model.classes_.tolist(), odds, asked)


def main() -> int:
    """Print the shares for each writer."""
    rows, worse = written_questions(), 0.0
    for writer in sorted({one.writer for one in rows}):
        learned = [one for one in rows if one.writer != writer]
        asked = [one for one in rows if one.writer == writer and one.group in {each.group for each in learned}]
        model = SectionClassifier(learned)
        odds = np.array([[*model.probabilities(one.text).values()] for one in asked])
        ours, theirs = shares_found(model.groups, odds, asked), peer(learned, asked)
        worse = max(worse, theirs[0] - ours[0])
        print(
            f"writer {writer}, {len(asked)} questions: naive Bayes {ours[0]:.3f}, in the first {FIRST} {ours[1]:.3f}; "
            f"logistic regression {theirs[0]:.3f}, {theirs[1]:.3f}"
        )
    return int(worse > 0.1)


if __name__ == "__main__":
    run(main)
