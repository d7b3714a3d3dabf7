"""Options that take text files, which others have saved in another encoding than UTF-8."""

from __future__ import annotations

from pathlib import Path

import pytest

from fdarx_core.storage import Location
from tests.conftest import REPOSITORY
from tests.jobs.in_process import run_job

LABELS = REPOSITORY / "fdarx_core/examples/labels"
ANSWERS = REPOSITORY / "fdarx_core/examples/questions.jsonl"
FACTUALITY = ("factuality", "--out", "{}/run", "--predictions", ANSWERS, "--evidence")


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("ids.txt", "# für alle", ("build", "--labels", LABELS, "--out", "{}/run", "--set-ids")),
        ("ids.txt", "# für alle", ("fetch", "--out", "{}/labels", "--set-ids")),
        ("criteria.yaml", "name: für", ("build", "--labels", LABELS, "--out", "{}/run", "--criteria")),
        ("models.yaml", "- {name: für}", ("build", "--labels", LABELS, "--out", "{}/run", "--models")),
        ("models.yaml", "- {name: für}", ("check",)),
        ("options.yaml", "sample: 3 # für", ("build", "--labels", LABELS, "--out", "{}/run", "--config")),
        ("scores.json", '{"engine": "für"}', (*FACTUALITY, "file:{}/e.jsonl", "--engine-scores")),
        ("statements.json", '[{"question": "für"}]', (*FACTUALITY, "pubmed", "--references")),
        ("clients.txt", "# keys\n# für alle", ("serve", "--index", "{}/index", "--keys-file")),
        ("clients.txt", "# keys\n# für alle", ("serve", "--new-key", "anna", "--keys-file")),
        ("answers.csv", "question,answer,reference\nfür,x,y", ("grade", "--out", "{}/run")),
        ("answers.json", '[{"question": "für", "answer": "x", "reference": "y"}]', ("grade", "--out", "{}/run")),
    ],
)
def test_a_file_in_another_encoding_is_refused_with_its_name_and_what_to_do(
    name: str, text: str, options: tuple[object, ...], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    refused = run_job(*(str(option).format(tmp_path) for option in options), tmp_path / name)
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    line = text[: text.index("ü")].count("\n") + 1
    assert f"{tmp_path / name} is not in UTF-8 (line {line}); save it as UTF-8" in refused.stderr
    assert refused.stderr.count(name) == 1 and "give a YAML file" not in refused.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("grade", "{}/l.jsonl", "--out", "{}/run"),
        ("factuality", "--predictions", "{}/l.jsonl", "--evidence", "pubmed", "--out", "{}/run"),
        ("factuality", "--predictions", ANSWERS, "--evidence", "file:{}/l.jsonl", "--out", "{}/run"),
        ("evaluate", "--benchmark", "{}/l.jsonl", "--out", "{}/run"),
    ],
)
def test_lines_in_another_encoding_are_named(options: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_bytes('{"question": "für", "answer": "zwei Wörter"}\n'.encode("latin-1"))
    refused = run_job(*(str(option).format(tmp_path) for option in options))
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert "l.jsonl:1: not_utf8, the line is not in UTF-8; save the file as UTF-8" in refused.stderr


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("a set id", encoding="utf-8-sig")
    assert Location(tmp_path / "ids.txt").read_text() == "a set id"
