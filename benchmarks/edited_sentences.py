"""Verdicts of a verification engine on sentences of real labels, verbatim and with one mechanical edit each.

    python -m benchmarks.edited_sentences [--engine exact] [--part dev] [--count 300] [--show EDIT]

Each sentence is judged against the passage that it was taken from: as it is, with a random word replaced by a random
word of other labels, with "not" inserted, and with one number changed. An engine should call the first supported and
none of the others. Labels are split by substance: rules and thresholds are tuned on `dev`, figures are reported on
`test`. Exits 1 where the exact engine misses its bounds: 97 % of the verbatim sentences supported, at most 3 % of those
with a replaced word, none with "not", 1 % with another number.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from typing import Literal

from benchmarks import read_documents, run
from fdarx_core.labels import parse_document
from fdarx_core.records import Label, Passage
from fdarx_core.verify import open_engine, verify
from fdarx_core.verify.engine import TextPair

BOUNDS = {"verbatim": (0.97, 1.0), "word": (0.0, 0.03), "not": (0.0, 0.0), "number": (0.0, 0.01)}
"""The least and the largest share of supported sentences, by edit."""

_SENTENCE_END = re.compile(r"(?<=[a-z)]\.)\s+(?=[A-Z])")
_WORD = re.compile(r"[A-Za-z]{3,}")
_NUMBER = re.compile(r"(?<![\w.,/-])\d+(?:\.\d+)?(?![\w.,/-]*\d)")
_AUXILIARY = re.compile(r"\b(?:is|are|was|were|may|can|should|must|has|have|will)\b")


def part_of(label: Label) -> str:
    """Return the label's part, `dev` or `test`, which is the same for all labels of the same substances."""
    substances = " ".join(sorted(name.split()[0].lower() for name in label.substances))
    return ("dev", "test")[hashlib.sha256(substances.encode()).digest()[0] % 2]


def sentences_of(passage: Passage) -> list[str]:
    """Return the sentences of running text of 6 to 60 words."""
    lines = [line for line in passage.text.split("\n") if " | " not in line and line.endswith(".")]
    found = [one.removeprefix("- ") for line in lines for one in _SENTENCE_END.split(line)]
    return [one for one in found if 6 <= len(one.split()) <= 60 and one[0].isupper()]


def edits(sentence: str, words: list[str], rng: random.Random) -> dict[str, str]:
    """Return the sentence unchanged and with each edit, by name; `number` needs a number in the sentence."""
    edited = {"verbatim": sentence}
    place = rng.choice(list(_WORD.finditer(sentence)))
    other = rng.choice([word for word in words if word.lower()[:4] != place[0].lower()[:4]])
    edited["word"] = sentence[: place.start()] + other + sentence[place.end() :]
    auxiliary = list(_AUXILIARY.finditer(sentence))
    at = rng.choice(auxiliary).end() if auxiliary else rng.choice(list(_WORD.finditer(sentence))).end()
    edited["not"] = f"{sentence[:at]} not{sentence[at:]}"
    if numbers := list(_NUMBER.finditer(sentence)):
        number = rng.choice(numbers)
        changed = f"{float(number[0]) * rng.choice((0.1, 0.5, 2, 10)) + rng.choice((0, 1)):g}"
        if float(changed) != float(number[0]):
            edited["number"] = sentence[: number.start()] + changed + sentence[number.end() :]
    return edited


def main(
    *, engine: str = "exact", part: Literal["dev", "test"] = "dev", count: int = 300, seed: int = 0, show: str = ""
) -> int:
    """Print the share of each verdict by edit. Return 1 if a share of the exact engine is outside its bounds."""
    rng = random.Random(seed)
    parsed = [parse_document(data) for data in read_documents()]
    chosen = [(label, passages) for label, passages in parsed if part_of(label) == part]
    by_substance: dict[str, list[tuple[Label, list[Passage]]]] = {}
    for label, passages in chosen:
        by_substance.setdefault(" ".join(sorted(label.substances)), []).append((label, passages))
    words = sorted({word for _, passages in chosen for one in passages[:40] for word in _WORD.findall(one.text)})
    pairs: list[tuple[str, TextPair]] = []
    names = sorted(by_substance)
    number_of_sentences = 0
    while number_of_sentences < count:  # substances in turn, because most labels are of a few substances
        label, passages = rng.choice(by_substance[names[number_of_sentences % len(names)]])
        if not passages or not (sentences := sentences_of(passage := rng.choice(passages))):
            continue
        number_of_sentences += 1
        edited = edits(rng.choice(sentences), words, rng)
        pairs += [(edit, TextPair(passage.text, text, label.drug_name)) for edit, text in edited.items()]
    verdicts = verify([pair for _, pair in pairs], open_engine(engine))
    counts = {edit: Counter[str]() for edit in BOUNDS}
    for (edit, pair), result in zip(pairs, verdicts, strict=True):
        counts[edit][result.verdict] += 1
        if edit == show and (result.verdict == "supported") != (edit == "verbatim"):
            print(f"{result.verdict}: {pair.hypothesis}\n    {result.reason}")
    failed = False
    print(f"{engine} on {number_of_sentences} sentences of {len(names)} substances or combinations, part {part}")
    for edit, (least, most) in BOUNDS.items():
        number = counts[edit].total()
        share = counts[edit]["supported"] / number
        failed = failed or not least <= share <= most
        shares = ", ".join(f"{name} {count / number:.3f}" for name, count in counts[edit].most_common())
        print(f"  {edit:9} n {number:4}  {shares}")
    return int(failed and engine == "exact")


if __name__ == "__main__":
    run(main)
