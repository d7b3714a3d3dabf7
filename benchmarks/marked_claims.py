"""Precision and recall of an entailment engine on 60 claims marked by hand against passages of real labels.

    python -m benchmarks.marked_claims [--entailment DIRECTORY] [--show] [--threshold 0.7]

20 claims each are supported by their passage (by an exact fact or a paraphrase), contradicted by it (one number, unit,
population or negation was changed), and unsupported (plausible for the drug, but not in the passage). The engine is the
built-in rules, or an NLI model of transformers in a directory. The labels are found through FDARX_DATA.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import PRESCRIPTION_LABELS, REPOSITORY, command_line, json_lines
from fdarx_core.factuality.scores import CONTRADICTED, SUPPORTED, UNSCORED, UNSUPPORTED
from fdarx_core.labels import find_sources, parse_document, read_source
from fdarx_core.records import Label, Passage, Reject
from fdarx_core.verify import THRESHOLD, open_engine
from fdarx_core.verify.engine import Inference, Judgement, TextPair

MARKED = REPOSITORY / "tests" / "factuality" / "marked_claims.jsonl"
CLASSES = (SUPPORTED, CONTRADICTED, UNSUPPORTED)


@dataclass(frozen=True, slots=True)
class MarkedClaim:
    """A claim with the passage that it was written for; `changed` says how it was made."""

    pair: TextPair
    mark: str
    changed: str


def marked_claims(release: Path) -> list[MarkedClaim]:
    """Return the hand-marked claims with their passages, read from a bulk release of prescription labels."""
    rows = json_lines(MARKED)
    labels = labels_of(release, {row["set_id"] for row in rows})
    found = []
    for row in rows:
        label, passages = labels[row["set_id"]]
        pair = TextPair(passages[row["passage"]].text, row["claim"], label.drug_name)
        found.append(MarkedClaim(pair, row["mark"], row["changed"]))
    return found


def labels_of(release: Path, wanted: set[str]) -> dict[str, tuple[Label, list[Passage]]]:
    """Return the labels with these set ids, and their passages. A bulk release names its files by set id."""
    sources = find_sources([str(release)]).sources
    named = [one for one in sources if any(set_id in one.name for set_id in wanted)]
    read = [document for source in named for document in read_source(source)]
    parsed = (parse_document(document[1]) for document in read if not isinstance(document, Reject))
    return {label.set_id: (label, passages) for label, passages in parsed}


def verdict(judgement: Judgement, threshold: float = THRESHOLD) -> str:
    """Return the verdict of one passage on a claim, as `verdict_of` decides it for several."""
    if not isinstance(judgement, Inference):
        return UNSCORED
    likelier = max(judgement.entailment, judgement.contradiction)
    if likelier < threshold:
        return UNSUPPORTED
    return SUPPORTED if likelier == judgement.entailment else CONTRADICTED


def confusion(marks: Sequence[str], verdicts: Sequence[str]) -> Counter[tuple[str, str]]:
    """Count the verdicts for each mark."""
    return Counter(zip(marks, verdicts, strict=True))


def figures(counts: Counter[tuple[str, str]], name: str) -> tuple[float, float, float]:
    """Return precision, recall and F1 of one class, 0 to 1, and 0 where there are no claims."""
    right = counts[name, name]
    said = sum(count for (_, verdict), count in counts.items() if verdict == name)
    marked = sum(count for (mark, _), count in counts.items() if mark == name)
    return right / max(said, 1), right / max(marked, 1), 2 * right / max(said + marked, 1)


def main() -> int:
    """Print the table, and with --show each claim with a wrong verdict."""
    parser = command_line(__doc__)
    parser.add_argument("--entailment", metavar="DIRECTORY", help="an NLI model of transformers; the rules if left out")
    parser.add_argument("--threshold", type=float, default=THRESHOLD)
    parser.add_argument("--show", action="store_true", help="print the claims with a wrong verdict, and the reason")
    chosen = parser.parse_args()
    engine = open_engine(chosen.entailment or "rules")
    claims = marked_claims(PRESCRIPTION_LABELS)
    judged = engine.judge([one.pair for one in claims])
    verdicts = [verdict(one, chosen.threshold) for one in judged]
    _print_table(engine.name, confusion([one.mark for one in claims], verdicts))
    for one, said, judgement in zip(claims, verdicts, judged, strict=True):
        if chosen.show and said != one.mark:
            print(f"{one.mark} judged {said} ({one.changed or 'not in the passage'}): {one.pair.hypothesis}")
            print(f"    {judgement.reason}")
    return 0


def _print_table(engine: str, counts: Counter[tuple[str, str]]) -> None:
    columns = (*CLASSES, UNSCORED)
    print(f"{engine}: {sum(counts[name, name] for name in CLASSES)} of {counts.total()} claims judged correctly")
    print(f"{'marked / judged':16}" + "".join(f"{name:>14}" for name in (*columns, "precision", "recall", "F1")))
    for mark in CLASSES:
        shares = "".join(f"{share:14.2f}" for share in figures(counts, mark))
        print(f"{mark:16}" + "".join(f"{counts[mark, name]:14}" for name in columns) + shares)


if __name__ == "__main__":
    sys.exit(main())
