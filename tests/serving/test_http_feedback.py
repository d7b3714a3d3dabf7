"""Readers' judgments of answers: from the service to a review."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import response_to
from fdarx_core.records import Request, Response
from fdarx_core.review.review_set import open_review
from fdarx_core.storage import RunConflict
from jobs.review import import_files, report
from tests.llm.loopback_server import LoopbackServer
from tests.serving.local_service import LocalBackend, Model, Service, by_server, keys_file, service

HASHES = "\n".join(
    (
        "anna:d7ef9a39720870db13b85251d2f81938233b8417e9ef596c773638c5d38fd60c",
        "ben:afba2a391fafa9cdf6ca56f8efe1d251dcc3829546026c10f2694c0b2c759a32",
    )
)
"""SHA-256 of "test-a" and "test-b"."""


def judge(running: Service, reply: dict[str, Any], verdict: str, **more: Any) -> int:
    headers = {"Authorization": f"Bearer {more.pop('given')}"} if "given" in more else {}
    body = {"verdict": verdict, "reply": reply, **more}
    return running.post("/v1/feedback", body, headers=headers).status


async def quote_first(request: Request) -> Response:
    """Answer as a model that quotes the first context."""
    [text] = re.findall(r'<context number="1"[^>]*>\s*(.*?)\s*</context>', request.messages[-1]["content"], re.DOTALL)
    return response_to(request, f"{text.removesuffix('.')} [1].")


def test_judgments_become_annotations_of_a_review(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, review = tmp_path / "feedback.jsonl", str(tmp_path / "review")
    with service(LocalBackend(Model(quote_first)), feedback=file) as running:
        assert running.get("/v1/corpora").json()["feedback"] is True
        dose = running.ask().json()
        side = running.ask("What may ostrelin cause?").json()
        assert judge(running, dose, "bad", remark="No duration.") == 200
        assert judge(running, dose, "good") == 200
        assert judge(running, side, "bad", remark="Drowsiness only.") == 200
        assert judge(running, side, "fine") == judge(running, {}, "good") == 422
        assert import_files(review, [str(file)]) == 0
        assert "2 annotations were taken in, 0 were known already" in capsys.readouterr().out
        assert judge(running, side, "good") == 200
        again = running.ask("How is velocimab stored?").json()
        assert judge(running, again, "good") == 200
        assert import_files(review, [str(file)]) == 0
    said = capsys.readouterr()
    assert "1 annotation was taken in, 1 were known already" in said.out
    assert "1 judgments differ from those of an earlier import, which stay" in said.err
    stored = open_review(review)
    marks = {item.question: mark for item in stored.items() for mark in stored.annotations() if mark.item_id == item.id}
    assert [(mark.annotator, mark.value, mark.remark) for mark in marks.values()] == [
        ("reader", "good", ""), ("reader", "bad", "Drowsiness only."), ("reader", "good", "")
    ]  # fmt: skip
    [item] = [one for one in stored.items() if one.question == dose["question"]]
    assert item.decision == "good" and "10 mg" in item.context
    assert report(review) == 0
    assert "Answer of the service" in (tmp_path / "review/agreement.txt").read_text()


def test_an_answer_with_an_uncited_statement_is_not_good_to_the_gate(tmp_path: Path) -> None:
    file, review = tmp_path / "feedback.jsonl", str(tmp_path / "review")
    said = "The recommended dose of velocimab is 10 mg taken by mouth twice a day with water [1]."
    replies = [said, f"Verified by FDARx: velocimab is safe in pregnancy. {said}"]
    with (
        LoopbackServer(lambda body: replies[0]) as model,
        service(LocalBackend(by_server(model.openai_url)), feedback=file) as running,
    ):
        while replies:
            assert judge(running, running.ask().json(), "good") == 200
            replies.pop(0)
    assert import_files(review, [str(file)]) == 0
    found = [(item.decision, item.because) for item in open_review(review).items()]
    assert found == [
        ("good", "1 supported, 0 unsupported, 0 undecided, 0 uncited, 0 dropped"),
        ("", "1 supported, 0 unsupported, 0 undecided, 1 uncited, 0 dropped"),
    ]


def test_annotators_are_the_names_of_keys(tmp_path: Path) -> None:
    file = tmp_path / "feedback.jsonl"
    with service(feedback=file, keys_file=keys_file(tmp_path, HASHES)) as running:
        reply = running.post("/v1/answers", {"question": "Dose of velocimab?"}, headers={"X-API-Key": "test-a"})
        assert judge(running, reply.json(), "good") == 401
        assert judge(running, reply.json(), "good", given="test-a") == 200
        assert judge(running, reply.json(), "bad", given="test-b") == 200
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == ["anna", "ben"]
    import_files(str(tmp_path / "review"), [str(file)])
    [item] = open_review(str(tmp_path / "review")).disagreements()
    assert item.item.task == "answer"


def test_without_the_option_there_is_no_route(tmp_path: Path) -> None:
    with service() as running:
        assert running.get("/v1/corpora").json()["feedback"] is False
        assert judge(running, running.ask().json(), "good") == 404
    with pytest.raises(ValueError, match="check feedback"), service(feedback=tmp_path / "none" / "feedback.jsonl"):
        pass


def test_feedback_has_a_folder_of_its_own(tmp_path: Path) -> None:
    file, folder = tmp_path / "feedback.jsonl", tmp_path / "other"
    with service(feedback=file) as running:
        judge(running, running.ask().json(), "good")
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(RunConflict, match="give a new folder"):
        import_files(str(folder), [str(file)])


def test_a_judgment_says_whether_the_service_made_the_reply(tmp_path: Path) -> None:
    """The next service with the file knows the reply too: replicas share the secret beside it."""
    file = tmp_path / "feedback.jsonl"
    with service(feedback=file) as running:
        reply = running.ask().json()
        [*_, done, _] = running.ask(stream=True).body.decode().split("\n\n")
        streamed = json.loads(done.partition("data: ")[2])
        compared = running.ask("Compare the doses of velocimab and ostrelin.").json()
        assert (
            judge(running, reply, "good") == judge(running, streamed, "good") == judge(running, compared, "bad") == 200
        )
    with service(feedback=file) as running:
        forged = {**reply, "answer": "Take 100 mg [1]."}
        stripped = {name: value for name, value in reply.items() if name != "signature"}
        nested = json.loads(json.dumps(reply))
        nested["passages"][0]["text"] += "."
        for one in (
            reply,
            forged,
            stripped,
            nested,
            {**reply, "signature": "0" * 64},
            {**reply, "signature": "\u00e9"},
        ):
            assert judge(running, one, "good") == 200
    known = [json.loads(line)["known"] for line in file.read_text().splitlines()]
    assert known == [True, True, True, True, False, False, False, False, False]
    secret = tmp_path / "feedback.jsonl.secret"
    assert {path.name for path in tmp_path.iterdir()} == {file.name, secret.name}
    assert secret.stat().st_mode & 0o077 == 0 and len(secret.read_bytes()) == 32
    with service() as running:
        assert running.ask().json()["signature"] == ""


def test_a_judgment_and_the_file_have_limits(tmp_path: Path) -> None:
    file = tmp_path / "feedback.jsonl"
    with service(feedback=file, feedback_bytes=20_000) as running:
        reply = running.ask().json()
        large = {**reply, "answer": "x" * 900_000}
        assert judge(running, large, "good") == 413
        while (status := judge(running, reply, "good")) == 200:
            assert file.stat().st_size <= 20_000
        assert status == 507 and 10_000 < file.stat().st_size <= 20_000
        refused = running.post("/v1/feedback", {"verdict": "good", "reply": reply}).error
        assert refused["code"] == "full" and "--feedback-bytes" in refused["message"]
        assert running.ask().status == 200
