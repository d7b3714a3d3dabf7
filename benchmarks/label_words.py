"""The statistics of words in labels that the baseline answers with: writes `fdarx_core/baseline/label_words.tsv`.

    python -m benchmarks.label_words INDEX GUIDELINES

INDEX is an index of labels, GUIDELINES one of other documents, for words that are frequent in any text. Drugs whose
moieties are in the half for testing (`benchmarks.drug_search.is_test`) are left out. Each drug counts once, with at
most eight of its labels.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import fdarx_core.baseline
from benchmarks import run
from benchmarks.drug_search import is_test
from fdarx_core.baseline.stems import stem
from fdarx_core.baseline.tokens import words_of
from fdarx_core.rag.index import Index
from fdarx_core.records import Chunk

LABELS = 8
LEAST_DRUGS, LEAST_SHARE = 2, 2e-4
"""Words of fewer drugs, or in a smaller share of passages, are left out."""

WORDS = 100
"""Words of a piece of another document, which is compared with a passage."""


def passages_of_drugs(index: Index) -> list[list[Chunk]]:
    """Return the passages of some labels of each drug that is not for testing."""
    drugs = defaultdict[tuple[str, ...], list[Chunk]](list)
    for chunk in index.reader.chunks(np.arange(len(index))):
        moieties = tuple(chunk.label.moieties) if chunk.label else ()
        if moieties and not any(map(is_test, moieties)):
            drugs[moieties].append(chunk)
    rng, found = random.Random(0), list[list[Chunk]]()
    for chunks in drugs.values():
        ids = sorted({chunk.document_id for chunk in chunks})
        kept = set(rng.sample(ids, min(LABELS, len(ids))))
        found.append([chunk for chunk in chunks if chunk.document_id in kept])
    return found


def stems_of(text: str) -> set[str]:
    """Return the stems of all words of a text, function words included."""
    return {stem(word, "term") for word in words_of(text) if not word[0].isdigit()}


def shares_of_pieces(index: Index) -> dict[str, float]:
    """Return the share of pieces of documents that have a stem."""
    counts, pieces = Counter[str](), 0
    for chunk in index.reader.chunks(np.arange(len(index))):
        words = chunk.text.split()
        for start in range(0, len(words), WORDS):
            counts.update(stems_of(" ".join(words[start : start + WORDS])))
            pieces += 1
    return {one: count / pieces for one, count in counts.items()}


def lines(drugs: Sequence[Sequence[Chunk]], general: Mapping[str, float]) -> list[str]:
    """Return a line for each word: the stem, and its share of passages or pieces."""
    overall, drugs_with = defaultdict[str, float](float), Counter[str]()
    for chunks in drugs:
        counts = Counter(one for chunk in chunks for one in stems_of(f"{chunk.section}\n{chunk.text}"))
        for one, count in counts.items():
            overall[one] += count / len(chunks)
            drugs_with[one] += 1
    own = {one: share / len(drugs) for one, share in overall.items() if drugs_with[one] >= LEAST_DRUGS}
    shares = {one: max(own.get(one, 0.0), general.get(one, 0.0)) for one in sorted({*overall, *general})}
    return [f"{one}\t{share:.4f}" for one, share in shares.items() if share >= LEAST_SHARE]


def main(index: str, guidelines: str, /) -> int:
    """Write the table, and print how many words of how many drugs it has."""
    drugs = passages_of_drugs(Index.open(index))
    table = lines(drugs, shares_of_pieces(Index.open(guidelines)))
    path = Path(next(iter(fdarx_core.baseline.__path__))) / "label_words.tsv"
    path.write_text("\n".join(("stem\tshare", *table, "")), encoding="utf-8")
    print(f"{len(table)} words of {len(drugs)} drugs")
    return 0


if __name__ == "__main__":
    run(main)
