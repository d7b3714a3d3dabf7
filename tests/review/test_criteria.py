"""`fdarx review criteria` with a model on this machine: proposed, measured on what it never saw, then accepted."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import Criteria, ResponseStore
from fdarx_core.records.benchmark import Annotation
from fdarx_core.review.criteria import split_held_out
from fdarx_core.review.criteria_proposals import criteria_yaml
from fdarx_core.storage import Location, RunDirectory, read_records, write_records
from jobs import cli
from tests.llm.loopback_server import LoopbackServer
from tests.review.criteria_model import (
    CHANGE,
    NEW_RULE,
    REMARK,
    Model,
    make_review,
    make_run,
    models_file,
    proposal,
    voted_in,
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path)


@pytest.fixture
def review(tmp_path: Path, run: RunDirectory) -> Path:
    return Path(make_review(tmp_path, run))


@pytest.fixture
def by_model(tmp_path: Path, review: Path, server: LoopbackServer) -> list[str]:
    """The arguments by which the model proposes and judges."""
    models = models_file(tmp_path, server.openai_url)
    return [str(review), "--models", models, "--proposer", "m", "--judge", "m", "--resamples", "200"]


def role_of(arguments: list[str], role: str, name: str) -> list[str]:
    """Return the arguments with another model in a role."""
    at = arguments.index(role) + 1
    return [*arguments[:at], name, *arguments[at + 1 :]]


def data(review: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((review / "criteria.json").read_text())
    return found


def held_questions(review: Path) -> tuple[set[str], set[str]]:
    """Questions to learn from, and held-out ones."""
    learned, held = split_held_out(voted_in(str(review)), share=0.5, seed=0)
    return {one.item.question for one in learned}, {one.item.question for one in held}


def test_the_proposer_sees_remarks_but_nothing_held_out(review: Path, by_model: list[str], model: Model) -> None:
    assert cli.main(["review", "criteria", *by_model]) == 0
    learned, held = held_questions(review)
    [asked] = model.proposer
    assert held and not [question for question in held if question in asked]
    assert [question for question in learned if "scored" in question and question in asked]
    assert REMARK in asked and "[weakly_related]" in asked


def test_what_is_judged_is_held_out_alone(review: Path, by_model: list[str], model: Model) -> None:
    cli.main(["review", "criteria", *by_model])
    learned, held = held_questions(review)
    asked = [*model.relevance, *model.quality]
    assert not [question for question in learned if any(question in one for one in asked)]
    assert all(any(question in one for one in model.relevance) for question in held)


def test_each_prompt_is_asked_once(
    review: Path, by_model: list[str], server: LoopbackServer, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["review", "criteria", *by_model])
    held = len(held_questions(review)[1])
    assert (len(model.proposer), len(model.relevance), len(model.quality)) == (1, 2 * held, held)
    assert f"m was sent {3 * held} requests" in capsys.readouterr().out
    assert set(server.by_prompt.values()) == {1}
    cli.main(["review", "criteria", *by_model])
    assert len(server.calls) == 1 + 3 * held
    assert "m was sent 0 requests" in capsys.readouterr().out


def test_what_the_run_was_answered_is_not_asked_again(
    tmp_path: Path, review: Path, run: RunDirectory, by_model: list[str], model: Model
) -> None:
    cli.main(["review", "criteria", *by_model])
    earlier = ResponseStore(run.file("responses"))
    earlier.take_over(ResponseStore(type(run.root)(review / "responses")))
    for file in (review / "responses").rglob("*.parquet"):
        file.unlink()
    model.relevance.clear()
    model.quality.clear()
    cli.main(["review", "criteria", *by_model])
    assert not model.relevance and not model.quality


def test_both_agreements_and_what_changed(
    review: Path, by_model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["review", "criteria", *by_model])
    told, found = capsys.readouterr().out, data(review)
    held = held_questions(review)[1]
    scored, colored = ([one for one in held if word in one] for word in ("scored", "color"))
    assert {(one["item"][:1], one["effect"]) for one in found["moved"]} == {("r", "fixed"), ("r", "broken")}
    assert sum(one["effect"] == "fixed" for one in found["moved"]) == len(scored)
    assert sum(one["effect"] == "broken" for one in found["moved"]) == len(colored)
    figures = {(one["task"], one["metric"]): one for one in found["measured"]}
    accuracy = figures["relevance", "accuracy"]
    assert accuracy["old"]["value"] == pytest.approx(1 - len(scored) / len(held))
    assert accuracy["new"]["value"] == pytest.approx(1 - len(colored) / len(held))
    assert accuracy["difference"]["value"] == pytest.approx((len(scored) - len(colored)) / len(held))
    assert accuracy["difference"]["low"] < accuracy["difference"]["value"] < accuracy["difference"]["high"]
    assert figures["quality", "accuracy"]["difference"]["value"] == 0
    assert all(one["item"] in told for one in found["moved"])
    assert told.endswith(
        (review / "criteria.txt").read_text() + f"\nTo accept it: fdarx review criteria {review} --accept FILE\n"
    )


def test_the_proposal_is_a_file_and_a_diff(review: Path, by_model: list[str]) -> None:
    cli.main(["review", "criteria", *by_model])
    assert NEW_RULE in " ".join((review / "criteria.proposed.yaml").read_text().split())
    lines = (review / "criteria.diff").read_text().splitlines()
    assert "+  - id: scoring" in lines
    assert not [line for line in lines if line.startswith("-") and not line.startswith("---")]


def test_what_a_judge_fails_on_is_unscored(
    review: Path, by_model: list[str], model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    model.mute_on = sorted(held_questions(review)[1])[0]
    cli.main(["review", "criteria", *by_model])
    [accuracy] = [one for one in data(review)["measured"] if (one["task"], one["metric"]) == ("relevance", "accuracy")]
    held = len(held_questions(review)[1])
    assert (accuracy["old"]["rows"], accuracy["new"]["rows"], accuracy["unscored"]) == (held - 1, held - 1, 1)
    assert "1 more unscored" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Let me think about it.", "invalid_json"),
        ('{"changes": [{"action": "add"}]}', "wrong_shape"),
        (proposal(CHANGE | {"id": "decision"}), "there is a rule of that id"),
        (proposal(CHANGE | {"action": "change"}), "known rules are decision"),
        (proposal(CHANGE | {"id": "Two words"}), "id: String should match"),
        (proposal(CHANGE | {"text": "  "}), "text: String should have at least 1 character"),
        (proposal(CHANGE | {"text": "word " * 400}), "1999 characters"),
        (proposal(CHANGE | {"text": "Hide\u200bden."}), "can't be printed"),
        (proposal(CHANGE | {"applies_to": []}), "applies_to: List should have at least 1 item"),
        (proposal(CHANGE | {"applies_to": ["grade_answer"]}), "applies_to names ['grade_answer']"),
        (proposal(CHANGE, CHANGE), "an earlier change is to the same rule"),
        (
            proposal(*({"action": "remove", "id": one, "text": "", "applies_to": [], "why": ""}
                       for one in ("decision", "equivalence", "safe_use", "weakly_related", "outside_labels"))),
            "no rule applies to ['judge_relevance']",
        ),
    ],
)  # fmt: skip
def test_a_malformed_proposal_is_refused_with_the_reason(
    review: Path, by_model: list[str], model: Model, capsys: pytest.CaptureFixture[str], reply: str, said: str
) -> None:
    model.reply = reply
    with pytest.raises(SystemExit) as stopped:
        cli.main(["review", "criteria", *by_model, "--quiet"])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and said in error and error.count("\n") == 1
    assert not (review / "criteria.proposed.yaml").exists() and not model.relevance


def test_no_change_is_an_answer(
    review: Path, by_model: list[str], model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    model.reply = proposal()
    assert cli.main(["review", "criteria", *by_model]) == 0
    assert "No change is proposed." in capsys.readouterr().out
    assert not (review / "criteria.json").exists()


def test_without_rejections_nobody_is_asked(
    review: Path, by_model: list[str], server: LoopbackServer, capsys: pytest.CaptureFixture[str]
) -> None:
    [file] = (review / "annotations").iterdir()
    votes = [
        replace(one, value="fit", remark="")
        for one in read_records(Location(file), Annotation)
        if one.task == "quality"
    ]
    write_records(Location(file), votes, Annotation)
    with pytest.raises(SystemExit):
        cli.main(["review", "criteria", *by_model])
    assert "nothing to propose from" in capsys.readouterr().err and not server.calls


def test_votes_are_needed(review: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [file] = (review / "annotations").iterdir()
    file.unlink()
    with pytest.raises(SystemExit):
        cli.main(["review", "criteria", str(review)])
    assert "fdarx review import" in capsys.readouterr().err


@pytest.mark.parametrize("role", ["--proposer", "--judge"])
def test_an_unknown_model_stops_before_anything(
    review: Path, by_model: list[str], role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["review", "criteria", *role_of(by_model, role, "n")])
    assert f"{role} n: there is no such model; known are baseline, m" in capsys.readouterr().err
    assert not (review / "criteria.table.csv").exists()


def test_a_proposal_without_a_judge_is_not_measured(
    review: Path, by_model: list[str], model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["review", "criteria", *role_of(by_model, "--judge", "baseline")]) == 0
    assert "Not measured: the built-in rules read no criteria" in capsys.readouterr().out
    assert not model.relevance and data(review)["measured"] == []


def test_a_run_by_other_criteria_begins_from_them(tmp_path: Path, by_model: list[str], run: RunDirectory) -> None:
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    info["config"]["criteria"] = "a digest"
    (tmp_path / "run" / "run.json").write_text(json.dumps(info))
    theirs = criteria_yaml(Criteria.load()).replace("Useful questions bear on a decision", "A text of the run's own")
    (tmp_path / "run" / "criteria.yaml").write_text(theirs)
    cli.main(["review", "criteria", *by_model])
    assert "A text of the run's own" in (tmp_path / "review" / "criteria.proposed.yaml").read_text()


def test_rules_make_the_table_alone(review: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["review", "criteria", str(review)]) == 0
    assert "word no criteria" in capsys.readouterr().out
    rows = list(csv.DictReader((review / "criteria.table.csv").open()))
    learned = [question for question in held_questions(review)[0] if "scored" in question]
    [row] = rows
    assert (row["task"], row["judge"], row["judge_said"], row["people_said"]) == (
        "relevance", "judge_relevance", "somewhat", "relevant",
    )  # fmt: skip
    assert int(row["items"]) == len(learned) and REMARK in row["remarks"]
    assert not [question for question in held_questions(review)[1] if question in row["questions"]]


def filled_in(review: Path, tmp_path: Path, **cells: str) -> str:
    """The table with these cells in its first row, saved elsewhere."""
    cli.main(["review", "criteria", str(review)])
    [head, first, *others] = csv.reader((review / "criteria.table.csv").open())
    file = tmp_path / "filled.csv"
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        csv.writer(stream).writerows([head, list((dict(zip(head, first, strict=True)) | cells).values()), *others])
    return str(file)


def test_a_table_filled_in_by_hand_is_measured(tmp_path: Path, review: Path, by_model: list[str], model: Model) -> None:
    cells = {"action": "Add", "id": "scoring", "text": NEW_RULE, "applies_to": "judge_relevance; judge_quality_factual"}
    table = filled_in(review, tmp_path, **cells)
    models = by_model[: by_model.index("--proposer")]
    assert cli.main(["review", "criteria", *models, "--judge", "m", "--table", table]) == 0
    assert not model.proposer and model.relevance
    [change] = data(review)["changes"]
    assert change["applies_to"] == ["judge_relevance", "judge_quality_factual"]
    assert len(model.quality) == 2 * len(held_questions(review)[1])


def test_a_table_filled_in_where_it_stands_is_not_lost(
    tmp_path: Path, review: Path, by_model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    table = review / "criteria.table.csv"
    Path(filled_in(review, tmp_path, why="half done")).rename(table)
    before = table.read_bytes()
    with pytest.raises(SystemExit):
        cli.main(["review", "criteria", *by_model])
    assert "has been filled in" in capsys.readouterr().err
    assert cli.main(["review", "criteria", str(review), "--table", str(table)]) == 0
    assert table.read_bytes() == before


def test_a_table_that_shows_what_is_held_out_is_refused(
    tmp_path: Path, review: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = filled_in(review, tmp_path, action="remove", id="weakly_related")
    with pytest.raises(SystemExit):
        cli.main(["review", "criteria", str(review), "--table", table, "--seed", "1"])
    assert "another --seed" in capsys.readouterr().err


def test_a_table_in_another_encoding_is_refused(
    tmp_path: Path, review: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_bytes("action,id\nadd,\u00e4".encode("latin-1"))
    with pytest.raises(SystemExit):
        cli.main(["review", "criteria", str(review), "--table", str(tmp_path / "t.csv")])
    assert "save it as CSV in UTF-8" in capsys.readouterr().err


def test_a_table_filled_in_wrongly_names_the_row(
    tmp_path: Path, review: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = filled_in(review, tmp_path, action="improve")
    with pytest.raises(SystemExit):
        cli.main(["review", "criteria", str(review), "--table", table])
    assert f"{table}, row 2: action:" in capsys.readouterr().err


def test_a_person_accepts_into_a_new_file(
    tmp_path: Path, review: Path, by_model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["review", "criteria", *by_model])
    file = tmp_path / "ours.yaml"
    assert cli.main(["review", "criteria", str(review), "--accept", str(file)]) == 0
    text = file.read_text()
    assert text.startswith("# Accepted from review d1.\n# Relevance: accuracy 0.")
    assert text.endswith((review / "criteria.proposed.yaml").read_text())
    with pytest.raises(SystemExit):
        cli.main(["review", "criteria", str(review), "--accept", str(file)])
    assert "exists already" in capsys.readouterr().err


def test_an_edited_proposal_is_accepted_without_figures(tmp_path: Path, review: Path, by_model: list[str]) -> None:
    cli.main(["review", "criteria", *by_model])
    proposed = review / "criteria.proposed.yaml"
    proposed.write_text(proposed.read_text().replace("A question on a score line", "Whatever asks for a score line"))
    cli.main(["review", "criteria", str(review), "--accept", str(tmp_path / "ours.yaml")])
    assert "never measured as it is" in (tmp_path / "ours.yaml").read_text()


def test_nothing_to_accept(review: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["review", "criteria", str(review), "--accept", str(tmp_path / "ours.yaml")])
    assert "has no proposal" in capsys.readouterr().err
