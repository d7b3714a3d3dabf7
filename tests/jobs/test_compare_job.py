"""`fdarx compare` as a user runs it: evaluations of one benchmark side by side."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from jobs import cli
from tests.jobs.evaluating import by_type, evaluate
from tests.jobs.in_process import run_job

SETTINGS = ("oracle", "full_label")
_DIFFERENCE = re.compile(
    r"^(?P<metric>\w+), (?P<group>\w+), (?P<setting>\w+): (?P<a>.+) − (?P<b>.+?) "
    r"(?P<value>[+-]\d\.\d{3}) \[(?P<low>[+-]\d\.\d{3}), (?P<high>[+-]\d\.\d{3})\], p \d\.\d{4} \(Holm\)$",
    re.MULTILINE,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rules(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "rules"
    done = evaluate(example_build, out, "--settings", ",".join(SETTINGS))
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def copied(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run, of gold answers, which cite their gold passages and refuse where there is no answer."""
    folder = tmp_path_factory.mktemp("copied")
    questions = [json.loads(line) for line in (example_build / "benchmark" / "qa.jsonl").read_text().splitlines()]
    rows = [
        {"qid": row["qid"], "answer": "NOT_ANSWERABLE" if row["task"] == "refusal" else row["answer"], "setting": name}
        for name in SETTINGS
        for row in questions
        if name == "full_label" or row["task"] != "refusal"
    ]
    (folder / "gold.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = evaluate(
        example_build, folder / "copied", "--predictions", folder / "gold.jsonl", "--settings", "closed_book"
    )
    assert done.returncode == 0, done.stderr
    return folder / "copied"


def compare(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_job("compare", *arguments)


def test_two_runs_side_by_side(rules: Path, copied: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = compare(copied, rules, "--out", page, "--resamples", 200, "--verbose")
    assert done.returncode == 0, done.stderr
    table_1, table_2 = done.stdout.index("Table 1"), done.stdout.index("Table 2")
    for row in ("rules · baseline", "copied · gold"):
        assert row in done.stdout[table_1:table_2]
    assert "rules · bm25" in done.stdout[table_2:] and "copied · bm25" in done.stdout[table_2:]
    assert re.search(r"^\d+ of \d+ differences have p below 0.05 after Holm's correction", done.stdout, re.MULTILINE)
    shown = page.read_text()
    assert str(page) in done.stdout and len(shown) > 10_000
    for name in ("rules · baseline", "copied · gold"):
        assert name in shown


def test_differences_are_those_of_the_figures(rules: Path, copied: Path, tmp_path: Path) -> None:
    done = compare(copied, rules, "--out", tmp_path / "page.html", "--resamples", 200)
    found = {(one["metric"], one["group"], one["setting"]): one for one in _DIFFERENCE.finditer(done.stdout)}
    figures = {**by_type(rules), **by_type(copied)}
    assert {("accuracy", "answerable", name) for name in SETTINGS} | {
        ("refusal_f1", "all", "full_label")
    } <= found.keys()
    of_types = {key: one for key, one in found.items() if key[0] != "hallucination_rate"}  # also by topic
    for (metric, group, setting), one in of_types.items():
        assert {one["a"], one["b"]} == {"copied · gold", "rules · baseline"}
        values = {
            "copied · gold": figures["gold", setting, "", metric, group].value,
            "rules · baseline": figures["baseline", setting, "", metric, group].value,
        }
        first, second = values[one["a"]], values[one["b"]]
        assert first is not None and second is not None
        assert float(one["value"]) == pytest.approx(first - second, abs=0.0006)
        assert float(one["low"]) <= float(one["value"]) <= float(one["high"])
    apart = [one for one in found.values() if float(one["low"]) * float(one["high"]) > 0]
    assert any(abs(float(one["value"])) > 0.1 for one in apart)


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ((), "at least two runs"),
        (("build",), "is a run of build_benchmark, not of evaluate"),
        (("begun",), "has no metrics yet"),
        (("nowhere",), "is not a run"),
        (("copied", "--resamples", "0"), "--resamples: Input should be greater than or equal to 100"),
    ],
)
def test_what_can_not_be_compared_is_refused(
    others: tuple[str, ...],
    told: str,
    rules: Path,
    copied: Path,
    example_build: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "run.json").write_text((rules / "run.json").read_text())
    places = {"build": example_build, "begun": begun, "nowhere": tmp_path / "nowhere", "copied": copied}
    compared = [str(rules), *(str(places.get(one, one)) for one in others)]
    with pytest.raises(SystemExit) as stopped:
        cli.main(["compare", *compared, "--out", str(tmp_path / "page.html")])
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and told in line
    assert not (tmp_path / "page.html").exists()
