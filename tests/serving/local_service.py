"""A small world in this process: two invented corpora, searched for real, and a model that tests choose."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import aiohttp
import orjson
import uvicorn

from fdarx_core.documents.isolated import ParsingLimits
from fdarx_core.llm import Baseline, HttpEndpoint, ModelConfig, response_to
from fdarx_core.pipeline.uploading import UploadedDocuments, UploadIndexer
from fdarx_core.rag.search import Role, SearchQuery, TaskCall
from fdarx_core.rag.tasks import QUESTION_SCOPE, RAG_RULES_VERSION, RAG_TASKS
from fdarx_core.rag.verifying import named_engine
from fdarx_core.records import Chunk, LabelVersion, Request, Response
from fdarx_core.retrieval.encoders import Vectors
from fdarx_core.retrieval.index import IndexReader, IndexStore
from fdarx_core.specs.serve import ServiceSettings
from serving.backend import RayServeBackend
from serving.http.app import make_app
from serving.http.backend import ServedCorpus, Unavailable
from serving.model_clients import ModelClients
from serving.questions import QuestionAnswering
from serving.retriever import CorpusStore
from tests.rag.class_labels import class_chunks
from tests.rag.found import disagreeing_labels
from tests.rag.scopes import NAMED

HTML = "<script>alert('x')</script> & <b>bold</b>"
_LABELS = (
    ("Velocimab", "DOSAGE", "The recommended dose of velocimab is 10 mg taken by mouth twice a day with water."),
    ("Velocimab", "DOSAGE", "If a dose of velocimab is missed, take it on the same day and never take two together."),
    ("Velocimab", "STORAGE", f"Velocimab tablets are stored below 25 degrees in their bottle. {HTML}"),
    ("Ostrelin", "DOSAGE", "Shake the bottle of ostrelin well and measure each dose with the syringe supplied."),
    ("Ostrelin", "WARNINGS", "Ostrelin may cause severe drowsiness; patients do not drive after a dose of ostrelin."),
)
_SECTION_CODES = {"DOSAGE": "34068-7", "STORAGE": "44425-7", "WARNINGS": "34071-1"}
_VERSIONS = {
    "Velocimab": LabelVersion(
        2, "2020-05-01", "34391-3", "Maker of Velocimab", document_type_name="HUMAN PRESCRIPTION DRUG LABEL"
    ),
    "Ostrelin": LabelVersion(
        1, "2024-02-01", "34390-5", "Maker of Ostrelin", document_type_name="HUMAN OTC DRUG LABEL"
    ),
}
_GUIDES = (
    ("Stability of tablets", "Stability studies of tablets run for twelve months at 25 degrees and 60 % humidity."),
    ("Stability of tablets", "Accelerated stability studies run for six months at 40 degrees and 75 % humidity."),
    ("Sterile products", "Sterile products are filled in an area that is monitored for particles at all times."),
)


@dataclass(frozen=True)
class Model:
    """Someone who answers requests."""

    ask: Callable[[Request], Awaitable[Response]]
    name: str = "loopback"
    sampling: Mapping[str, Any] = field(default_factory=dict)


def label_chunks() -> list[Chunk]:
    return [
        Chunk(
            *(f"l{n}", f"set-{drug}", drug, "/srv/labels.zip!label.xml", section, text, n, -1, f"set-{drug}", drug),
            section_code=_SECTION_CODES[section],
            label=_VERSIONS[drug],
        )
        for n, (drug, section, text) in enumerate(_LABELS)
    ]


def guide_chunks() -> list[Chunk]:
    return [
        Chunk(f"g{n}", f"doc-{title}", title, "guides.txt", "", text, n, 0) for n, (title, text) in enumerate(_GUIDES)
    ]


_CORPORA: dict[str, Callable[[], list[Chunk]]] = {
    "labels": label_chunks,
    "guides": guide_chunks,
    "disagreeing": disagreeing_labels,
    "classes": class_chunks,
}


@cache
def opened(kind: str) -> IndexReader:
    """Over a real index, written and read back."""
    with tempfile.TemporaryDirectory() as folder:
        store = IndexStore(folder)
        store.commit([store.write_segment(_CORPORA[kind]())])
        return IndexReader.open(folder)


@cache
def by_rules() -> Model:
    """The baseline."""
    endpoint = Baseline(RAG_TASKS, RAG_RULES_VERSION)

    async def ask(request: Request) -> Response:
        return endpoint.answer([request])[0]

    return Model(ask, endpoint.name)


async def _tell_dose(request: Request) -> Response:
    return response_to(request, "It is 10 mg twice a day [1].")


BY_MODEL = Model(_tell_dose)
"""A model that has one answer."""


def by_server(url: str, **more: Any) -> Model:
    """A model on a server."""
    config = ModelConfig(name="loopback", model="m", base_url=url, **more)
    endpoint = HttpEndpoint(config)
    return Model(endpoint.ask, endpoint.name, endpoint.sampling)


@dataclass
class LocalBackend(QuestionAnswering):
    """`hold` delays each search and model's reply; `search_fault` is raised by searches; `cancelled` counts.

    The model is asked which labels a question is about only with `asks_scope`: most tests count what it is asked.

    The corpora of `store`, at `places`, take documents; the others are invented.
    """

    model: Model = field(default_factory=by_rules)
    names_of_corpora: Sequence[str] = ("labels", "guides")
    max_context_characters: int | None = None
    postprocessors: Sequence[str] = ("none", "score")
    hypothesis: str = "baseline"
    asks_scope: bool = False
    hold: float = 0.0
    search_fault: Unavailable | None = None
    missing: dict[str, str] = field(default_factory=dict)
    store: CorpusStore | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    limits: ParsingLimits = field(default_factory=ParsingLimits)
    indexer: UploadIndexer | None = None
    asked: Counter[str] = field(default_factory=Counter)
    cancelled: Counter[str] = field(default_factory=Counter)

    def opened(self, corpus: str) -> IndexReader:
        return self.store.loaded[corpus].index if self.store and corpus in self.places else opened(corpus)

    async def add_documents(self, corpus: str, client: str, name: str, data: bytes) -> UploadedDocuments:
        assert self.store
        self.indexer = self.indexer or UploadIndexer(self.limits)
        added = await self.indexer.add(self.places[corpus], client, name, data)
        await asyncio.to_thread(self.store.reload)
        return added

    def close(self) -> None:
        if self.indexer:
            self.indexer.close()
        self.indexer = None

    def __post_init__(self) -> None:
        self.answerer, self.models = self.model.name, cast(ModelClients, self)

    def corpora(self) -> Mapping[str, ServedCorpus]:
        served = {}
        for name in self.names_of_corpora:
            index, kind = self.opened(name), "documents" if name == "guides" else "labels"
            counts = index.manifest.chunks, index.manifest.documents
            served[name] = ServedCorpus(name, index.version, kind, *counts, index.retrievers)  # type: ignore[arg-type]
        return served

    async def ready(self) -> Mapping[str, str]:
        return self.missing

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        model = self.model
        if not self.asks_scope and calls[0][0] == QUESTION_SCOPE:
            return [response_to(task.request(slots, endpoint=model.name), NAMED) for task, slots in calls]
        async with _Counted(self, role):
            await asyncio.sleep(self.hold)
            requests = [task.request(slots, endpoint=model.name, sampling=model.sampling) for task, slots in calls]
            return list(await asyncio.gather(*map(model.ask, requests)))

    async def stream(self, role: Role, call: TaskCall) -> AsyncGenerator[str | Response, None]:
        [response] = await self.ask(role, [call])
        for place in range(0, len(response.text), 7):
            yield response.text[place : place + 7]
            await asyncio.sleep(0)
        yield response

    def index_of(self, corpus: str) -> IndexReader:
        if self.search_fault:
            raise self.search_fault
        return self.opened(corpus)

    async def encode(self, queries: Sequence[SearchQuery]) -> Vectors:
        raise NotImplementedError

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        raise Unavailable("the reranker")


@dataclass
class _Counted:
    world: LocalBackend
    role: str

    async def __aenter__(self) -> None:
        self.world.asked[self.role] += 1

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is asyncio.CancelledError:
            self.world.cancelled[self.role] += 1


@dataclass
class CountingMetrics:
    """Counts the metrics that the application records."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    rejections: Counter[str] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)
    most_in_flight: int = 0
    now_in_flight: int = 0

    def __call__(self, name: str, value: float = 1, **labels: str) -> None:
        match name:
            case "fdarx_requests":
                self.requests[labels["path"], int(labels["status"])] += 1
            case "fdarx_phase_seconds":
                self.phases[labels["phase"]] += 1
            case "fdarx_in_flight":
                self.now_in_flight = int(value)
                self.most_in_flight = max(self.most_in_flight, self.now_in_flight)
            case "fdarx_degraded":
                self.reasons[labels["reason"]] += 1
            case "fdarx_gate_statements":
                self.statements[labels["outcome"]] += int(value)
            case "fdarx_rejected":
                self.rejections[labels["why"]] += 1
            case _:
                assert name == "fdarx_request_seconds" and value >= 0


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.json()["error"]
        assert set(error) == {"type", "message", "param", "code"}
        return error


@dataclass
class Service:
    """The app on a port of this machine."""

    url: str
    world: LocalBackend
    meter: CountingMetrics

    def call(self, method: str, path: str, **options: Any) -> Reply:
        return asyncio.run(self._call(method, path, options))

    def post(self, path: str, body: Any, **options: Any) -> Reply:
        return self.call("POST", path, json=body, **options)

    def get(self, path: str, **options: Any) -> Reply:
        return self.call("GET", path, **options)

    def ask(self, question: str = "What is the recommended dose of velocimab?", **more: Any) -> Reply:
        return self.post("/v1/answers", {"question": question, **more})

    async def _call(self, method: str, path: str, options: dict[str, Any]) -> Reply:
        async with aiohttp.ClientSession() as session, session.request(method, self.url + path, **options) as reply:
            return Reply(reply.status, reply.headers, await reply.read())


@contextmanager
def service(world: LocalBackend | None = None, **settings: Any) -> Iterator[Service]:
    """The real app under uvicorn, in a thread."""
    world, meter, limits = world or LocalBackend(), CountingMetrics(), ServiceSettings(**settings)
    world.model_timeout_s, world.verifier = limits.model_s, named_engine(limits.verifier, world.answerer)
    app = make_app(cast(RayServeBackend, world), limits, meter)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False, lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Service(f"http://127.0.0.1:{port}", world, meter)
    finally:
        server.should_exit = True
        thread.join(10)
        world.close()


def eventually(true: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it comes true within so many seconds."""
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


def keys_file(folder: Path, text: str) -> Path:
    file = folder / "keys"
    file.write_text(text)
    return file
