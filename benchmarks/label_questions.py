"""Questions that people ask of labels, answered from an index: what can be counted, and all answers to be read.

    python -m benchmarks.label_questions INDEX [--part dev] [--out answers.jsonl]

INDEX is an index of `../shared/data/spl/dm_spl_release_human_rx.zip`. The questions were written from the labels alone
(`benchmarks/marked/README.md`). Counted are the questions whose first passage is of a drug that they ask about, the
comparisons with passages and with answers on both drugs, the questions without an answer and to drugs without a label
that are refused. Whether an answer is acceptable must be read: `--out` writes each beside the expected one.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import orjson

from benchmarks import run
from fdarx_core.rag.index import Answer, Index

_MARKED = Path(__file__).parent / "marked"


def is_of(moieties: list[str], drugs: list[str]) -> bool:
    """Return whether any of the moieties of a label is named among drugs."""
    named = " ".join(drugs).casefold()
    return any(one.casefold() in named for one in moieties)


def outcomes(row: dict[str, Any], answer: Answer) -> dict[str, bool]:
    """Return what can be counted of an answer, by the name of the count."""
    if row["kind"] in ("absent", "no_answer"):
        return {f"{row['kind']}: refused": answer.refused and not answer.citations}
    first = bool(answer.contexts) and is_of(answer.contexts[0].moieties, row["drug"])
    counts = {f"{row['kind']}: answered": not answer.refused}
    if row["kind"] != "class":
        counts["first passage of a drug asked about"] = first
    if row["kind"] == "comparison":
        counts["comparison: a paragraph for each drug"] = len(answer.columns) > 1
        counts["comparison: all drugs answered"] = len(answer.columns) > 1 and not any(
            column.refused for column in answer.columns
        )
    return counts


def main(place: str, /, *, part: Literal["dev", "test"] = "dev", out: str = "") -> int:
    """Ask all questions of a part, print the counts, and write the answers."""
    index = Index.open(place)
    rows = [orjson.loads(line) for line in (_MARKED / f"label_questions_{part}.jsonl").read_bytes().splitlines()]
    right, asked = Counter[str](), Counter[str]()
    told = list[str]()
    for row in rows:
        answer = index.answer(row["question"], history=[(question, reply) for question, reply in row["history"]])
        for name, value in outcomes(row, answer).items():
            asked[name] += 1
            right[name] += value
        cited = [
            {"n": one.n, "quote": one.quote, "drug": one.drug, "date": one.effective_date} for one in answer.citations
        ]
        more = {"answer": answer.text, "refused": answer.refused, "standalone": answer.standalone_question}
        told.append(json.dumps({**row, **more, "citations": cited}, ensure_ascii=False))
    for name in sorted(asked):
        print(f"{name:45} {right[name]:3} of {asked[name]}")
    if out:
        Path(out).write_text("\n".join(told) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    run(main)
