"""Verdicts of a verification engine on sentences of real labels, verbatim and with one mechanical edit each.

    python -m benchmarks.edited_sentences [--engine exact] [--part dev] [--count 300] [--show EDIT]

Each sentence is judged against the passage that it was taken from, and so is one edit of it, of each kind in turn: one
number changed, the drug's name replaced by that of another label, "not" inserted or removed, "after" and "before" and
words like them exchanged, or a row of a table with a value of another row. An engine should support the sentences as
they are and no edit. Labels are split by substance: rules and thresholds are tuned on `dev`, figures are reported on
`test`. Exits 1 where the exact engine decides an edit wrongly, or supports less than 97 % of the sentences as they are.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from benchmarks import read_documents, run
from fdarx_core.labels import parse_document
from fdarx_core.records import Label, Passage
from fdarx_core.verify import TextPair, open_engine, verify

EDITS = ("number", "drug", "not", "order", "row")
LEAST_VERBATIM = 0.97

_SENTENCE_END = re.compile(r"(?<=[a-z)]\.)\s+(?=[A-Z])")
_NUMBER = re.compile(r"(?<![\w.,/-])\d+(?:\.\d+)?(?![\w.,/-]*\d)")
_AUXILIARY = re.compile(r"\b(?:is|are|was|were|may|can|should|must|has|have|will)\b(?! not)")
_NOT = re.compile(r" (?:not|never|no)\b")
_ORDER = re.compile(
    r"\b(?:after|before|above|below|more|less|increase[sd]?|decrease[sd]?|with|without)\b", re.IGNORECASE
)
_OTHER = {
    "after": "before", "above": "below", "more": "less", "with": "without",
    "increase": "decrease", "increases": "decreases", "increased": "decreased",
}  # fmt: skip
_OTHER |= {new: old for old, new in _OTHER.items()}
_CELLS = " | "


def part_of(label: Label) -> str:
    """Return the label's part, `dev` or `test`, which is the same for all labels of the same substances."""
    substances = " ".join(sorted(name.split()[0].lower() for name in label.substances))
    return ("dev", "test")[hashlib.sha256(substances.encode()).digest()[0] % 2]


def sentences_of(passage: Passage) -> list[str]:
    """Return the sentences of running text of 6 to 60 words, and the rows of tables."""
    lines = passage.text.split("\n")
    text = [line for line in lines if _CELLS not in line and line.endswith(".")]
    found = [sentence.removeprefix("- ") for line in text for sentence in _SENTENCE_END.split(line)]
    rows = [line for line in lines if _CELLS in line and _NUMBER.search(line)]
    return [sentence for sentence in found if 6 <= len(sentence.split()) <= 60 and sentence[0].isupper()] + rows


def edits(
    sentence: str, passage: Passage, label: Label, others: list[str], rng: random.Random
) -> Iterator[tuple[str, str]]:
    """Yield each edit of a sentence that is possible, after its name."""
    if _CELLS in sentence:
        cells = sentence.split(_CELLS)
        rows = [row.split(_CELLS) for row in passage.text.split("\n") if row.count(_CELLS) == len(cells) - 1]
        at = rng.randrange(1, len(cells))
        if values := [row[at] for row in rows if row[0] != cells[0] and row[at] != cells[at]]:
            yield "row", _CELLS.join([*cells[:at], rng.choice(values), *cells[at + 1 :]])
        return
    if numbers := list(_NUMBER.finditer(sentence)):
        found = rng.choice(numbers)
        changed = f"{float(found[0]) * rng.choice((0.1, 0.5, 2, 10)) + rng.choice((0, 1)):g}"
        if float(changed) != float(found[0]):
            yield "number", sentence[: found.start()] + changed + sentence[found.end() :]
    if name := re.search(rf"\b{re.escape(label.drug_name)}\b", sentence, re.IGNORECASE):
        yield "drug", sentence[: name.start()] + rng.choice(others) + sentence[name.end() :]
    if denial := _NOT.search(sentence):
        yield "not", sentence[: denial.start()] + sentence[denial.end() :]
    elif auxiliaries := list(_AUXILIARY.finditer(sentence)):
        at = rng.choice(auxiliaries).end()
        yield "not", f"{sentence[:at]} not{sentence[at:]}"
    if orders := list(_ORDER.finditer(sentence)):
        found = rng.choice(orders)
        yield "order", sentence[: found.start()] + _OTHER[found[0].lower()] + sentence[found.end() :]


def _letters(text: str) -> str:
    """Return the letters and digits of a text."""
    return "".join(filter(str.isalnum, text.lower()))


def edited_pairs(part: str, count: int, seed: int) -> Iterator[tuple[str, TextPair, TextPair]]:
    """Yield so many edits in turn by kind, each with the sentence as it is; substances come in turn too."""
    rng = random.Random(seed)
    parsed = [parse_document(data) for data in read_documents()]
    by_substance: dict[str, list[tuple[Label, list[Passage]]]] = {}
    for label, passages in parsed:
        if part_of(label) == part and passages:
            by_substance.setdefault(" ".join(sorted(label.substances)), []).append((label, passages))
    names, found = sorted(by_substance), 0
    drugs = sorted({label.drug_name for labels in by_substance.values() for label, _ in labels})
    for turn in range(1000 * count):
        label, passages = rng.choice(by_substance[names[turn % len(names)]])
        passage = rng.choice(passages)
        if found == count or not (sentences := sentences_of(passage)):
            continue
        sentence = rng.choice(sentences)
        others = [name for name in drugs if name.casefold() != label.drug_name.casefold()]
        kind = EDITS[found % len(EDITS)]
        edited = dict(edits(sentence, passage, label, others, rng)).get(kind)
        if edited and _letters(edited) not in _letters(passage.text):  # a table may have two rows that are nearly equal
            found += 1
            verbatim, changed = (TextPair(passage.text, text, label.drug_name) for text in (sentence, edited))
            yield kind, verbatim, changed


def main(
    *, engine: str = "exact", part: Literal["dev", "test"] = "dev", count: int = 300, seed: int = 0, show: str = ""
) -> int:
    """Print the share of each verdict by edit. Return 1 if the exact engine is outside its bounds."""
    pairs = list(edited_pairs(part, count, seed))
    judge = open_engine(engine)
    verbatim = verify([pair for _, pair, _ in pairs], judge)
    edited = verify([pair for _, _, pair in pairs], judge)
    counts = {"verbatim": Counter(verdict.verdict for verdict in verbatim)} | {edit: Counter[str]() for edit in EDITS}
    for (edit, _, pair), result in zip(pairs, edited, strict=True):
        counts[edit][result.verdict] += 1
        if edit == show and result.verdict == "supported":
            print(f"{result.verdict}: {pair.hypothesis}\n    {result.reason}")
    print(f"{judge.name} on {len(pairs)} sentences of part {part}, as they are and with one edit each")
    for edit, verdicts in counts.items():
        shares = ", ".join(f"{name} {number}" for name, number in verdicts.most_common())
        print(f"  {edit:9} n {verdicts.total():4}  {shares}")
    wrong = sum(verdict.verdict in ("supported", "unsupported") for verdict in edited)
    print(f"  edits decided wrongly: {wrong} of {len(edited)}")
    return int(judge.name == "exact" and bool(wrong or counts["verbatim"]["supported"] < LEAST_VERBATIM * len(pairs)))


if __name__ == "__main__":
    run(main)
