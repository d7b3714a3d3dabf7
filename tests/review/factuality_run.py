"""A factuality run over the example labels: right answers of one model, shortened and changed ones of another."""

from __future__ import annotations

import json
from pathlib import Path

from fdarx_core.storage import RunDirectory
from jobs.cli import main
from tests.conftest import REPOSITORY


def factuality_run(folder: Path) -> RunDirectory:
    build, labels = folder / "build", REPOSITORY / "examples" / "labels"
    assert main(["build", "--labels", str(labels), "--out", str(build), "--executor", "local", "--quiet"]) == 0
    rows = [json.loads(line) for line in (build / "benchmark" / "qa.jsonl").read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["task"] != "refusal"][:60:2]
    files = []
    for model in ("careful", "careless"):
        answers = [_answer(row, model, changed=at % 2 == 1) for at, row in enumerate(rows)]
        files.append(folder / f"{model}.jsonl")
        files[-1].write_text("".join(f"{json.dumps(one)}\n" for one in answers))
    out = folder / "facts"
    options = ["--evidence", f"labels:{build}", "--safety", str(build), "--executor", "local", "--resamples", "200"]
    given = ["factuality", "--predictions", *map(str, files), *options, "--out", str(out), "--quiet"]
    assert main(given) == 0
    return RunDirectory.open(str(out))


def _answer(row: dict[str, str], model: str, *, changed: bool) -> dict[str, object]:
    answer = row["answer"]
    if model == "careless":
        rest = f"{answer.split('.')[0]}. It is well tolerated by most people."
        answer = answer.replace("25", "75").replace("once", "three times") if changed else rest
    about = {"question": row["question"], "set_id": row["set_id"], "drug": row["drug_name"]}
    return {**about, "references": [row["answer"]], "model": model, "answer": answer}
