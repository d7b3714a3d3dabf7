"""`fdarx factuality` as a user types it: with the built-in rules, a model on a server, PubMed, one that fails."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.records import CheckedAnswer, Claim, Evidence, Figure, PairVerdict, Reject, SafetyFlag
from fdarx_core.storage import Location, RunDirectory, read_records
from tests.factuality.entrez_server import EntrezServer, Paper
from tests.jobs.answering_files import answer_all
from tests.jobs.checking import NO_ANSWERS, PASSAGES, QUESTIONS, WRONG, lines, made, made_files, score, scores
from tests.jobs.evaluating import models_file, rows_of
from tests.jobs.in_process import run_job
from tests.labels.rrf import RXNCONSO, RXNREL
from tests.llm.loopback_server import Fault, LoopbackServer, text_of

pytestmark = pytest.mark.service


def respond(body: Mapping[str, Any]) -> str:
    """As a model for which the whole answer is one claim, and a judge whom every first passage convinces."""
    prompt = text_of(body["messages"][-1])
    if body["response_format"]["json_schema"]["name"] == "extract_claims":
        found = re.search(r"<answer>\s*(.+?)\s*</answer>", prompt, re.DOTALL)
        assert found
        return json.dumps({"claims": [{"quote": found[1], "claim": found[1]}]})
    if body["response_format"]["json_schema"]["name"] == "check_safety":
        found = re.search(r"<answer>\s*(.+?)\s*</answer>", prompt, re.DOTALL)
        forbids = re.search(r"TELVANTO is contraindicated[^.]+", prompt)
        assert found and forbids
        quotes = ((found[1], forbids[0]), (found[1], "It is allowed."))
        said = [{"kind": "contraindication", "answer_quote": ours, "label_quote": label} for ours, label in quotes]
        return json.dumps({"statements": said, "dose_missing": False})
    shown = len(re.findall("<passage number=", prompt))
    said = [
        {"passage": n, "reason": "made", "verdict": "supported" if n == 1 else "unsupported"}
        for n in range(1, shown + 1)
    ]
    return json.dumps({"verdicts": said})


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    return made_files(tmp_path_factory.mktemp("factuality"), *NO_ANSWERS)


@pytest.fixture(scope="module")
def by_rules(options: list[object], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("rules") / "run"
    done = score(out, *options)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(respond) as running:
        yield running


def test_what_evidence_says_is_told(by_rules: tuple[Path, str]) -> None:
    out, _ = by_rules
    found = scores(out)
    dose, _, teratogenic, *_ = QUESTIONS
    assert (found["careful", dose].supported, found["careful", dose].contradicted) == (1, 0)
    assert (found["careless", dose].supported, found["careless", dose].undecided_claims) == (0, 1)
    assert (found["careless", teratogenic].contradicted, found["careless", teratogenic].undecided_claims) == (0, 2)
    assert found["careless", QUESTIONS[4]].outcome == "refused" and found["careless", QUESTIONS[4]].fas is None
    assert (found["careful", dose].completeness, found["careless", dose].completeness) == (1, None)
    assert all(
        row.rouge_l == 1 and row.fas and row.fas > 0.9 for (model, _), row in found.items() if model == "careful"
    )


def test_a_run_holds_all_that_was_found(by_rules: tuple[Path, str]) -> None:
    out, printed = by_rules
    claims = {row.id: row for row in rows_of(out, "claims", Claim)}
    evidence = {row.id for row in rows_of(out, "evidence", Evidence)}
    pairs = rows_of(out, "pairs", PairVerdict)
    assert {pair.kind for pair in pairs} == {"evidence", "reference", "must_have", "nice_to_have", "all_statements"}
    assert {pair.claim_id for pair in pairs} - {""} == set(claims)
    assert {pair.evidence_id for pair in pairs} - {""} <= evidence
    metrics = json.loads((out / "metrics.json").read_text())
    assert {
        "support@5",
        "contra@5",
        "unsupported",
        "fas[token_f1]",
        "rouge_l",
        "bleu_4",
        "spearman",
        "figures",
    } <= metrics.keys()
    assert metrics["spearman"]["fas[token_f1]"] is None  # quotation decides on too few answers
    related = list(read_records(Location(out) / "correlations.parquet", Figure))
    assert {"full", "single", "no_retrieval"} <= {one.keys["configuration"] for one in related}
    info = json.loads((out / "run.json").read_text())
    assert info["method"]["similarity"] == "token_f1" and info["method"]["threshold"] == 0.7
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert "Table 1." in printed and f"open {out}/report.html" in printed


def untimed(out: Path) -> str:
    """The page without how long publishing and the run took, which end after it is drawn."""
    return re.sub(r"<div><dt>publish</dt>.*</div>\n|\btook \d+ min \d+ s", "", (out / "report.html").read_text())


def test_a_complete_run_is_told_again_and_its_page_redrawn(by_rules: tuple[Path, str], options: list[object]) -> None:
    out, printed = by_rules
    again = score(out, *options)
    assert (again.returncode, "complete already" in again.stderr) == (0, True)
    assert again.stdout == printed
    page = untimed(out)
    (out / "report.html").unlink()
    assert run_job("report", out).returncode == 0
    assert untimed(out) == page


def test_rows_that_are_no_answers_are_kept_as_rejects(by_rules: tuple[Path, str]) -> None:
    out, _ = by_rules
    rejects = Counter((one.stage, one.reason) for one in rows_of(out, "rejects", Reject))
    reasons = ("no_answer", "no_question", "not_json")
    assert rejects == {("evidence", "no_text"): 1, **{("predictions", reason): 2 for reason in reasons}}
    info = json.loads((out / "run.json").read_text())
    assert info["intake"]["rows"] == info["intake"]["answers"] + info["intake"]["rejects"] == 12 + 6
    assert len(rows_of(out, "answers", CheckedAnswer)) == info["intake"]["answers"]
    assert (info["references"]["questions"], info["references"]["matched"], info["evidence_rejects"]) == (6, 6, 1)


def test_a_model_on_a_server(tmp_path: Path, options: list[object], server: LoopbackServer) -> None:
    out = tmp_path / "run"
    named = ("--models", models_file(tmp_path, server.openai_url, {"name": "m"}), "--claims", "m")
    named += ("--entailment", "m", "--compare-entailment", "exact")  # type: ignore[assignment]
    planned = score(out, *options, *named, "--plan")
    assert (planned.returncode, server.number, out.exists()) == (0, 0, False), planned.stderr
    assert "extract_claims" in planned.stdout and "judge_claim" in planned.stdout
    done = score(out, *options, *named)
    assert done.returncode == 0, done.stderr
    # the model supports every claim, but one with another number than its passage is undecided
    answered = [row for row in scores(out).values() if row.outcome == "answered"]
    assert {row.support for row in answered} == {None, 1}
    assert all(row.undecided_claims == row.claims for row in answered if row.support is None)
    assert {row.engine for row in rows_of(out, "pairs", PairVerdict)} == {"m", "exact"}
    related = list(read_records(Location(out) / "correlations.parquet", Figure))
    assert "exact" in {one.keys["configuration"] for one in related}
    asked, rows = server.number, made(out)
    assert max(server.by_prompt.values()) == 1, "what several answers ask alike is asked once"
    reused = score(tmp_path / "reused", *options, *named, "--reuse", out)
    assert (reused.returncode, server.number) == (0, asked), reused.stderr
    assert made(tmp_path / "reused") == rows


def test_a_model_by_batch_files(tmp_path: Path, options: list[object], server: LoopbackServer) -> None:
    direct, out, folder = tmp_path / "direct", tmp_path / "run", tmp_path / "files"
    named = ("--models", models_file(tmp_path, server.openai_url, {"name": "m"}), "--claims", "m", "--entailment", "m")
    assert score(direct, *options, *named).returncode == 0
    asked, answered, code = server.number, 0, 3
    while code == 3 and answered <= asked:
        code = score(out, *options, *named, "--batch-files", folder).returncode
        answered += answer_all(folder, respond)
    assert (code, answered, server.number) == (0, asked, asked)
    assert made(out) == made(direct)


def test_what_fails_for_now_is_no_verdict_and_asked_again(
    tmp_path: Path, options: list[object], server: LoopbackServer
) -> None:
    out = tmp_path / "run"
    broken = {"on": True}
    server.faults = lambda call: Fault(status=500) if broken["on"] and "80 mg" in str(call.body) else None
    named = ("--models", models_file(tmp_path, server.openai_url, {"name": "m"}), "--entailment", "m")
    done = score(out, *options, *named)
    assert done.returncode == 3, done.stderr
    assert "failed for now" in done.stderr
    row = scores(out)["careless", QUESTIONS[0]]
    assert (row.unscored_claims, row.unsupported_claims, row.support, row.fas) == (1, 0, None, None)
    broken["on"] = False
    before = server.number
    done = score(out, *options, *named)
    assert done.returncode == 0, done.stderr
    assert 0 < server.number - before < 8
    assert scores(out)["careless", QUESTIONS[0]].unscored_claims == 0


def test_a_wrong_key_is_one_error_without_a_report(
    tmp_path: Path, options: list[object], server: LoopbackServer
) -> None:
    server.faults = lambda call: Fault(status=401, error={"message": "Incorrect API key provided"})
    models = models_file(tmp_path, server.openai_url, {"name": "m"})
    done = score(tmp_path / "run", *options, "--models", models, "--claims", "m", "--quiet")
    assert done.returncode == 3 and done.stdout == ""
    assert "set key_env: " in done.stderr.splitlines()[-1] and done.stderr.count("model m") == 1
    assert not (tmp_path / "run/report.html").exists()


def test_pubmed_is_asked_once(tmp_path: Path, options: list[object]) -> None:
    papers = [Paper(str(100 + at), f"On {text.split()[0]}.", text, 2020) for at, text in enumerate(PASSAGES)]
    given = [one for one in options if not str(one).startswith(("--evidence", "file:"))]
    with EntrezServer(papers) as entrez:
        named = ("--evidence", "pubmed", "--pubmed-url", entrez.url, "--k", 3, "--sample", 2)
        done = score(tmp_path / "run", *given, *named)
        assert done.returncode == 0, done.stderr
    assert {row.source for row in rows_of(tmp_path / "run", "evidence", Evidence)} == {"pubmed", "none"}
    asked = json.loads((tmp_path / "run" / "run.json").read_text())["asked"]
    claims = {row.resolved for row in rows_of(tmp_path / "run", "claims", Claim)}
    assert [(one["task"], one["endpoint"]) for one in asked] == [("search_pubmed", "pubmed")]
    assert asked[0]["requests"] == len(claims), "a claim of both models is searched for once"
    assert len(scores(tmp_path / "run")) == 4, "two questions, two models"


def test_verdicts_by_several_sources(tmp_path: Path, options: list[object], example_build: Path) -> None:
    """One claim is borne out by the file alone, one by PubMed alone, one by no source; each passage has its source."""
    out, given = tmp_path / "run", [one for one in options if not str(one).startswith(("--evidence", "file:"))]
    texts = lines(tmp_path / "texts.jsonl", [{"text": text, "id": f"t{at}"} for at, text in enumerate(PASSAGES[:3])])
    papers = [Paper(str(100 + at), f"On {text.split()[0]}.", text, 2020) for at, text in enumerate(PASSAGES[3:])]
    sources = ("--evidence", f"file:{texts}", "pubmed", f"labels:{example_build}")
    with EntrezServer(papers) as entrez:
        done = score(out, *given, *sources, "--pubmed-url", entrez.url, "--k", 2)
        assert done.returncode == 0, done.stderr
        resumed = score(out, *given, *sources, "--pubmed-url", entrez.url, "--k", 2)
        assert resumed.returncode == 0, resumed.stderr
        other = score(out, *given, *sources[:3], "--pubmed-url", entrez.url, "--k", 2)
        assert other.returncode == 2 and "evidence" in other.stderr
    pairs = Counter((row.claim_id, row.rank) for row in rows_of(out, "pairs", PairVerdict) if row.kind == "evidence")
    assert {rank for _, rank in pairs} == {1, 2} and max(pairs.values()) == 3, "k passages of each source"
    claims = RunDirectory.open(str(out)).claims()
    decided = claims[claims["verdict"] == "supported"].set_index("claim")
    assert set(decided.loc[PASSAGES[1], "source"]) == {"file"} and set(decided.loc[PASSAGES[1], "place"]) == {"t1"}
    assert set(decided.loc[PASSAGES[3], "source"]) == {"pubmed"} and decided.loc[PASSAGES[4], "place"] == "101"
    assert (claims[claims["verdict"] == "undecided"]["claim"] == WRONG[0]).any()
    written = claims.to_json(orient="records", lines=True), claims.to_csv()
    assert all('"pubmed"' in text or ",pubmed," in text for text in written)
    page = (out / "report.html").read_text()
    assert (
        "Rows of a file; abstracts of PubMed; passages of the label" in page and "best passages of each source" in page
    )

    answer = next(row for row in rows_of(out, "answers", CheckedAnswer) if row.answer == PASSAGES[4])
    shown, told = run_job("show", out, answer.id), run_job("show", out, answer.question_id, "--json")
    assert f"decided by pubmed: On Store., 101\n    | {PASSAGES[4]}" in shown.stdout
    by_model = {one["answer"]["model"]: one["claims"] for one in json.loads(told.stdout)["answers"]}
    assert by_model["careful"][0]["source"] == "pubmed" and by_model["careless"] == []
    listed = run_job("show", out)
    assert answer.id in listed.stdout and f"{out}/report.html has all of them" in listed.stdout
    missing = run_job("show", out, "0123")
    assert missing.returncode == 2 and "has no question or answer '0123'" in missing.stderr


def test_other_answers_under_the_same_names_are_another_run(by_rules: tuple[Path, str], options: list[object]) -> None:
    out, _ = by_rules
    other = score(out, *options, "--threshold", 0.8)
    assert other.returncode == 2 and "threshold" in other.stderr
    fewer = [one for one in options if "careless" not in str(one)]
    other = score(out, *fewer)
    assert other.returncode == 2 and "answers: was" in other.stderr


def test_a_judge_checks_answers_against_the_label_of_a_drug_that_rxnorm_names(
    tmp_path: Path, example_build: Path, server: LoopbackServer
) -> None:
    question = "Can a patient with severe hepatic impairment take Ortabrand?"
    answers = lines(tmp_path / "m.jsonl", [{"question": question, "answer": "Yes, Ortabrand can be taken."}])
    named = ["--predictions", answers, "--evidence", f"labels:{example_build}"]
    unchecked = score(tmp_path / "unchecked", *named)
    assert unchecked.returncode == 0 and "Not checked: no judge model." in unchecked.stdout
    assert "Not checked: no judge model." in (tmp_path / "unchecked" / "report.html").read_text()
    named += ["--models", models_file(tmp_path, server.openai_url, {"name": "m"}), "--entailment", "m"]
    assert score(tmp_path / "without", *named).returncode == 0
    assert rows_of(tmp_path / "without", "flags", SafetyFlag) == []
    names = tmp_path / "names"
    names.mkdir()
    (names / "RXNCONSO.RRF").write_text(RXNCONSO)
    (names / "RXNREL.RRF").write_text(RXNREL)
    planned = score(tmp_path / "run", *named, "--rxnorm", names, "--plan")
    assert planned.returncode == 0 and "check_safety" in planned.stdout
    done = score(tmp_path / "run", *named, "--rxnorm", names)
    assert done.returncode == 0, done.stderr
    [flag] = rows_of(tmp_path / "run", "flags", SafetyFlag)
    assert (flag.kind, flag.drug, flag.subject) == ("contraindication", "TELVANTO", "CONTRAINDICATIONS")
    assert "1 flag; 1 more is dropped" in done.stdout
    refused = score(tmp_path / "none", "--predictions", answers, "--evidence", f"file:{answers}", "--rxnorm", names)
    assert (refused.returncode, "need labels: give --safety" in refused.stderr) == (2, True)
