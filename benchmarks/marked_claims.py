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
from pathlib import Path

from benchmarks import PRESCRIPTION_LABELS, REPOSITORY, command_line, json_lines, read_documents
from fdarx_core.factuality.scores import CONTRADICTED, SUPPORTED, UNSCORED, UNSUPPORTED
from fdarx_core.labels import parse_document
from fdarx_core.records import Label, Passage
from fdarx_core.verify import THRESHOLD, open_engine
from fdarx_core.verify.engine import Inference, Judgement, TextPair

MARKED = REPOSITORY / "tests" / "factuality" / "marked_claims.jsonl"
CLASSES = (SUPPORTED, CONTRADICTED, UNSUPPORTED)


def marked_claims(release: Path) -> list[tuple[TextPair, dict[str, str]]]:
    """Return the hand-marked claims with their passages, read from a bulk release of prescription labels.

    The row of a claim has its `mark`, and how it was made (`changed`).
    """
    rows = json_lines(MARKED)
    labels = labels_of(release, {row["set_id"] for row in rows})
    found = []
    for row in rows:
        label, passages = labels[row["set_id"]]
        found.append((TextPair(passages[row["passage"]].text, row["claim"], label.drug_name), row))
    return found


def labels_of(release: Path, wanted: set[str]) -> dict[str, tuple[Label, list[Passage]]]:
    """Return the labels with these set ids, and their passages."""
    parsed = (parse_document(data) for data in read_documents([str(release)], set_ids=wanted))
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
    judged = engine.judge([pair for pair, _ in claims])
    verdicts = [verdict(one, chosen.threshold) for one in judged]
    _print_table(engine.name, confusion([row["mark"] for _, row in claims], verdicts))
    for (pair, row), said, judgement in zip(claims, verdicts, judged, strict=True):
        if chosen.show and said != row["mark"]:
            print(f"{row['mark']} judged {said} ({row['changed'] or 'not in the passage'}): {pair.hypothesis}")
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
