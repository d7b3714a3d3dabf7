"""Verdicts of a verification engine on 200 statements about drugs, each against one passage of a real label.

    python -m benchmarks.claims [--engine exact] [--part dev] [--show]

The statements were written and marked from labels alone, in the wording of a language model, by somebody who had not
read the engines; `benchmarks/marked/README.md` describes them. Exits 1 if the exact engine supports a statement that
its passage does not support.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from benchmarks import REPOSITORY, json_lines, read_documents, run
from fdarx_core.evaluation.tables import table_text
from fdarx_core.evaluation.verifier_scores import MarkedPair, engine_table, score_engine
from fdarx_core.labels import parse_document
from fdarx_core.verify import open_engine, verify
from fdarx_core.verify.engine import TextPair


def main(*, engine: str = "exact", part: Literal["dev", "test"] = "dev", show: bool = False) -> int:
    """Print the figures and the verdicts by kind of statement; exit 1 outside the bounds."""
    rows = json_lines(REPOSITORY / "benchmarks" / "marked" / f"claims_{part}.jsonl")
    parsed = map(parse_document, read_documents(set_ids={row["set_id"] for row in rows}))
    labels = {label.set_id: (label.drug_name, passages) for label, passages in parsed}
    pairs = []
    for row in rows:
        drug, passages = labels[row["set_id"]]
        pairs.append(MarkedPair(passages[row["passage"]].text, row["claim"], row["gold"], part, drug))
    judge = open_engine(engine)
    verdicts = verify([TextPair(one.text, one.statement, one.drug) for one in pairs], judge)
    print(table_text(engine_table(judge.name, score_engine(pairs, verdicts))))
    counts = Counter((row["kind"], one.verdict) for row, one in zip(rows, verdicts, strict=True))
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind:12} {verdict:13} {count:4}")
    decided = [(row, one) for row, one in zip(rows, verdicts, strict=True) if one.verdict != "undecided"]
    wrong = [(row, one) for row, one in decided if one.verdict != row["gold"]]
    if show and part == "dev":
        for row, one in wrong:
            print(f"{row['gold']} ({row['kind']}) judged {one.verdict}: {row['claim']}\n    {one.reason}")
    return int(bool(wrong) and judge.name == "exact")


if __name__ == "__main__":
    run(main)
