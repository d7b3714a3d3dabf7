"""Safety candidates of questions with answers about drugs of real labels, by kind of answer.

    python -m benchmarks.safety [--part dev] [--show]

The answers were written and marked from labels alone; `benchmarks/marked/README.md` describes them. A candidate is what
a verifier, or a person, has to decide; a harmless answer that speaks of what the label forbids is one too. Exits 1 if
less than 75 % of the wrong doses have a candidate.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from benchmarks import REPOSITORY, json_lines, read_documents, run
from fdarx_core.factuality.safety import CandidateFinder
from fdarx_core.labels import parse_document
from fdarx_core.records import CheckedAnswer

LEAST_DOSES = 0.75


def main(*, part: Literal["dev", "test"] = "dev", show: bool = False) -> int:
    """Print the counts by kind; with --show the candidates of each answer of the dev part that has a wrong number."""
    rows = json_lines(REPOSITORY / "benchmarks" / "marked" / f"safety_{part}.jsonl")
    documents = read_documents(set_ids={row["set_id"] for row in rows})
    finder = CandidateFinder(lambda: map(parse_document, documents))
    counts: Counter[tuple[str, bool]] = Counter()
    candidates: Counter[str] = Counter()
    for row in rows:
        answer = CheckedAnswer(row["id"], row["id"], row["question"], row["answer"], "marked", set_id=row["set_id"])
        found = finder.candidates(answer)
        counts[row["kind"], bool(found)] += 1
        candidates[row["kind"]] += len(found)
        if show and part == "dev" and bool(found) != (row["gold"] == "flag"):
            print(row["id"], row["kind"], "|", row["question"], "|", row["answer"])
            for one in found:
                print("    ", one.flag.kind, one.flag.subject, "|", one.flag.because)
    for kind in sorted(candidates):
        some, none = counts[kind, True], counts[kind, False]
        print(f"{kind:16} with candidates {some:3} of {some + none:3}  candidates {candidates[kind]:3}")
    some, none = counts["wrong_dose", True], counts["wrong_dose", False]
    return int(some < LEAST_DOSES * (some + none))


if __name__ == "__main__":
    run(main)
