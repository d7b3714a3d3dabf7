"""The verdicts of the rules on pairs whose relation is known from their source, and pairs a second.

    python -m benchmarks.rules_entailment [--passages 800]

Conclusions of PubMedQA against their own abstract (mostly supported or neither) and another one's (neither); MedLFQA's
must-have and nice-to-have statements against the reference answer that they were written from (mostly supported), and
another question's (neither). Shares are at the threshold of the verdicts. Then the marked claims against the passages
of their labels, on one core: `first` reads each passage, `again` has it read. The data is found through FDARX_DATA.
Exits 1 where fewer than 3,000 pairs a second are judged again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks import DATA, PRESCRIPTION_LABELS, command_line, cpu_timed, json_lines
from benchmarks.marked_claims import CLASSES, MARKED, labels_of, verdict
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.verify import open_engine
from fdarx_core.verify.engine import TextPair

LEAST = 3000
FAR = 7
"""The distance in rows to a text that is unrelated to a row."""
ENGINE = open_engine("rules")


def conclusions(step: int) -> Iterator[TextPair]:
    """Pair the sentences of each conclusion with the abstract `step` rows on."""
    found = json_lines(DATA / "pubmedqa" / "labelled.jsonl")
    for number, row in enumerate(found):
        abstract = "\n".join(found[(number + step) % len(found)]["CONTEXTS"])
        yield from (TextPair(abstract, sentence) for sentence in split_sentences(row["LONG_ANSWER"]))


def statements(field: str, step: int) -> Iterator[TextPair]:
    """Pair the statements on each question with the reference answer `step` rows on."""
    for name in ("kqa_golden_test", "live_qa_test"):
        found = json_lines(DATA / "medlfqa" / f"{name}.jsonl")
        for number, row in enumerate(found):
            answer = found[(number + step) % len(found)]["Free_form_answer"]
            yield from (TextPair(answer, one) for one in row.get(field) or ())


def shares(name: str, pairs: Sequence[TextPair]) -> str:
    """Return a line of the table."""
    counts = Counter(verdict(one) for one in ENGINE.judge(pairs))
    shares = "".join(f"{counts[one] / len(pairs):14.3f}" for one in CLASSES)
    return f"{name:46}{len(pairs):8}{shares}"


def main() -> int:
    """Print the shares and the rates."""
    parser = command_line(__doc__)
    parser.add_argument("--passages", type=int, default=800, help="of the marked claims' labels, to measure the speed")
    chosen = parser.parse_args()
    print(f"{'':46}{'pairs':>8}" + "".join(f"{one:>14}" for one in CLASSES))
    print(shares("PubMedQA conclusion, its own abstract", list(conclusions(0))))
    print(shares("PubMedQA conclusion, another abstract", list(conclusions(FAR))))
    for field in ("Must_have", "Nice_to_have"):
        print(shares(f"MedLFQA {field}, its own reference answer", list(statements(field, 0))))
        print(shares(f"MedLFQA {field}, another reference answer", list(statements(field, FAR))))
    return _speed(chosen.passages)


def _speed(wanted: int) -> int:
    marked = json_lines(MARKED)
    found = labels_of(PRESCRIPTION_LABELS, {row["set_id"] for row in marked})
    passages = [(label, one) for label, of_label in found.values() for one in of_label][:wanted]
    claims = {label.set_id: [row["claim"] for row in marked if row["set_id"] == label.set_id] for label, _ in passages}
    pairs = [TextPair(one.text, claim, label.drug_name) for label, one in passages for claim in claims[label.set_id]]
    first, again = (len(pairs) / cpu_timed(lambda: ENGINE.judge(pairs))[1] for _ in range(2))
    print(f"{len(pairs)} pairs, {len(passages)} passages: {first:,.0f} a second first, {again:,.0f} again ({LEAST})")
    return int(again < LEAST)


if __name__ == "__main__":
    sys.exit(main())
