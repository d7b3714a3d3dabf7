"""What `fdarx factuality` says of options that are wrong, before anything is read or asked at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.cli import main
from tests.jobs.checking import lines, made_files


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (("--evidence", "books:here"), "labels:RUN"),
        (("--evidence", "file:no/such.jsonl"), "two sources are of the kind file; give one of each kind"),
        (("--evidence", "labels:no/such/run"), "no/such/run"),
        (("--predictions", "no/such.jsonl"), "no/such.jsonl"),
        (("--references", "no/such.jsonl"), "no/such.jsonl"),
        (("--entailment", "no/such/model"), "no/such/model"),
        (("--claims", "nobody"), "nobody"),
        (("--compare-entailment", "exact"), "--compare-entailment"),
        (("--weights", "0.5,0.5,0.5"), "add up to 1"),
        (("--weights", "half"), "three numbers"),
        (("--years", "2024-2014"), "first and the last year"),
        (("--threshold", "1.5"), "--threshold"),
        (("--safety", "no/such/run"), "no/such/run"),
        (("--max-cost", "1", "--k", "0"), "--k"),
    ],
)  # fmt: skip
def test_wrong_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], complaint: str
) -> None:
    line = ["--out", str(tmp_path / "run"), *map(str, made_files(tmp_path)), *given]
    with pytest.raises(SystemExit) as ended:
        main(["factuality", *line])
    said = capsys.readouterr().err.strip().splitlines()
    assert (ended.value.code, len(said)) == (2, 1), said
    assert complaint in said[0]
    assert not (tmp_path / "run").exists()


def test_files_without_an_answer_and_unfinished_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [str(one) for one in made_files(tmp_path)]
    rest = options[options.index("--references") :]
    empty = str(lines(tmp_path / "empty.jsonl", [{"question": "Why?"}]))
    (tmp_path / "begun").mkdir()
    begun = {"format": 1, "job": "evaluate", "status": "interrupted", "config": {}}
    lines(tmp_path / "begun" / "run.json", [begun])
    for given, complaint in ((empty, "no_answer"), (str(tmp_path / "begun"), "is interrupted, with answers missing")):
        with pytest.raises(SystemExit):
            main(["factuality", "--out", str(tmp_path / "run"), "--predictions", given, *rest])
        assert complaint in capsys.readouterr().err
