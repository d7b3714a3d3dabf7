"""Figures of verification engines on marked pairs: equal to scikit-learn's, by source, and from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

from fdarx_core.evaluation.verifier_scores import (
    MARKS,
    MarkedPair,
    known_scores,
    measured_note,
    read_engine_scores,
    read_marked_pairs,
    score_engine,
)
from fdarx_core.storage import Location, StorageError
from fdarx_core.verify import Verdict
from jobs.cli import main
from tests.llm.loopback_server import Fault, LoopbackServer

CLASSES = list(MARKS[:3])
TEXT = "The maximum dose is 10 mg once daily."


def verdict(name: str) -> Verdict:
    return Verdict(name, None, None, "", "made")  # type: ignore[arg-type]


def test_figures_equal_scikit_learn_s() -> None:
    dice = Random(3)
    marks = [dice.choice(CLASSES) for _ in range(400)]
    said = [mark if dice.random() < 0.6 else dice.choice([*CLASSES, "undecided"]) for mark in marks]
    pairs = [MarkedPair(f"text {number // 3}", "s", mark, "made") for number, mark in enumerate(marks)]
    figures = {one.metric: one for one in score_engine(pairs, list(map(verdict, said)), resamples=200)}
    macro = f1_score(marks, said, labels=CLASSES, average="macro")
    assert figures["macro_f1"].value == pytest.approx(macro)
    low, high = figures["macro_f1"].low, figures["macro_f1"].high
    assert low is not None and high is not None and low < macro < high and figures["macro_f1"].clusters == 134
    for mark in CLASSES:
        for name, score in (("precision", precision_score), ("recall", recall_score)):
            expected = score(marks, said, labels=[mark], average="macro")
            assert figures[f"{name}_{mark}"].value == pytest.approx(expected)
    decided = [(one, mark) for one, mark in zip(said, marks, strict=True) if one != "undecided"]
    assert figures["decided"].value == pytest.approx(len(decided) / 400)
    assert figures["precision_decided"].value == pytest.approx(sum(one == mark for one, mark in decided) / len(decided))
    assert "precision_not_supported" not in figures


def test_two_classes_are_scored_as_two_and_not_mixed_with_three() -> None:
    marks = ["supported", "supported", "not_supported", "not_supported"]
    two = [MarkedPair(str(number), "s", mark, "two") for number, mark in enumerate(marks)]
    three = [MarkedPair("c", "s", "contradicted", "three")]
    said = ("supported", "contradicted", "unsupported", "contradicted", "unsupported")
    values = {
        (one.keys["source"], one.metric): one.value for one in score_engine([*two, *three], list(map(verdict, said)))
    }
    assert values["two", "precision_not_supported"] == pytest.approx(2 / 3)
    assert values["two", "recall_not_supported"] == 1.0 and values["two", "recall_supported"] == 0.5
    assert values["two", "macro_f1"] == pytest.approx((4 / 5 + 2 / 3) / 2) and values["three", "macro_f1"] == 0.0
    assert {source for source, _ in values} == {"two", "three"}


def test_the_command_scores_an_engine_and_keeps_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"text": TEXT, "statement": "The maximum dose is 10 mg once daily.", "mark": "supported"},
        {"evidence": TEXT, "claim": "The maximum dose is 20 mg once daily.", "label": "REFUTES"},
        {"premise": TEXT, "hypothesis": "It is taken with food.", "gold": "neutral"},
    ]
    marked, out = tmp_path / "marked.jsonl", tmp_path / "figures.json"
    marked.write_text("\n".join(map(json.dumps, rows)))
    assert main(["verify", "--pairs", str(marked), "--out", str(out), "--resamples", "100"]) == 0
    printed = capsys.readouterr()
    assert "exact on marked pairs" in printed.out and "marked (3)" in printed.out
    kept = json.loads(out.read_text())
    values = {one["metric"]: one["value"] for one in kept["figures"]}
    assert kept["engine"] == "exact" and values["decided"] == pytest.approx(1 / 3)
    assert values["precision_decided"] == 1.0
    note = measured_note("exact", read_engine_scores(Location(str(out))))
    assert "marked (3 pairs) macro-F1" in note and "precision of the decided 1.00, share decided 0.33" in note


def test_only_the_engine_of_the_release_has_known_scores() -> None:
    assert "exact on pairs that people marked, from a probability of 0.7" in measured_note(
        "exact", known_scores("exact")
    )
    assert "was not measured" in measured_note("other", known_scores("other"))


@pytest.mark.parametrize("text", ["no JSON", "{}", '{"engine": "exact", "threshold": 0.7, "figures": [{"value": 1}]}'])
def test_a_file_that_holds_no_scores_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    file.write_text(text)
    with pytest.raises(StorageError, match="has no figures of an engine"):
        read_engine_scores(Location(str(file)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no marked pairs"),
        ("no JSON", "pairs.jsonl:1 is no JSON object"),
        ('{"text": "a", "mark": "supported"}', "pairs.jsonl:1 has no statement; give it in a field statement"),
        ('{"text": "a", "claim": "b", "label": "perhaps"}', "pairs.jsonl:1 has the unknown mark 'perhaps'"),
    ],
)
def test_a_file_that_is_no_set_of_pairs_is_explained(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(text)
    with pytest.raises(StorageError, match=message):
        read_marked_pairs(Location(str(file)))


def test_a_server_that_is_down_and_a_wrong_option_are_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marked = tmp_path / "marked.jsonl"
    marked.write_text(json.dumps({"text": TEXT, "statement": TEXT, "mark": "supported"}))
    with pytest.raises(SystemExit) as stopped:
        main(["verify", "--pairs", str(marked), "--resamples", "0"])
    assert stopped.value.code == 2 and "greater than or equal to 100" in capsys.readouterr().err
    with LoopbackServer() as server:
        server.faults = lambda call: Fault(status=404)
        engine = f"language-model:absent@{server.openai_url}"
        assert main(["verify", "--pairs", str(marked), "--engine", engine, "--quiet"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("stopped: model absent") and "Traceback" not in said
