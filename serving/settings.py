"""Settings of the service: models by role, and the limits, defaults, keys and logs of its HTTP side.

They import no other room, for `fdarx serve --help`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from fdarx_core.rag.search import Role

MAX_CONTEXTS, MAX_CANDIDATES = 24, 100


AUTO = "auto"
"""The best that a service has: see `ServiceSettings.resolved` and `default_retriever`."""


def _strategy(name: str) -> str:
    from fdarx_core.rag.strategies import STRATEGIES

    if name not in (AUTO, *STRATEGIES):
        raise ValueError(f"there is no strategy {name!r}; there is: {', '.join((AUTO, *STRATEGIES))}")
    return name


ANY_HOST = "*"
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")


def _host(name: str) -> str:
    if name != ANY_HOST and not _HOST.fullmatch(name):
        raise ValueError(f"{name!r} is no host name: give a name without scheme and port, or {ANY_HOST} for any")
    return name


class ModelRoles(BaseModel):
    """The names of the models that answer, rewrite and score, and the directories of the others."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    answerer: str = "baseline"
    """model that answers from the passages: a name of --models"""
    hypothesis: str | None = None
    """model that writes hypothetical answers; a model tuned on the domain is best (the answerer)"""
    rewriter: str | None = None
    """model that writes the passages of HyDE and the questions of multiquery (the answerer)"""
    scorer: str | None = None
    """model of the scoring agent of the post-processing (the answerer)"""
    cosine_model: str | None = None
    """local directory of the index's embedding model (all-MiniLM-L6-v2, if installed)"""
    reranker_model: str | None = None
    """local directory of a BGE reranker; without it, reranking is not available"""

    @property
    def roles(self) -> dict[Role, str]:
        """The name of the model in each role."""
        return {
            "answerer": self.answerer,
            "hypothesis": self.hypothesis or self.answerer,
            "rewriter": self.rewriter or self.answerer,
            "scorer": self.scorer or self.answerer,
        }


class ServiceSettings(BaseModel):
    """Limits, defaults, keys and logs of one replica of the HTTP service."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    keys_file: Path | None = None
    """File of API keys for /v1 and /mcp, with lines NAME:SHA-256, or NAME:SHA-256:upload for a key that may add
    documents; read at start. None: no key is required."""
    allowed_hosts: list[Annotated[str, AfterValidator(_host)]] = Field(default_factory=list)
    """Host names by which clients reach the service, beside localhost and IP addresses; * for any. Requests by other
    names are refused, so that pages of other servers can't use the service by a name that they resolve to it; a page of
    one of these names may use it. None given: any name with a file of keys, else localhost and IP addresses."""
    no_docs: bool = False
    """Leave out /docs and /openapi.json, which need no key."""
    upload: bool = False
    """Let all clients add documents by POST /v1/documents, where no key is required; with --new-key, give the new key
    the right to."""
    upload_bytes: int = Field(32 << 20, ge=1024, le=56 << 20)
    """Maximum size of an uploaded file."""
    upload_s: float = Field(600, gt=0)
    """Seconds that adding an uploaded file may take."""
    upload_cpu_s: int = Field(300, ge=1)
    """Seconds of CPU time that reading an uploaded file may take."""
    upload_memory_mib: int = Field(4096, ge=512)
    """MiB of memory (address space) that reading an uploaded file may take."""
    upload_pages: int = Field(5000, ge=1)
    """Most pages of an uploaded PDF."""
    requests_per_minute: float | None = Field(None, gt=0)
    """Answers, searches, chats and MCP requests that one replica accepts per key, or without keys per client address;
    of look-ups, ten times as many. Behind a proxy, all clients have the proxy's address: use keys there. None: no
    limit."""
    burst: int = Field(20, ge=1)
    """Number of these requests that may arrive at once after a pause."""
    in_flight: int = Field(128, ge=1)
    """Requests that one replica processes at once, and as many look-ups beside them. A higher value lets more requests
    wait in memory for the same model; a lower value rejects requests sooner. A key (or address) may have another place
    while it has fewer than are free, so that one alone has at most half of them."""
    waiting: int = Field(128, ge=0)
    """Requests that may queue for one of these places, shared in the same way; further requests get 503 at once."""
    wait_s: float = Field(1.0, ge=0)
    """Seconds that a request queues before it gets 503."""
    deadline_s: float = Field(60, gt=0)
    """Seconds that a request may take, answer included; X-Deadline-Ms may shorten it."""
    model_s: float = Field(25, gt=0)
    """Seconds that a model may take for a reply, or in a stream for its next piece, before the request continues
    without it, marked as degraded. Some strategies ask a model twice, so twice this value should fit into the
    deadline."""
    body_bytes: int = Field(1 << 20, ge=1024)
    """Maximum size of a request body. Chat clients send the whole conversation."""
    longest_question: int = Field(4000, ge=1)
    """Maximum length of a question in characters."""
    strategy: Annotated[str, AfterValidator(_strategy)] = AUTO
    """Default strategy. auto: qa_rag where a model other than baseline writes hypothetical answers, else question."""
    retriever: str = AUTO
    """Default retriever; a corpus that does not offer it uses auto: hybrid where the index has vectors, else bm25."""
    postprocess: str = AUTO
    """Default post-processing. auto: rerank where the service has a reranker, else none."""
    k: int = Field(6, ge=1, le=MAX_CONTEXTS)
    """Default number of passages that the model is shown."""
    candidates: int = Field(24, ge=1, le=MAX_CANDIDATES)
    """Default number of passages retrieved before post-processing."""
    verifier: str = AUTO
    """Engine that verifies the statements of answers, as `fdarx verify` names them: cross-encoder:DIRECTORY,
    language-model:ID@BASE_URL, exact. A model adds its time to each answer. auto: the model that answers; for baseline
    a cross-encoder that is on this machine, else exact."""
    feedback: Path | None = None
    """File to which readers' judgments of answers are appended, with their questions and answers, for `fdarx review
    import`. None: the page has no buttons for them."""
    feedback_bytes: int = Field(256 << 20, ge=1024)
    """Size in bytes that this file may have; a judgment with which it had more is refused."""
    log_questions: bool = False
    """Write questions and full error messages to the logs."""

    def takes_uploads(self) -> bool:
        """Return whether some client may add documents. Raises ValueError where the file of keys can't be read."""
        from serving.http.access import load_rights

        if self.keys_file is None:
            return self.upload
        return any(may_upload for _, may_upload in load_rights(self.keys_file).values())

    def resolved(self, hypothesis: str, postprocessors: Collection[str]) -> ServiceSettings:
        """Return the settings with a strategy and a post-processing in place of `auto`.

        Args:
            hypothesis: the name of the model that writes hypothetical answers.
            postprocessors: the names of the post-processings that the service has.
        """
        from fdarx_core.llm.model import BASELINE

        strategy = "question" if hypothesis == BASELINE else "qa_rag"
        postprocess = "rerank" if "rerank" in postprocessors else "none"
        best = {"strategy": strategy, "postprocess": postprocess}
        return self.model_copy(update={name: one for name, one in best.items() if getattr(self, name) == AUTO})

    def default_retriever(self, offered: Sequence[str]) -> str:
        """Return the default retriever of a corpus that can be searched by those offered."""
        return next((one for one in (self.retriever, "hybrid", "bm25") if one in offered), offered[0])
