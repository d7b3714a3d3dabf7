"""Citations of answers: does each mark a place of its passage, of at most 400 characters, and what does the gate drop?

    python -m benchmarks.citations RUN [--index INDEX] [--questions 300] [--dump FILE] [--test]

RUN is a build (`fdarx build`). The questions are those of its benchmark that name their drug, on labels whose moieties
are all in the half for tuning; with --test, in the half for testing (`benchmarks.drug_search.is_test`). The baseline
answers them from INDEX, by default a words-only index of the run. --dump writes 60 statements with their places, to be
read. Exits 1 where a place is not in its passage, is longer, or is of a drug that the question does not name.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from benchmarks import run
from benchmarks.drug_search import is_test
from fdarx_core.rag.index import Answer, Index
from fdarx_core.rag.locating import LONGEST_SPAN
from jobs.cli import main as fdarx

DUMPED = 60


def sample_questions(run_folder: str, index: Index, count: int, *, test: bool) -> list[dict[str, str]]:
    """Return questions on labels of one half that name their drug."""
    rows = pd.read_json(f"{run_folder}/benchmark/qa.jsonl", lines=True).to_dict("records")
    labels = index.reader.labels
    chosen = [
        row
        for row in rows
        if row["drug_name"] in row["question"]
        and labels[row["set_id"]].moieties
        and all(is_test(moiety) == test for moiety in labels[row["set_id"]].moieties)
    ]
    return random.Random(0).sample(chosen, min(count, len(chosen)))


def named_moieties(index: Index, row: Mapping[str, str]) -> set[str]:
    """Return the moieties of a question's label, and of all drugs that the question names."""
    mentions = index.reader.label_drugs.names.find(row["question"])
    named = {moiety for mention in mentions for moiety in mention.moieties}
    return {moiety.casefold() for moiety in {*named, *index.reader.labels[row["set_id"]].moieties}}


def faults(answer: Answer, moieties: Collection[str]) -> Counter[str]:
    """Return how many citations have each fault. `moieties` are those of `named_moieties`."""
    found = Counter[str]()
    for one in answer.citations:
        found["not in the passage"] += one.quote != one.hit.text[one.start : one.end] or not one.quote
        found["too long"] += one.end - one.start > LONGEST_SPAN
        found["of another drug"] += not any(moiety.casefold() in moieties for moiety in one.moieties)
    return found


def main(
    run_folder: str, /, *, index: str = "", questions: int = 300, dump: Path | None = None, test: bool = False
) -> int:
    """Print what the gate did, and the faults of citations."""
    with TemporaryDirectory() as folder:
        if not index:
            fdarx(["index", "--documents", run_folder, "--words-only", "--out", folder, "--quiet"])
        opened = Index.open(index or folder)
    rows = sample_questions(run_folder, opened, questions, test=test)
    outcomes, wrong, citations, lines = Counter[str](), Counter[str](), 0, list[str]()
    for row in rows:
        answer = opened.answer(row["question"])
        gate = answer.gate
        outcomes.update(answers=1, refused=answer.refused, statements=gate.statements)
        outcomes.update(supported=gate.supported, undecided=gate.undecided, uncited=gate.uncited)
        outcomes.update(f"dropped: {one.reason}" for one in gate.dropped)
        wrong += faults(answer, named_moieties(opened, row))
        citations += len(answer.citations)
        for one in answer.citations:
            said = answer.text[slice(*one.statement)]
            lines.append(f"{one.verdict}\t{one.drug}\t{row['question']}\t{said!r}\t{one.quote!r}")
    print(", ".join(f"{name} {count}" for name, count in outcomes.items()))
    print(f"{citations} citations; " + ", ".join(f"{name}: {count}" for name, count in wrong.items()))
    if dump is not None:
        dump.write_text("\n".join(random.Random(0).sample(lines, min(DUMPED, len(lines)))), encoding="utf-8")
    return int(wrong.total() > 0)


if __name__ == "__main__":
    run(main)
