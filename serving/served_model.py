"""A model to be served: one YAML mapping per file, validated before a cluster is asked for. Imports no Ray."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fdarx_core.llm import Baseline, ModelConfig, ModelsError
from fdarx_core.llm.model_config import read_yaml
from fdarx_core.llm.prompts import validation_message


class ModelSize(BaseModel):
    """A decoder's dimensions, as its config.json has them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parameters: float = Field(gt=0, description="All weights, in thousand millions (B).")
    layers: int = Field(ge=1, description="num_hidden_layers.")
    kv_heads: int = Field(ge=1, description="num_key_value_heads.")
    head_dim: int = Field(ge=1, description="head_dim; where absent, hidden_size over num_attention_heads.")
    weight_bytes: float = Field(2, gt=0, description="Bytes a weight: 2 in bfloat16, 1 in fp8.")
    kv_bytes: float = Field(2, gt=0, description="Bytes a cached value: 2, or 1 where engine says kv_cache_dtype fp8.")


class Throughput(BaseModel):
    """What one replica does with a full batch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefill: float = Field(gt=0, description="Prompt tokens read a second, those from the cache not counted.")
    decode: float = Field(gt=0, description="Reply tokens written a second, all sequences together.")
    source: str = Field(min_length=1, description="Where the two figures come from.")


_OF_THE_SERVER = ("name", "kind", "model", "base_url", "context_length")
"""Fields of `ModelConfig` that follow from what is served, and so can't be under `ask`."""

FRONT_CPUS = 0.1
"""Of the process that takes a replica's HTTP requests."""

_FIELD_OF = {
    "model": "model",
    "served_model_name": "model",
    "tensor_parallel_size": "tensor_parallel",
    "max_model_len": "context_length",
    "max_num_seqs": "concurrent",
    "gpu_memory_utilization": "gpu_memory",
    "kv_cache_memory_bytes": "cache_gib",
    "enable_prefix_caching": "prefix_caching",
    "enable_lora": "adapters",
    "max_loras": "adapters",
    "max_lora_rank": "adapters",
}
_NEVER = {
    "trust_remote_code": "code that comes with a model is never run; use a model that vLLM knows",
    "worker_cls": "it names code to run",
    "worker_extension_cls": "it names code to run",
    "distributed_executor_backend": "Ray Serve decides it",
    "enable_prompt_tokens_details": "it is always on, as usage counts cached tokens",
    "pipeline_parallel_size": "a replica spans the cards of tensor_parallel alone",
    "data_parallel_size": "use replicas",
}


class Autoscaling(BaseModel):
    """Replicas that come and go with the requests at them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    min: int = Field(ge=1, description="Replicas that stay; their cards are taken as long as the model is up.")
    max: int = Field(ge=1, description="The most. More share the load; each one must first load the weights.")
    ongoing: float = Field(
        gt=0,
        description="Requests at a replica, waiting ones included, above which another comes. Near `concurrent`: "
        "replicas are full before another is paid for; lower: answers come sooner.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Autoscaling:
        if self.min > self.max:
            raise ValueError(f"min {self.min} exceeds max {self.max}; raise max or lower min")
        return self


class Adapters(BaseModel):
    """LoRA adapters; one is asked for as MODEL:ADAPTER, and loaded by the replica that first needs it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(
        pattern=r"^(s3://.|\.{0,2}/).*",
        description="Where they are, s3://BUCKET/FOLDER or a local directory (begin it with / or ./): each a folder "
        "under it that bears the adapter's name. A directory must be at the same place on every machine.",
    )
    most: int = Field(4, ge=1, description="Adapters held by a replica at once; more cost memory, fewer are reloaded.")
    rank: int = Field(16, ge=1, description="The largest rank among them; memory is set aside for it.")


class ServedModel(BaseModel):
    """One model, as vLLM is to serve it behind Ray Serve: application NAME, OpenAI's API at /NAME/v1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="What runs call it, and its place on the server. Part of each request's key: under another name "
        "all is asked again.",
    )
    model: str = Field(
        min_length=1,
        description="A Hugging Face id, s3://BUCKET/FOLDER, or a local directory (begin it with / or ./). A directory "
        "must be at the same place on every machine.",
    )
    device: Literal["gpu", "cpu"] = Field("gpu", description="cpu needs vLLM's CPU build; it is for trying things out.")
    accelerator: str | None = Field(
        None,
        description="The card's type as Ray names it (A100, H100, L4 ...). None: any card of the cluster, which on a "
        "mixed one may be too small.",
    )
    tensor_parallel: int = Field(
        1,
        ge=1,
        description="Cards that one replica spans. More hold larger models and answer sooner, but as several replicas "
        "they answer more in all. Must divide the attention heads; the cards of a replica are those of one machine.",
    )
    replicas: int | Autoscaling = Field(
        1, description="Copies of the model, or `min`, `max` and `ongoing`. Copies multiply throughput and cards alike."
    )
    context_length: int = Field(
        ge=1,
        description="Tokens of prompt and reply together. Longer takes whole labels; a sequence may fill that much of "
        "the cache, so fewer run at once.",
    )
    concurrent: int = Field(
        32,
        ge=1,
        description="Sequences that a replica works on at once. More is faster until the cache is full; then the "
        "engine stops some and computes them again.",
    )
    gpu_memory: float = Field(
        0.9,
        gt=0,
        lt=1,
        description="Share of a card's memory that the engine takes. More is more cache, and less room.",
    )
    card_gib: float | None = Field(
        None, gt=0, description="Memory of one card in GiB, to work out what fits. None: nothing is worked out."
    )
    cache_gib: float | None = Field(
        None,
        gt=0,
        description="Cache of a card in GiB. None: what gpu_memory leaves; on cpu say it, as memory there is shared.",
    )
    prefix_caching: bool = Field(
        True, description="Keep what prompts begin with: the questions on one label then read it once."
    )
    prefix_affinity: bool = Field(
        True,
        description="With several replicas, send prompts that begin alike to the same one. Without it, each replica "
        "reads each label. Off for prompts that share nothing: load is then spread more evenly.",
    )
    adapters: Adapters | None = Field(None, description="LoRA adapters on top of the model. They take memory.")
    engine: dict[str, Any] = Field(
        default_factory=dict,
        description="Further engine arguments by vLLM's names (dtype, quantization, revision, hf_overrides ...).",
    )
    variables: dict[str, str] = Field(
        default_factory=dict,
        description="Environment variables of the replicas, as OMP_NUM_THREADS. No secrets: Serve shows them.",
    )
    cpus: float = Field(
        1, ge=0, description="CPUs that Ray sets aside for a replica. On cpu the engine computes on them."
    )
    start_within_s: float = Field(
        1800,
        gt=0,
        description="Seconds within which a replica must be up: weights fetched and loaded, graphs captured. Too few "
        "give up on large models, many wait long for one that will never start.",
    )
    size: ModelSize | None = Field(None, description="The model's dimensions, to work out what fits.")
    throughput: Throughput | None = Field(None, description="What a replica does a second, to work out GPU-hours.")
    ask: dict[str, Any] = Field(
        default_factory=dict,
        description="How it is asked: fields of a models file (sampling, max_tokens, max_in_flight, tokenizer ...).",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> ServedModel:
        if self.name == Baseline.name:
            raise ValueError(f"name: {self.name} stands for the built-in rules; give another")
        if isinstance(self.replicas, int) and self.replicas < 1:
            raise ValueError("replicas: at least 1")
        if self.device == "cpu" and (self.accelerator or self.tensor_parallel > 1):
            raise ValueError("device: cpu takes no accelerator and no tensor_parallel; leave them out")
        self._check_engine()
        self._check_ask()
        return self

    def _check_engine(self) -> None:
        for key in self.engine:
            if key in _FIELD_OF:
                raise ValueError(f"engine: {key} has a field of its own; use {_FIELD_OF[key]}")
            if key in _NEVER:
                raise ValueError(f"engine: {key} can't be set: {_NEVER[key]}")

    def _check_ask(self) -> None:
        for key in _OF_THE_SERVER:
            if key in self.ask:
                raise ValueError(f"ask: {key} follows from what is served; leave it out")
        try:
            self.asked_at("http://localhost:8000")
        except ValidationError as error:
            raise ValueError(f"ask: {validation_message(error)}") from None

    @property
    def is_directory(self) -> bool:
        """Whether `model` is a local directory, by how it begins."""
        return _is_directory(self.model)

    @property
    def served_id(self) -> str:
        """What the server calls it, which is in each request's key: a Hugging Face id as it is, of a place its end."""
        place = self.is_directory or "://" in self.model
        return self.model.rstrip("/").rsplit("/", 1)[-1] if place else self.model

    @property
    def smallest(self) -> int:
        """Replicas that are there from the start."""
        return self.replicas.min if isinstance(self.replicas, Autoscaling) else self.replicas

    @property
    def largest(self) -> int:
        """The most replicas at once."""
        return self.replicas.max if isinstance(self.replicas, Autoscaling) else self.replicas

    @property
    def gpus(self) -> int:
        """Cards that the smallest number of replicas takes; 0 on cpu."""
        return 0 if self.device == "cpu" else self.tensor_parallel * self.smallest

    def asked_at(self, address: str) -> ModelConfig:
        """How to ask it where Serve's HTTP proxy is at `address` (http://HOST:PORT).

        As many requests are in flight as all replicas work on, unless `ask` says otherwise.
        """
        return ModelConfig.model_validate(
            {
                "max_in_flight": self.concurrent * self.largest,
                **self.ask,
                "name": self.name,
                "kind": "openai",
                "model": self.served_id,
                "base_url": f"{address.rstrip('/')}/{self.name}/v1",
                "context_length": self.context_length,
            }
        )


def load_served(path: str | os.PathLike[str]) -> ServedModel:
    """The served model of a YAML file; relative directories are taken from the file's own.

    Raises ModelsError, which names file, field and remedy.
    """
    fields = read_yaml(path, "a YAML file that describes one served model")
    if not isinstance(fields, dict):
        raise ModelsError(f"{path}: holds no mapping; begin it with 'name: ...' and 'model: ...'")
    try:
        model = ServedModel.model_validate(fields)
    except ValidationError as error:
        known = ", ".join(ServedModel.model_fields)
        raise ModelsError(f"{path}: {validation_message(error)}; the fields are {known}") from None
    changes: dict[str, Any] = {"model": _resolved(Path(path).parent, model.model)}
    if model.adapters:
        place = _resolved(Path(path).parent, model.adapters.path)
        changes["adapters"] = model.adapters.model_copy(update={"path": place})
    return model.model_copy(update=changes)


def _is_directory(place: str) -> bool:
    return place.startswith(("/", "./", "../"))


def _resolved(folder: Path, place: str) -> str:
    """The place, which lies beside `folder`'s files where it is a relative directory."""
    return os.path.normpath((folder / place).absolute()) if _is_directory(place) else place


_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
_CONFIGS = ("config.json", "params.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "*.tiktoken")


def missing_model_files(directory: str) -> str | None:
    """What is missing there and what to do, on one line; None where a model can be."""
    folder = Path(directory)
    if not folder.is_dir():
        return f"{directory} is no directory on this machine; every machine, this one included, must have it there"
    wanted = {"configuration": _CONFIGS, "tokenizer": _TOKENIZERS, "weights": _WEIGHTS}
    for what, patterns in wanted.items():
        if not any(next(folder.glob(pattern), None) for pattern in patterns):
            return f"{directory} has no {what} ({', '.join(patterns)}); save the whole model there, tokenizer included"
    return None
