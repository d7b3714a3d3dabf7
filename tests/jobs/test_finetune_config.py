"""Wrong arguments of `fdarx finetune` are told before a run is begun or a library is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from fdarx_core.specs import finetune
from jobs.cli import main

ROW = '{"question": "How is it stored?", "answer": "At 20 to 25 degrees."}\n'


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A model's directory, without weights, and a pair; with all libraries."""
    monkeypatch.setattr(finetune, "find_spec", lambda name: name)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "pairs.jsonl").write_text(ROW)
    places = {"--questions": "pairs.jsonl", "--model": "model", "--out": "run"}
    return [part for option, name in places.items() for part in (option, str(tmp_path / name))]


def refused(given: list[str], *more: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["finetune", *given, *more])
    assert stopped.value.code == 2


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--model", "nowhere"), "error: --model: nowhere is not a model directory, it has no config.json"),
        ((), "model holds no weights (*.safetensors or *.bin)"),
        (("--workers", "0"), "error: --workers: Input should be greater than or equal to 1 (given: '0')"),
        (("--rate", "-1"), "error: --rate: Input should be greater than 0 (given: '-1')"),
    ],
)
def test_wrong_options(
    given: list[str], more: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(given, *more)
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_library_that_is_missing(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(finetune, "find_spec", lambda name: None if name == "peft" else name)
    refused(given)
    assert capsys.readouterr().err == "error: fine-tuning needs peft: pip install 'fdarx[models]'\n"


def test_questions_without_the_columns(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model" / "model.safetensors").touch()
    (tmp_path / "pairs.jsonl").write_text('{"q": "How is it stored?", "a": "At 20 to 25 degrees."}\n')
    refused(given)
    error = capsys.readouterr().err
    assert "holds no question to ask" in error and "a row needs question and answer" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--batch", "4", "--workers", "3"), "--batch 4 can't be divided among --workers 3; give a multiple"),
        (("--fsdp",), "--fsdp divides the weights among several workers"),
        (("--objective", "dpo", "--context", "passages"), "--objective dpo asks without passages"),
        (("--method", "full", "--target-modules", "q_proj"), "--target-modules is for adapters"),
        (("--executor", "local", "--workers", "2"), "--executor local is one process"),
        (("--objective", "dpo"), "is not a run: it has no run.json"),
    ],
)
def test_options_that_do_not_go_together(
    given: list[str], more: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model" / "model.safetensors").touch()
    refused(given, *more)
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_too_few_pairs(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model" / "model.safetensors").touch()
    refused(given)
    error = capsys.readouterr().err
    assert "none of 1 pairs in 1 groups of near-duplicates is in the " in error and error.count("\n") == 1
    assert "split of 90 groups" in error and "give more pairs, or another --seed" in error
    assert not (tmp_path / "run").exists()
