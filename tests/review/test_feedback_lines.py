"""Lines of judgments that another version of the service wrote, or that are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.review.review_set import open_review
from fdarx_core.storage import StorageError
from jobs.review import import_files

PASSAGE = {"n": 1, "title": "Zalvo", "section": "Dose", "text": "Take 5 mg.", "cited": True, "set_id": "s", "drug": "z"}
GATE = {"supported": 1, "unsupported": 0, "undecided": 0, "uncited": 0, "dropped": []}
REPLY: dict[str, Any] = {
    "standalone_question": "How much?",
    "answer": "5 mg [1].",
    "passages": [PASSAGE],
    "gate": GATE,
    "refused": False,
    "model": "small",
    "strategy": "single",
    "retriever": "bm25",
}


def judged(folder: Path, **changed: Any) -> str:
    reply = {name: value for name, value in {**REPLY, **changed}.items() if value is not None}
    line = {"at": "2026-01-01T00:00:00Z", "verdict": "good", "reply": reply}
    (folder / "feedback.jsonl").write_text(json.dumps(line))
    return str(folder / "feedback.jsonl")


@pytest.mark.parametrize("absent", ["uncited", "dropped", "undecided", "unsupported"])
def test_counts_that_an_older_service_did_not_write_are_zero(absent: str, tmp_path: Path) -> None:
    gate = {name: count for name, count in GATE.items() if name != absent}
    assert import_files(str(tmp_path / "review"), [judged(tmp_path, gate=gate)]) == 0
    [item] = open_review(str(tmp_path / "review")).items()
    assert item.decision == "good" and f"0 {absent}" in item.because


@pytest.mark.parametrize(
    "changed", [{"gate": None}, {"passages": None}, {"passages": ["x"]}, {"answer": None}, {"gate": []}]
)
def test_a_line_that_lacks_more_is_refused_with_its_place(changed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"feedback\.jsonl:1: no judgment of an answer"):
        import_files(str(tmp_path / "review"), [judged(tmp_path, **changed)])
