"""Reviews of a factuality run: claims and flags, shares, unsure marks, adjudication, exports."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.records import CheckedAnswer, ClaimVerdict, SafetyFlag
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.report.review_pages import annotator_page
from fdarx_core.review.agreement import measure_agreement
from fdarx_core.review.importing import import_annotations, marked_pairs
from fdarx_core.review.items import draw_sample
from fdarx_core.review.label_studio import export_items
from fdarx_core.review.review_set import assign_items, open_review, write_adjudication, write_review
from fdarx_core.storage import RunConflict, RunDirectory, StorageError, read_records, write_records
from jobs.cli import main
from tests.review.factuality_run import factuality_run
from tests.review.synthetic_reviews import hashed, item, reviewed, votes

EVERYTHING = 10_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    made = factuality_run(tmp_path_factory.mktemp("facts"))
    answers = [row.id for part in made.parts("answers") for row in read_records(part, CheckedAnswer)]
    flags = [
        SafetyFlag(answers[0], "dose", 0, 5, "A tab", "X", "Dosage", "Take 5 mg.", "s", "m"),
        SafetyFlag(answers[0], "interaction", 6, 9, "let", "X", "Interactions", "Not with Y.", "s", "n"),
    ]
    write_records(made.parts("flags")[0], flags, SafetyFlag)
    return made


def truth(name: str, item: ReviewItem) -> str:
    """Return what everybody says: the engine is wrong on a fifth; of what it left open, half is supported."""
    if item.task == "flag":
        return "harmless"
    if not item.decision:
        return "supported" if hashed("open", item.subject) < 0.5 else "unsupported"
    wrong = hashed("wrong", item.subject) < 0.2
    return {"supported": "unsupported"}.get(item.decision, "supported") if wrong else item.decision


def test_claims_are_drawn_with_passages_and_verdict_and_flags_with_the_label_s_words(run: RunDirectory) -> None:
    drawn = draw_sample(run, EVERYTHING)
    verdicts = {row.claim_id: row.verdict for part in run.parts("verdicts") for row in read_records(part, ClaimVerdict)}
    claims = [item for item in drawn.items if item.task == "claim"]
    assert {item.subject for item in claims} == set(verdicts) and drawn.info["by"][0] == "verdict"
    for one in claims:
        decided = verdicts[one.subject] in ("supported", "contradicted", "unsupported")
        assert one.decision == (verdicts[one.subject] if decided else "")
        assert one.statement and one.choices == ["supported", "contradicted", "unsupported", "unsure"]
        assert 0 < len(one.evidence) <= 5 and all(text in one.context for text in one.evidence)
    flags = {item.statement: item for item in drawn.items if item.task == "flag"}
    assert (flags["A tab"].decision, flags["let"].decision) == ("harmful", "harmful")
    assert flags["let"].evidence == ["Not with Y."] and flags["let"].choices == ["harmful", "harmless", "unsure"]
    few = draw_sample(run, 20, tasks=["claim"], models=["careless"])
    assert {item.model for item in few.items} == {"careless"} and len(few.items) == 20
    weights = sum(1 / item.fraction for item in few.items)
    assert weights == pytest.approx(sum(item.model == "careless" for item in claims))


def test_undecided_items_come_first_where_asked(run: RunDirectory) -> None:
    drawn = draw_sample(run, EVERYTHING, undecided_first=True).items
    assert [bool(item.decision) for item in drawn] == sorted(bool(item.decision) for item in drawn)
    assert {item.id for item in drawn} == {item.id for item in draw_sample(run, EVERYTHING).items}


def test_items_are_shared_out_with_an_overlap(run: RunDirectory, tmp_path: Path) -> None:
    drawn = draw_sample(run, 40, tasks=["claim"])
    shares = assign_items(drawn.items, ["anna", "ben", "cleo"], 0.25)
    held = Counter(item.id for items in shares.values() for item in items)
    assert Counter(held.values()) == {3: 10, 1: 30} and {len(items) for items in shares.values()} == {20}
    review = write_review(str(tmp_path / "set"), drawn, ["anna", "ben"], {}, annotator_page, overlap=0.25)
    page = (tmp_path / "set" / "anna.html").read_text("utf-8")
    assert sum(item.id in page for item in drawn.items) == len(review.items_by_annotator()["anna"]) == 25
    with pytest.raises(RunConflict, match=r"assigned to anna, ben with overlap 0\.25"):
        write_review(str(tmp_path / "set"), drawn, ["cleo"], {}, annotator_page, overlap=0.25)


def test_unsure_marks_are_counted_and_are_no_verdict() -> None:
    items = [item(f"i{at}", "claim", "supported") for at in range(4)]
    given = [vote for one in items[:3] for vote in votes(one, {"anna": "supported", "ben": "unsure"})]
    given += votes(items[3], {"anna": "unsure", "ben": "unsure"})
    found = measure_agreement(items, given, resamples=100)
    (tally,) = found.tallies
    assert (tally.judged, tally.unsure, tally.ties) == (3, 5, [])
    accuracy = [one for one in found.figures if (one.metric, one.keys["between"]) == ("accuracy", "consensus")]
    assert {(one.value, one.rows) for one in accuracy} == {(1.0, 3)}
    assert not any(one.keys["between"] == "pair" for one in found.figures if one.rows)


def test_the_adjudicated_mark_is_people_s_verdict(run: RunDirectory, tmp_path: Path) -> None:
    def split(name: str, item: ReviewItem) -> str:
        return "supported" if name == "anna" else "contradicted" if hashed("c", item.id) < 0.5 else "unsure"

    drawn = draw_sample(run, 30, tasks=["claim"])
    review = reviewed(tmp_path / "review", drawn, split, ["anna", "ben"])
    assert {one.item.id for one in review.disagreements()} == {item.id for item in review.items()}
    assert write_adjudication(review, "dora", annotator_page) == 30
    with pytest.raises(RunConflict, match="dora is an adjudicator"):
        write_review(str(review.root), drawn, ["anna", "dora"], {}, annotator_page)
    assert "contradicted" in (tmp_path / "review" / "dora.html").read_text("utf-8")
    with pytest.raises(StorageError, match="anna is an annotator"):
        write_adjudication(review, "anna", annotator_page)
    review = open_review(str(review.root))
    answers = [{"id": item.id, "value": "unsupported"} for item in review.items()]
    file = tmp_path / "dora.json"
    file.write_text(json.dumps({"format": 1, "review": review.digest, "annotator": "dora", "answers": answers}))
    assert import_annotations(review, [str(file)]).new == 30
    assert {pair.mark for pair in marked_pairs(review)} == {"unsupported"}


def test_label_studio_gets_tasks_and_hands_back_marks(run: RunDirectory, tmp_path: Path) -> None:
    drawn = draw_sample(run, 12, tasks=["claim"])
    review = write_review(str(tmp_path / "set"), drawn, ["anna", "ben"], {}, annotator_page)
    export_items(review, review.root / "studio")
    tasks = json.loads((tmp_path / "set" / "studio" / "claim.json").read_text("utf-8"))
    for task, one in zip(tasks, drawn.items, strict=True):
        assert task["data"]["statement"] == one.statement
    file = tmp_path / "project-1.json"
    users: list[Any] = [3, {"id": 4, "email": "Ben@example.org", "first_name": ""}]
    for number, task in enumerate(tasks):
        mark = {"from_name": "mark", "to_name": "context", "type": "choices", "id": "x"}
        done = [{**mark, "value": {"choices": ["unsure" if number == 0 else "supported"]}}]
        task["annotations"] = [{"completed_by": user, "result": done, "lead_time": 4.5} for user in users]
    remark = {"from_name": "remark", "to_name": "context", "type": "textarea", "value": {"text": ["dose?"]}}
    tasks[0]["annotations"][0]["result"].append(remark)
    tasks[1]["annotations"][0]["was_cancelled"] = True
    file.write_text(json.dumps(tasks))
    with pytest.raises(ValueError, match=r"11 annotations are by users who .* no annotators .*: 3 \(11\); .* --users"):
        import_annotations(review, [str(file)])
    assert main(["review", "import", str(review.root), str(file), "--users", "3=anna"]) == 0
    marks = {(one.annotator, one.item_id): one for one in review.annotations()}
    assert len(marks) == 23 and ("anna", drawn.items[1].id) not in marks
    first = marks["anna", drawn.items[0].id]
    assert (first.value, first.remark, first.seconds) == ("unsure", "dose?", 4.5)
    assert not first.saw_decision  # decisions are exported with --show-decisions only
    assert marks["ben", drawn.items[2].id].value == "supported"


def test_people_s_verdicts_are_pairs_for_a_verifier(
    run: RunDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    review = reviewed(tmp_path / "review", draw_sample(run, 30, tasks=["claim"]), truth, ["anna"])
    unsure = [Annotation(item.id, "ben", "claim", "unsure") for item in review.items()]
    write_records(review.root / "annotations/ben-1.parquet", unsure, Annotation)
    out = tmp_path / "pairs.jsonl"
    assert main(["review", "export", str(review.root), "--to", "pairs", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    gold = {item.statement: truth("", item) for item in review.items()}
    assert {row["statement"]: row["gold"] for row in rows} == gold
    assert all(row["text"] and row["source"] == f"review-{review.digest}" for row in rows)
    capsys.readouterr()
    told = []
    for pairs in (str(review.root), str(out)):
        assert main(["verify", "--pairs", pairs, "--resamples", "100", "--quiet", "--json"]) == 0
        told.append([one["value"] for one in json.loads(capsys.readouterr().out)["figures"]])
    assert told[0] == told[1]
