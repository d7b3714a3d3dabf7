"""Logs of inspect and lm-eval as predictions: what is read, and what is told of."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.storage import StorageError
from fdarx_core.storage.imported_predictions import ImportedPrediction, read_predictions

LOGS = Path(__file__).parent / "harness_logs"
"""Logs of the tasks of docs/harnesses.md for the first two questions of the example build, by inspect-ai 0.3.285 and
lm-eval 0.4.13. The model answered with the gold answers."""
FIELDS = {"id": "q1", "setting": "retrieved", "retriever": "bm25", "citable": [3, 4], "type": "factual"}
"""Fields of a sample."""


def inspect_sample(text: str | None = "5 mg", stop_reason: str = "stop", **fields: Any) -> dict[str, Any]:
    choices = [] if text is None else [{"message": {"content": text}, "stop_reason": stop_reason}]
    output = {"choices": choices, "completion": text or ""}
    return {"id": "q1", "epoch": 1, "metadata": FIELDS, "output": output, **fields}


def inspect_log(path: Path, *samples: dict[str, Any], ended: bool = True) -> str:
    """A log as inspect writes it, but for the compression of its files, which is that of inspect in `LOGS`."""
    header = json.dumps({"eval": {"model": "openai-api/here/small"}})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr("_journal/start.json", header)
        for number, sample in enumerate(samples):
            log.writestr(f"samples/q{number}_epoch_{sample['epoch']}.json", json.dumps(sample))
        log.writestr("summaries.json", "[]")
        if ended:
            log.writestr("header.json", header)
    return str(path)


def lm_eval_row(reply: str | None = "5 mg", **doc: Any) -> dict[str, Any]:
    return {"doc_id": 0, "doc": {**FIELDS, **doc}, "resps": [[reply]], "filtered_resps": [reply]}


def lm_eval_log(path: Path, *rows: dict[str, Any]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_logs_that_the_harnesses_wrote() -> None:
    answers, rejects = read_predictions(str(LOGS))
    questions = ("0e89bd0d57c9fb84", "1583d0e3de58dc4f")
    assert not rejects
    assert [(one.model, one.question_id) for one in answers] == [
        (model, id) for model in ("openai-api-loopback-small", "org-third") for id in questions
    ]
    for one in answers:
        assert (one.setting, one.retriever, one.citable, one.finish_reason) == ("oracle", "", [], "stop")
    assert all(one.text.startswith("There are no data on the presence of ortavelin") for one in answers[::2])


@pytest.mark.parametrize("ended", [True, False])
def test_a_sample_of_inspect_with_its_setting(tmp_path: Path, ended: bool) -> None:
    scores = {"fdarx": {"value": float("nan")}}
    answers, rejects = read_predictions(inspect_log(tmp_path / "a.eval", inspect_sample(scores=scores), ended=ended))
    assert answers == [ImportedPrediction("q1", "openai-api-here-small", "retrieved", "bm25", "5 mg", None, [3, 4])]
    assert not rejects


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"),
    [("max_tokens", "length"), ("model_length", "length"), ("content_filter", "content_filter"), ("unknown", "stop")],
)
def test_why_a_reply_ended(tmp_path: Path, stop_reason: str, finish_reason: str) -> None:
    [answer], _ = read_predictions(inspect_log(tmp_path / "a.eval", inspect_sample("Take", stop_reason)))
    assert answer.finish_reason == finish_reason


def test_samples_of_inspect_without_an_answer_are_told_of(tmp_path: Path) -> None:
    failed = inspect_sample(None, error={"message": "429 from the server"})
    other = inspect_sample(metadata={"id": "q1"})
    samples = (inspect_sample(), inspect_sample(epoch=2), failed, inspect_sample(None), other)
    answers, rejects = read_predictions(inspect_log(tmp_path / "a.eval", *samples))
    assert len(answers) == 1
    assert [row.reason for row in rejects] == ["duplicate", "sample_failed", "no_reply", "missing_fields"]
    assert rejects[1].detail == "429 from the server" and rejects[1].source == "a.eval:samples/q2_epoch_1.json"


def test_a_sample_of_lm_eval_with_the_model_of_its_results(tmp_path: Path) -> None:
    log = lm_eval_log(tmp_path / "org__small" / "samples_fdarx_retrieved_2026-11-25T22-04-50.9.jsonl", lm_eval_row())
    assert read_predictions(log)[0] == [
        ImportedPrediction("q1", "org__small", "retrieved", "bm25", "5 mg", None, [3, 4])
    ]
    results = tmp_path / "org__small" / "results_2026-11-25T22-04-50.9.json"
    results.write_text('{"model_name": "org/small", "results": {"fdarx_retrieved": {"refusal_precision,none": NaN}}}')
    assert read_predictions(log)[0][0].model == "org-small"
    results.write_text("{}")
    with pytest.raises(StorageError, match=r"results_.* has no model_name"):
        read_predictions(log)


def test_samples_of_lm_eval_without_an_answer_are_told_of(tmp_path: Path) -> None:
    foreign = {"doc": {"question": "2 + 2"}, "resps": [["4"]], "filtered_resps": ["4"]}
    log = lm_eval_log(tmp_path / "m" / "renamed.jsonl", lm_eval_row(), lm_eval_row(), lm_eval_row(None), foreign)
    answers, rejects = read_predictions(log)
    assert len(answers) == 1 and [row.reason for row in rejects] == ["duplicate", "no_reply", "missing_fields"]


def test_the_logs_of_a_folder(tmp_path: Path) -> None:
    inspect_log(tmp_path / "a.eval", inspect_sample())
    inspect_log(tmp_path / "b.eval", inspect_sample(metadata={**FIELDS, "setting": "oracle", "retriever": ""}))
    lm_eval_log(tmp_path / "small" / "samples_fdarx_retrieved_now.jsonl", lm_eval_row())
    (tmp_path / "small" / "notes.jsonl").write_text("{}\n")
    answers, rejects = read_predictions(str(tmp_path))
    assert {(one.model, one.setting) for one in answers} == {
        *(("openai-api-here-small", setting) for setting in ("retrieved", "oracle")),
        ("small", "retrieved"),
    }
    assert not rejects


def test_what_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.eval").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "other.eval", "w") as other:
        other.writestr("samples/q1_epoch_1.json", "{}")
    inspect_log(tmp_path / "none.eval")
    inspect_log(tmp_path / "foreign.eval", inspect_sample(metadata={}))
    said = {
        "empty": "is a folder without logs; give one with logs of inspect",
        "text.eval": "is not a log of inspect",
        "other.eval": "is not a log of inspect",
        "none.eval": "has no samples; run inspect without --no-log-samples",
        "foreign.eval": "holds no answer .*missing_fields.*docs/harnesses.md",
        "text.txt": r"or a log of inspect \(.eval\) or lm-eval",
    }
    for name, pattern in said.items():
        with pytest.raises(StorageError, match=pattern):
            read_predictions(str(tmp_path / name))
