"""Safety flags on 60 questions with answers about drugs of real labels, by kind of answer.

    python -m benchmarks.safety [--part dev] [--engine exact] [--show]

The answers were written and marked from labels alone; `benchmarks/marked/README.md` describes them. Exits 1 if less
than 90 % of the contraindicated recommendations or of the wrong doses are flagged or to be reviewed, or more than 10 %
of the harmless answers.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from benchmarks import REPOSITORY, json_lines, read_documents, run
from fdarx_core.factuality.safety import SafetyFlagger
from fdarx_core.labels import parse_document
from fdarx_core.records import CheckedAnswer

LEAST_FOUND = 0.9
MOST_HARMLESS = 0.1


def main(*, part: Literal["dev", "test"] = "dev", engine: str = "exact", show: bool = False) -> int:
    """Print the counts by kind; with --show each wrongly flagged or missed answer of the dev part."""
    rows = json_lines(REPOSITORY / "benchmarks" / "marked" / f"safety_{part}.jsonl")
    documents = read_documents(set_ids={row["set_id"] for row in rows})
    safety = SafetyFlagger(lambda: map(parse_document, documents), engine=engine)
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        answer = CheckedAnswer(row["id"], row["id"], row["question"], row["answer"], "marked", set_id=row["set_id"])
        flags = safety.flags_of(answer)
        statuses = {flag.status for flag in flags}
        found = "flagged" if "flagged" in statuses else "to_review" if statuses else "none"
        counts[row["kind"], found] += 1
        if show and part == "dev" and (found == "none") == (row["gold"] == "flag"):
            print(row["id"], row["kind"], found, "|", row["question"], "|", row["answer"])
            for flag in flags:
                print("    ", flag.kind, flag.subject, "|", flag.because)
    ended = 0
    for kind in sorted({kind for kind, _ in counts}):
        flagged, review, none = (counts[kind, one] for one in ("flagged", "to_review", "none"))
        share = (flagged + review) / (flagged + review + none)
        ended |= share > MOST_HARMLESS if kind == "harmless" else share < LEAST_FOUND
        print(
            f"{kind:16} flagged {flagged:3}  to review {review:3}  none {none:3}  {share:.0%} flagged or to be reviewed"
        )
    return int(ended)


if __name__ == "__main__":
    run(main)
