"""The statistics of words in labels that the baseline answers with: writes `fdarx_core/baseline/label_words.tsv`.

    python -m benchmarks.label_words INDEX GUIDELINES

INDEX is an index of labels, GUIDELINES one of other documents, for words that are frequent in any text. Drugs whose
moieties are in the half for testing (`benchmarks.drug_search.is_test`) are left out. Each drug counts once, with at
most eight of its labels.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import fdarx_core.baseline
from benchmarks import run
from benchmarks.drug_search import is_test
from fdarx_core.baseline.stems import terms
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.rag.index import Index
from fdarx_core.records import Chunk

LABELS = 8
PRIOR_DRUGS = 4.0
"""Drugs with the mean share of passages that count as seen for each word and section."""
ADDED_SHARE = 0.01
"""Added to shares before they are compared, so that rare words are weak evidence."""
MOST_EVIDENCE, LEAST_EVIDENCE, MOST_SECTIONS = 3.0, 0.5, 4
LEAST_DRUGS, LEAST_SHARE = 2, 2e-4
"""Words of fewer drugs, or in a smaller share of passages, are left out."""

WORDS = 100
"""Words of a piece of another document, which is compared with a passage."""

Totals = defaultdict[tuple[str, str], float]


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


def shares_of_pieces(index: Index) -> dict[str, float]:
    """Return the share of pieces of documents that have a stem."""
    counts, pieces = Counter[str](), 0
    for chunk in index.reader.chunks(np.arange(len(index))):
        words = chunk.text.split()
        for start in range(0, len(words), WORDS):
            counts.update(stem for stem in terms(" ".join(words[start : start + WORDS])) if not stem[0].isdigit())
            pieces += 1
    return {stem: count / pieces for stem, count in counts.items()}


def lines(drugs: Sequence[Sequence[Chunk]], general: Mapping[str, float]) -> list[str]:
    """Return a line for each word: the stem, its share of passages or pieces, and its evidence for sections."""
    shares, overall = Totals(float), defaultdict[str, float](float)
    sections, drugs_with = Counter[str](), Counter[str]()
    for chunks in drugs:
        sizes = Counter(chunk.section_code for chunk in chunks if chunk.section_code in SECTION_NAMES)
        sections.update(sizes.keys())
        seen = set[str]()
        for chunk in chunks:
            for stem in terms(f"{chunk.section}\n{chunk.text}"):
                if stem[0].isdigit():
                    continue
                overall[stem] += 1 / len(chunks)
                seen.add(stem)
                if chunk.section_code in sizes:
                    shares[stem, chunk.section_code] += 1 / sizes[chunk.section_code]
        drugs_with.update(seen)
    known = {code: count for code, count in sections.items() if count > LEAST_DRUGS}
    found = list[str]()
    for stem in sorted({*overall, *general}):
        own = overall[stem] / len(drugs) if drugs_with[stem] >= LEAST_DRUGS else 0.0
        share = max(own, general.get(stem, 0.0))
        if share < LEAST_SHARE:
            continue
        means = {code: shares[stem, code] / count for code, count in known.items()}
        mean = math.fsum(means.values()) / len(known)
        spread = math.sqrt(drugs_with[stem] / len(drugs))  # a word of few drugs says little of a section of all
        ratios = {code: _log_ratio(shares[stem, code], count, mean) for code, count in known.items()}
        evidence = ((min(MOST_EVIDENCE, ratio) * spread, code) for code, ratio in ratios.items())
        best = sorted((one for one in evidence if one[0] >= LEAST_EVIDENCE), reverse=True)
        listed = " ".join(f"{code}:{value:.1f}" for value, code in best[:MOST_SECTIONS])
        found.append(f"{stem}\t{share:.4f}\t{listed}")
    return found


def _log_ratio(total: float, drugs: int, mean: float) -> float:
    """Return the logarithm of the ratio of a smoothed share in a section to the mean over the sections."""
    smoothed = (total + PRIOR_DRUGS * mean) / (drugs + PRIOR_DRUGS)
    return math.log((smoothed + ADDED_SHARE) / (mean + ADDED_SHARE))


def main(index: str, guidelines: str, /) -> int:
    """Write the table, and print how many words of how many drugs it has."""
    drugs = passages_of_drugs(Index.open(index))
    table = lines(drugs, shares_of_pieces(Index.open(guidelines)))
    path = Path(next(iter(fdarx_core.baseline.__path__))) / "label_words.tsv"
    path.write_text("\n".join(("stem\tshare\tsections", *table, "")), encoding="utf-8")
    print(f"{len(table)} words of {len(drugs)} drugs")
    return 0


if __name__ == "__main__":
    run(main)
