"""The specification of the answering service: its corpora and models, and the settings of its HTTP side.

`ServeSpec` has the options of `fdarx serve`; `ServiceConfig`, which it makes, is what `serving.qa_rag` runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from fdarx_core.llm import Baseline, ModelConfig, ModelsError
from fdarx_core.specs.options import Common, ModelRoles, Required, RolesConfig, check_roles
from fdarx_core.specs.running import ModelsSpec

if TYPE_CHECKING:
    from fdarx_core.llm import Model

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)")
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


class ServiceSettings(BaseModel):
    """Limits, defaults, keys and logs of one replica of the HTTP service."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    keys_file: Common[Path | None] = None
    """File of API keys for /v1 and /mcp, with lines NAME:SHA-256, or NAME:SHA-256:upload for a key that may add
    documents; read at start. None: no key is required."""
    allowed_hosts: list[Annotated[str, AfterValidator(_host)]] = Field(default_factory=list)
    """Host names by which clients reach the service, beside localhost and IP addresses; * for any. Requests by other
    names are refused, so that pages of other servers can't use the service by a name that they resolve to it; a page of
    one of these names may use it. None given: any name with a file of keys, else localhost and IP addresses."""
    no_docs: bool = False
    """Leave out /docs and /openapi.json, which need no key."""
    upload: Common[bool] = False
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
    strategy: Common[Annotated[str, AfterValidator(_strategy)]] = AUTO
    """Default strategy. auto: qa_rag where a model other than baseline writes hypothetical answers, else question."""
    retriever: Common[str] = AUTO
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
    feedback: Common[Path | None] = None
    """File to which readers' judgments of answers are appended, with their questions and answers, for `fdarx review
    import`. None: the page has no buttons for them."""
    feedback_bytes: int = Field(256 << 20, ge=1024)
    """Size in bytes that this file may have; a judgment with which it had more is refused."""
    log_questions: bool = False
    """Write questions and full error messages to the logs."""

    def resolved(self, hypothesis: str, postprocessors: Collection[str]) -> ServiceSettings:
        """Return the settings with a strategy and a post-processing in place of `auto`.

        They depend on the model that writes hypothetical answers, and on the post-processings that the service has.
        """
        from fdarx_core.llm.model import BASELINE

        strategy = "question" if hypothesis == BASELINE else "qa_rag"
        postprocess = "rerank" if "rerank" in postprocessors else "none"
        best = {"strategy": strategy, "postprocess": postprocess}
        return self.model_copy(update={name: value for name, value in best.items() if getattr(self, name) == AUTO})

    def default_retriever(self, offered: Sequence[str]) -> str:
        """Return the default retriever of a corpus that can be searched by those offered."""
        return next((name for name in (self.retriever, "hybrid", "bm25") if name in offered), offered[0])


class ServiceConfig(ModelRoles):
    """The configuration of the service.

    Replicas, resources and autoscaling are options of each deployment in Ray Serve.
    """

    model_config = ConfigDict(extra="forbid")

    corpora: dict[str, str] = Field(min_length=1)
    """Indexes by corpus name, on disk or s3://. The first is the default corpus."""
    models: list[ModelConfig] = Field(default_factory=list)
    """Models on servers, as in docs/models.md. `baseline` is always available."""
    reranker_gpus: float = Field(0, ge=0, le=1)
    """Share of a GPU that Ray reserves for the reranker. 0: it runs on CPU, at a few pairs per second. A share leaves
    the rest of the GPU to other processes, beside whose memory the reranker must fit: BGE large takes about 3 GB."""
    replicas: int = Field(1, ge=1)
    """Replicas of ingress and retriever each; the limits of the models are divided among the latter. Options of the
    deployments in a Serve config take precedence, and limits then hold for each replica of the retriever."""
    poll_s: float = Field(3.0, gt=0)
    """Seconds between checks for a newer index; each reads one small file per corpus."""
    log_file: str | None = None
    """Request log. None: standard error of the ingress."""
    http: ServiceSettings = Field(default_factory=ServiceSettings)
    """Keys, limits and defaults."""

    @model_validator(mode="after")
    def _check_names(self) -> ServiceConfig:
        known = [Baseline.name, *(model.name for model in self.models)]
        for role, name in self.roles.items():
            if name not in known:
                raise ValueError(f"{role}: there is no model {name}; known are {', '.join(known)}")
        for name in self.corpora:
            if not name or "/" in name:
                raise ValueError(f"corpora: {name!r} can't name a corpus; leave out '/'")
        return self


class ServeSpec(ServiceSettings, RolesConfig, ModelsSpec):
    """The answering service on this machine: the options of `fdarx serve`, its own, then those of its HTTP side."""

    index: Required[list[Annotated[str, Field(min_length=1)]]] = Field(default_factory=list)
    """[NAME=]INDEX (required, except with --new-key): one or more indexes of `fdarx index`, on disk or s3://, and the
    names of their corpora (those of their folders); the first is searched if a request names none"""
    port: Common[int] = Field(8000, ge=1, le=65535)
    """port of the service"""
    host: Common[str] = "127.0.0.1"
    """address of the service; with 0.0.0.0 other machines can use it, so set keys"""
    replicas: int = Field(1, ge=1)
    """number of processes for each of HTTP, search and models; more use more cores, and more memory for indexes"""
    poll_s: float = Field(3.0, gt=0)
    """seconds between checks for a newer version of an index"""
    log: Common[str | None] = None
    """file for the log of requests, one line of JSON each (Ray's own logs)"""
    metrics_port: int | None = Field(None, ge=1, le=65535)
    """port for Prometheus on this machine (a free port); other machines do not reach it"""
    new_key: str | None = None
    """make an API key of this name, add its hash to --keys-file, and print the key"""

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.new_key is not None and self.keys_file is None:
            raise ValueError("--new-key wants --keys-file, the file to add it to")
        if self.new_key is None and not self.index:
            raise ValueError("--index is missing: give an index of `fdarx index`")
        return self

    def service_config(self) -> ServiceConfig:
        """Return the configuration of the service. Raises ModelsError for models, ValueError for other options."""
        from fdarx_core.rag.query import POSTPROCESSORS

        models = self.loaded_models()
        check_roles(self.roles, models)
        if self.postprocess not in (AUTO, *POSTPROCESSORS):
            raise ValueError(f"--postprocess {self.postprocess}: there are {', '.join((AUTO, *POSTPROCESSORS))}")
        if self.postprocess == "rerank" and self.reranker_model is None:
            raise ValueError("--postprocess rerank wants --reranker-model")
        http = self.model_dump(include=set(ServiceSettings.model_fields))
        if self.keys_file is None or self.allowed_hosts:
            try:
                ip_address("127.0.0.1" if self.host == "localhost" else self.host)
            except ValueError:  # a name: where hosts are checked, its own is one of them
                http["allowed_hosts"] = [*self.allowed_hosts, self.host]
        return ServiceConfig(
            corpora=self._corpora(),
            models=list(models.values()),
            **self.model_dump(include={*ModelRoles.model_fields, "replicas", "poll_s"}),
            log_file=self.log,
            http=ServiceSettings.model_validate(http),
        )

    def _corpora(self) -> dict[str, str]:
        corpora: dict[str, str] = {}
        for index in self.index:
            named = _NAMED.fullmatch(index)
            name, place = (named[1], named[2]) if named else (index.rstrip("/").rpartition("/")[2], index)
            if name in corpora:
                raise ValueError(f"--index: two are named {name}; give another name: NAME={place}")
            corpora[name] = place
        return corpora

    def _adopt(self, models: Sequence[Model]) -> None:
        super()._adopt(models)
        if limited := [model for model in models if model.max_requests is not None or model.max_cost is not None]:
            raise ModelsError(f"{limited[0].name}: a service has no limit of requests or cost; leave them out")
