"""The claims that the rules extract from long answers on drugs, as a sheet for judging by reading.

    python -m benchmarks.claim_extraction [--part dev] [--out FILE]

A reader marks each claim: `atomic` if it is one true or false statement, `faithful` if it says what the answer says,
with its hedges and conditions, `self_contained` if it is understood without the answer, given the drug.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Literal

from benchmarks import REPOSITORY, json_lines, run
from fdarx_core.baseline.claims import claims_of
from fdarx_core.records import CheckedAnswer

FIELDS = ("id", "number", "drug", "question", "answer", "text", "claim", "atomic", "faithful", "self_contained")


def sheet(part: str) -> str:
    """Return the claims of a part of the answers as CSV, the last three columns empty for the reader's marks."""
    written = io.StringIO()
    table = csv.DictWriter(written, FIELDS, restval="", lineterminator="\n")
    table.writeheader()
    for row in json_lines(REPOSITORY / "benchmarks" / "marked" / f"answers_{part}.jsonl"):
        shown = {name: row[name] for name in ("id", "drug", "question", "answer")}
        answer = CheckedAnswer(row["id"], row["id"], row["question"], row["answer"], "m", drug=row["drug"])
        for claim in claims_of(answer):
            table.writerow({**shown, "number": claim.number, "text": claim.text, "claim": claim.resolved})
    return written.getvalue()


def main(*, part: Literal["dev", "test"] = "dev", out: Path | None = None) -> int:
    """Print the sheet, or write it to a file."""
    text = sheet(part)
    if out:
        out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    run(main)
