"""A stand-in for the service to test the web page against: its JSON and events for invented drugs, without search and
model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

PAGE = Path(__file__).parents[2] / "serving" / "page"
CSP = "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
MARKUP = '<script>window.hacked = 1</script><img src="x" onerror="window.hacked = 1">'
ANSWER = (
    "The recommended dose of velocimab tablets is 10 mg by mouth twice a day, with or without food [1]. Lower it to "
    "5 mg twice a day in patients aged 75 years or older who weigh 55 kg or less [1, 3].\n\n"
    "Do not take a missed dose together with the next one [2]."
)
REFUSAL = "The passages do not say whether velocimab tablets may be crushed."
DOSE = "DOSAGE & ADMINISTRATION > Recommended Dosage"
PASSAGES = (
    ("c1", "Velocimab tablets", DOSE, "The recommended dosage of velocimab tablets is 10 mg taken orally twice daily, "
     "with or without food. Reduce the dosage to 5 mg twice daily in patients with at least two of the following:\n"
     "- age 75 years or older\n- body weight 55 kg or less\n- serum creatinine 1.6 mg/dL or more"),
    ("c2", "Velocimab tablets", "DOSAGE & ADMINISTRATION > Missed Dose", "If a dose is missed, take it as soon as "
     "possible on the same day. Do not double the next dose to make up for a missed one."),
    ("c3", "Velocimab tablets", "USE IN SPECIFIC POPULATIONS > Geriatric Use", "Of the patients in the two studies, "
     "69% were 65 years or older and 31% were 75 years or older. No differences in effect were seen between them."),
    ("c4", "Ostrelin oral solution", "DOSAGE & ADMINISTRATION", "Shake the bottle well. Measure the dose with the "
     "syringe supplied; a household spoon does not measure it."),
)  # fmt: skip
SECTION = (
    ("c0", "Start treatment only after the bleeding risk has been judged. " * 12),
    ("c1", PASSAGES[0][3]),
    ("c5", "In patients who also take strong inhibitors of both CYP3A4 and P-gp, halve the dosage. " * 12),
)
SHARED = "Keep the bottle upright, and shake it for ten seconds before each dose. "
CHUNKS = (
    ("c6", "Store the bottle below 25 degrees. " + SHARED),
    ("c4", SHARED + PASSAGES[3][3] + " Rinse the syringe after use with clean water only."),
    ("c7", "Rinse the syringe after use with clean water only. Discard what is left after 30 days."),
)  # chunks of a document share a part of their text
NAMES = ("Velocimab tablets", "Velorin capsules", "Ostrelin oral solution", "Marvexa cream")
STRATEGIES = (
    ("question", "Only question(24)"),
    ("hypothetical_answer", "Only hypothetical answer(24)"),
    ("qa_rag", "Question(12) + Hypothetical answer(12)"),
    ("hyde", "HyDE(24)"),
    ("multiquery", "Multiquery questions(24)"),
    ("own", "A strategy of this server"),
)


def gate_report(dropped: Sequence[dict[str, str]] = (), **counts: int) -> dict[str, Any]:
    """What the gate did, with counts by verdict."""
    names = ("statements", "supported", "unsupported", "undecided", "uncited")
    return {name: counts.get(name, 0) for name in names} | {"dropped": [*dropped], "verifier": "tiny"}


@dataclass
class Behaviour:
    """How the stand-in behaves until told otherwise."""

    answer: str = ANSWER
    refused: bool = False
    withheld: bool = False
    degraded: str | None = None
    status: int = 200
    message: str = ""
    retry_after: int | None = None
    pause_s: float = 0.0
    break_after: int | None = None
    stream_error: str = ""
    key: str = ""
    corpora: int = 1
    markup: bool = False
    passage_status: int = 200
    citations: list[dict[str, Any]] | None = None
    statements: list[dict[str, Any]] | None = None
    columns: list[dict[str, Any]] = field(default_factory=list)
    gate: dict[str, Any] = field(default_factory=lambda: gate_report(statements=3, supported=3))
    standalone: str = ""
    stands_for: str = ""
    found: int = len(PASSAGES)
    names: Sequence[str] = (*NAMES, MARKUP)
    corrections: list[dict[str, str]] = field(default_factory=list)
    model: str = "tiny"


@dataclass
class PageServer:
    """What the stand-in was asked, and how it plays. `stopped` counts answers whose reader left before their end."""

    url: str = ""
    play: Behaviour = field(default_factory=Behaviour)
    asked: list[dict[str, Any]] = field(default_factory=list)
    stopped: int = 0

    def plays(self, **changes: Any) -> None:
        self.play = replace(self.play, **changes)

    async def answers(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        self.asked.append(body)
        return self._refuse(request) or StreamingResponse(self._stream(body), media_type="text/event-stream")

    async def corpora(self, request: Request) -> Response:
        labels = {"name": "labels", "kind": "labels", "version": "20250114-3f9c", "chunks": 3412, "documents": 41}
        guidelines = {
            "name": "guidelines",
            "kind": "documents",
            "version": "20250102-77aa",
            "chunks": 940,
            "documents": 404,
        }
        strategies = [{"name": name, "title": title} for name, title in STRATEGIES]
        defaults = {"corpus": "labels", "strategy": "question", "k": 6, "candidates": 24, "longest_question": 4000}
        corpora = [labels, guidelines][: self.play.corpora]
        return self._refuse(request) or _json(
            {
                "corpora": corpora,
                "feedback": False,
                "upload": [],
                "strategies": strategies,
                "defaults": defaults,
                "model": self.play.model,
            }
        )

    async def names(self, request: Request) -> Response:
        prefix = request.query_params["prefix"].casefold()
        found = [name for name in self.play.names if name.casefold().startswith(prefix)]
        about = {"stands_for": self.play.stands_for, "of_drug": request.query_params["corpus"] == "labels"}
        limit = int(request.query_params["limit"])
        return self._refuse(request) or _json({"names": [{"name": name, **about} for name in found[:limit]]})

    async def section(self, request: Request) -> Response:
        """The labels of the first drug have no text that answers a question."""
        text = "None." if request.query_params["label"] == self.play.names[0] else PASSAGES[0][3]
        return self._refuse(request) or _json({"passages": [{"text": text}]})

    async def search(self, request: Request) -> Response:
        title = orjson.loads(await request.body())["filter"]["title"]
        parts = (title, f"Question 1: When is {title} stored?", "For a year.", "Storage conditions", "Keep it dry.")
        text = "\n\n".join(parts)
        return self._refuse(request) or _json({"passages": [{"title": title, "text": text}]})

    async def filters(self, request: Request) -> Response:
        section = {"value": "34070-3", "title": "Contraindications", "labels": 41}
        labeler = {"value": "Made Pharma", "title": "Made Pharma", "labels": 12}
        return self._refuse(request) or _json({"section": [section], "document_type": [], "labeler": [labeler]})

    async def passage(self, request: Request) -> Response:
        if self.play.passage_status != 200:
            return _error(self.play.passage_status, "There is no such chunk in this version of the index.")
        chunk_id = request.path_params["chunk_id"]
        passage = next(one for one in self._passages() if one["chunk_id"] == chunk_id)
        texts = {"c1": SECTION, "c4": CHUNKS}.get(chunk_id, ((chunk_id, passage["text"]),))
        shown = {"title": passage["title"], "section": passage["section"]}
        more = MARKUP if self.play.markup else ""
        around = [shown | {"chunk_id": id_, "text": text + more, "here": id_ == chunk_id} for id_, text in texts]
        return self._refuse(request) or _json({"chunk": passage, "around": around})

    def _refuse(self, request: Request) -> Response | None:
        play = self.play
        if play.key and request.headers.get("Authorization") != f"Bearer {play.key}":
            return _error(401, "Send a key: Authorization: Bearer KEY.")
        if play.status != 200 and request.url.path == "/v1/answers":
            wait = {} if play.retry_after is None else {"Retry-After": str(play.retry_after)}
            return _error(play.status, play.message, wait)
        return None

    async def _stream(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        finished = False
        try:
            yield _event("passages", self._whole(body, answer="", statements=[], citations=[]))
            await asyncio.sleep(self.play.pause_s)
            if self.play.stream_error:
                yield _event(
                    "error", {"error": {"type": "server_error", "message": self.play.stream_error, "param": None}}
                )
                finished = True
                return
            sent = 0
            for at, piece in enumerate(_pieces(self.play.answer)):
                if at == self.play.break_after:
                    finished = True
                    return
                before, sent = sent, sent + len(piece)
                statements = [one for one in self.play.statements or [] if before < one["end"] <= sent]
                yield _event("delta", {"text": piece, "statements": statements})
                await asyncio.sleep(self.play.pause_s)
            yield _event("done", self._whole(body))
            finished = True
        finally:
            self.stopped += not finished

    def _whole(self, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
        cited = [n for n in range(1, 5) if f"[{n}" in self.play.answer or f" {n}]" in self.play.answer]
        times = {"rewrite": 0, "search": 12.4, "postprocess": 0, "answer": 1240.0, "total": 1252.4}
        usage = {"prompt_tokens": 1180, "completion_tokens": 64}
        corpus = body.get("corpus", "labels")
        whole = {
            "id": "a-1", "question": body["question"], "answer": self.play.answer, "refused": self.play.refused,
            "withheld": self.play.withheld,
            "statements": self.play.statements or [], "degraded": self.play.degraded, "passages": self._passages(),
            "citations": [*map(self._citation, cited)],
            "gate": self.play.gate, "columns": self.play.columns,
            "prompts": [{"name": "answer_with_citations", "version": 3, "model": "tiny"}],
            "corrections": self.play.corrections,
            "standalone_question": self.play.standalone or body["question"],
            "strategy": body["strategy"], "retriever": "bm25", "postprocess": "none", "searches": self._searches(body),
            "timings_ms": times, "model": "tiny", "index": {"corpus": corpus, "version": "20250114-3f9c"},
            "usage": usage,
        }  # fmt: skip
        if self.play.citations is not None:
            whole["citations"] = self.play.citations
        return whole | changes

    def _citation(self, number: int) -> dict[str, Any]:
        """The whole answer rests on the whole passage."""
        text = PASSAGES[number - 1][3]
        place = {"n": number, "start": 0, "end": len(text), "quote": text, "page": 0, "uploaded_by": ""}
        return place | {"statement_start": 0, "statement_end": len(self.play.answer), "verdict": "supported"}

    def _searches(self, body: dict[str, Any]) -> list[str]:
        draft = ["Velocimab tablets are taken twice daily; the dose depends on age and weight."]
        return [body["question"], *(draft if body["strategy"] == "qa_rag" else [])]

    def _passages(self) -> list[dict[str, Any]]:
        more = MARKUP if self.play.markup else ""
        return [
            {
                "n": at, "chunk_id": chunk_id, "document_id": f"label-{chunk_id}", "title": title + more,
                "section": section + more, "text": text + more, "drug": title + more,
                "set_id": "00000000-0000-4000-8000-000000000010", "section_code": "34068-7", "moieties": ["velocimab"],
                "labeler": "Made Pharma", "version": 3, "effective_date": "2025-01-14",
                "url": "https://dailymed.nlm.nih.gov/dailymed/drugInfo.cfm?setid=00000000-0000-4000-8000-000000000010",
                "page": 0, "uploaded_by": "", "score": 14.2 - at, "rerank": None, "cited": False,
            }
            for at, (chunk_id, title, section, text) in enumerate(PASSAGES[: self.play.found], 1)
        ]  # fmt: skip

    def app(self) -> Starlette:
        routes = [
            Route("/", lambda request: FileResponse(PAGE / "index.html", headers={"Content-Security-Policy": CSP})),
            Route("/v1/answers", self.answers, methods=["POST"]),
            Route("/v1/corpora", self.corpora),
            Route("/v1/names", self.names),
            Route("/v1/filters", self.filters),
            Route("/v1/sections", self.section),
            Route("/v1/search", self.search, methods=["POST"]),
            Route("/v1/passages/{chunk_id}", self.passage),
            Mount("/static", StaticFiles(directory=PAGE)),
        ]
        return Starlette(routes=routes)


@contextmanager
def serving() -> Iterator[PageServer]:
    """The stand-in on a free port of the loopback, from a thread of its own."""
    stand_in = PageServer()
    server = uvicorn.Server(uvicorn.Config(stand_in.app(), host="127.0.0.1", port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the stand-in server did not start"
        thread.join(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    stand_in.url = f"http://127.0.0.1:{port}/"
    yield stand_in
    server.should_exit = True
    thread.join(10)


def _pieces(text: str) -> list[str]:
    """Such as a model sends: some cut a citation in two."""
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def _json(data: dict[str, Any]) -> Response:
    return Response(orjson.dumps(data), media_type="application/json")


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body = {"error": {"type": "error", "message": message, "param": None}}
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


QUESTION = "What is the recommended dose of velocimab tablets?"


def ask(page: Page, question: str = QUESTION, state: str = "answered") -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")
    expect(page.locator("article").first).to_have_attribute("data-state", state)


def reads(answer: str) -> str:
    """An answer as the page's text has it: each citation a button."""
    return answer.replace("[1, 3]", "[1][3]")
