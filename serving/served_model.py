"""Configuration of a served model: one YAML mapping per file, validated without a cluster. Imports no Ray."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fdarx_core.llm import Baseline, ModelConfig, ModelsError
from fdarx_core.llm.model_config import read_yaml
from fdarx_core.llm.prompts import validation_message


class _Description(BaseModel):
    """A mapping of YAML, without other fields, which does not change once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ModelSize(_Description):
    """Dimensions of a decoder, as in its config.json."""

    parameters: float = Field(gt=0)
    """Number of weights in billions."""
    layers: int = Field(ge=1)
    """num_hidden_layers."""
    kv_heads: int = Field(ge=1)
    """num_key_value_heads."""
    head_dim: int = Field(ge=1)
    """head_dim; where absent, hidden_size over num_attention_heads."""
    weight_bytes: float = Field(2, gt=0)
    """Bytes per weight: 2 in bfloat16, 1 in fp8."""
    kv_bytes: float = Field(2, gt=0)
    """Bytes per cached value: 2, or 1 if engine has kv_cache_dtype fp8."""


_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes per weight of the types of config.json."""


_DERIVED = ("name", "kind", "model", "base_url", "context_length", "key_env")
"""Fields of `ModelConfig` that follow from the served model, and so can't be under `ask`."""

INGRESS_CPUS = 0.1
"""CPUs of the process that receives a replica's HTTP requests."""

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
    "trust_remote_code": "code that comes with a model is never executed; use a model that vLLM supports",
    "worker_cls": "it names code to execute",
    "worker_extension_cls": "it names code to execute",
    "distributed_executor_backend": "Ray Serve chooses it",
    "enable_prompt_tokens_details": "it is always on, as usage counts cached tokens",
    "pipeline_parallel_size": "a replica uses only the GPUs of tensor_parallel",
    "data_parallel_size": "use replicas",
}


class Autoscaling(_Description):
    """A number of replicas that follows the number of requests."""

    min: int = Field(ge=1)
    """Minimum number of replicas, which keep their GPUs while the model is deployed."""
    max: int = Field(ge=1)
    """Maximum number of replicas. More share the load; each must first load the weights."""
    ongoing: float = Field(gt=0)
    """Requests per replica, including waiting ones, above which a replica is added. With a value near `concurrent`,
    replicas are full before another is added; with a lower value, replies are faster."""

    @model_validator(mode="after")
    def _in_order(self) -> Autoscaling:
        if self.min > self.max:
            raise ValueError(f"min {self.min} exceeds max {self.max}; raise max or lower min")
        return self


class Adapters(_Description):
    """LoRA adapters. Requests name one as MODEL:ADAPTER; a replica loads it at the first request for it."""

    path: str = Field(pattern=r"^(s3://.|\.{0,2}/).*")
    """Folder of the adapters, s3://BUCKET/FOLDER or a local directory (beginning with / or ./). Each adapter is a
    folder in it, named as the adapter. A directory must be at the same path on every machine."""
    most: int = Field(4, ge=1)
    """Adapters that a replica keeps loaded. More take more memory; fewer are reloaded more often."""
    rank: int = Field(16, ge=1)
    """Largest rank of the adapters; the engine reserves memory for it."""


class ServedModel(_Description):
    """A model served by vLLM on Ray Serve: application NAME, with OpenAI's API at /NAME/v1."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Name of the model in runs, and its route on the server. It is part of each request's key: with another name, all
    requests are sent again."""
    model: str = Field(min_length=1)
    """Hugging Face id, s3://BUCKET/FOLDER, or local directory (beginning with / or ./). A directory must be at the same
    path on every machine."""
    device: Literal["gpu", "cpu"] = "gpu"
    """cpu needs vLLM's CPU build, and is slow."""
    accelerator: str | None = None
    """Ray's name of the GPU type (A100, H100, L4 ...). None: any GPU of the cluster, which may be too small if the
    cluster has several types."""
    tensor_parallel: int = Field(1, ge=1)
    """GPUs per replica, on one machine. More GPUs hold larger models and reply faster, but as separate replicas they
    have a higher throughput. Must divide the number of attention heads."""
    replicas: int | Autoscaling = 1
    """Number of replicas, or `min`, `max` and `ongoing`. Replicas multiply both throughput and GPUs."""
    context_length: int = Field(ge=1)
    """Maximum tokens of prompt and reply together. With a higher value, longer labels fit; but a sequence may take more
    of the cache, so that fewer sequences fit into it."""
    concurrent: int = Field(32, ge=1)
    """Sequences that a replica processes concurrently. A higher value raises the throughput until the cache is full;
    then the engine preempts sequences and computes them again."""
    gpu_memory: float = Field(0.9, gt=0, lt=1)
    """Share of a GPU's memory that the engine uses. A higher value gives a larger cache, and leaves less memory to
    other processes."""
    card_gib: float | None = Field(None, gt=0)
    """Memory of one GPU in GiB, for the memory estimate. None: no estimate."""
    cache_gib: float | None = Field(None, gt=0)
    """Cache per GPU in GiB. None: the rest of gpu_memory. Required for an estimate on cpu, where memory is shared."""
    prefix_caching: bool = True
    """Cache the beginnings of prompts, so that a label is computed once for all its questions."""
    prefix_affinity: bool = True
    """With several replicas, send prompts with the same beginning to the same replica; otherwise each replica computes
    each label. Switch it off for prompts without common beginnings, to balance the load better."""
    adapters: Adapters | None = None
    """LoRA adapters of the model. They take memory."""
    engine: dict[str, Any] = Field(default_factory=dict)
    """Other engine arguments, with vLLM's names (dtype, quantization, revision, hf_overrides ...)."""
    key_env: str | None = Field(None, pattern=r"^[A-Z][A-Z0-9_]*$", max_length=64)
    """Name of the environment variable that holds the API key, set on each machine: the model then rejects requests
    without the key, and clients send it. None: every client that reaches the server may use the model."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the replicas (OMP_NUM_THREADS ...). No secrets: Serve shows them."""
    cpus: float = Field(1, ge=0)
    """CPUs that Ray reserves for a replica. On cpu, the engine computes on them."""
    start_within_s: float = Field(1800, gt=0)
    """Seconds that the start of a replica may take, with download and loading of the weights and capture of CUDA
    graphs. With a low value, large models fail; with a high value, failures are found late."""
    size: ModelSize | None = None
    """Dimensions of the model, for the memory estimate. None: of a directory, those of its config.json and weights."""
    ask: dict[str, Any] = Field(default_factory=dict)
    """Options of requests: fields of a models file (sampling, max_tokens, max_in_flight, ...)."""

    @model_validator(mode="after")
    def _check(self) -> ServedModel:
        if self.name == Baseline.name:
            raise ValueError(f"name: {self.name} is the name of the built-in rules; choose another")
        if isinstance(self.replicas, int) and self.replicas < 1:
            raise ValueError("replicas: at least 1")
        if self.device == "cpu" and (self.accelerator or self.tensor_parallel > 1):
            raise ValueError("device: cpu takes no accelerator and no tensor_parallel; leave them out")
        for key in self.engine:
            if key in _FIELD_OF:
                raise ValueError(f"engine: {key} has a field of its own; use {_FIELD_OF[key]}")
            if key in _NEVER:
                raise ValueError(f"engine: {key} can't be set: {_NEVER[key]}")
        for key in _DERIVED:
            if key in self.ask:
                raise ValueError(f"ask: {key} follows from the served model; leave it out")
        try:
            self.client_config("http://localhost:8000")
        except ValidationError as error:
            raise ValueError(f"ask: {validation_message(error)}") from None
        return self

    @property
    def is_directory(self) -> bool:
        """Whether `model` is a local directory, which begins with / or ./."""
        return _is_directory(self.model)

    @property
    def served_id(self) -> str:
        """The model's id on the server, which is part of each request's key: the Hugging Face id, or the last part of a
        directory or folder."""
        is_path = self.is_directory or "://" in self.model
        return self.model.rstrip("/").rsplit("/", 1)[-1] if is_path else self.model

    @property
    def min_replicas(self) -> int:
        return self.replicas.min if isinstance(self.replicas, Autoscaling) else self.replicas

    @property
    def max_replicas(self) -> int:
        return self.replicas.max if isinstance(self.replicas, Autoscaling) else self.replicas

    def client_config(self, address: str) -> ModelConfig:
        """Return the configuration for clients, where Serve's HTTP proxy is at `address` (http://HOST:PORT).

        As many requests are in flight as all replicas process concurrently, unless `ask` has another number.
        """
        return ModelConfig.model_validate(
            {
                "max_in_flight": self.concurrent * self.max_replicas,
                **self.ask,
                "name": self.name,
                "kind": "openai",
                "model": self.served_id,
                "base_url": f"{address.rstrip('/')}/{self.name}/v1",
                "context_length": self.context_length,
                "key_env": self.key_env,
            }
        )


def missing_engine(model: ServedModel) -> str | None:
    """Return that vLLM is not installed here, and how to install it for the model's device; None where it is."""
    if find_spec("vllm"):
        return None
    if model.device == "cpu":
        return "vLLM is not installed here; docs/serving-models.md, Without a GPU, says how to install its CPU build"
    return "vLLM is not installed here; install it: pip install 'fdarx[gpu]'"


def missing_key(model: ServedModel) -> str | None:
    """Return why the model's API key can't be read on this machine, on one line; None where it can or there is none."""
    try:
        model.client_config("http://localhost").key()
    except ValueError as error:
        return str(error)
    return None


def load_served(path: str | os.PathLike[str]) -> ServedModel:
    """Read a served model from a YAML file; relative directories are relative to the file's directory.

    Raises ModelsError with file, field and remedy.
    """
    fields = read_yaml(path, "a YAML file that describes one served model")
    if not isinstance(fields, dict):
        raise ModelsError(f"{path}: has no mapping; begin it with 'name: ...' and 'model: ...'")
    try:
        model = ServedModel.model_validate(fields)
    except ValidationError as error:
        known = ", ".join(ServedModel.model_fields)
        raise ModelsError(f"{path}: {validation_message(error)}; the fields are {known}") from None
    changes: dict[str, Any] = {"model": _resolved(Path(path).parent, model.model)}
    if model.adapters:
        folder = _resolved(Path(path).parent, model.adapters.path)
        changes["adapters"] = model.adapters.model_copy(update={"path": folder})
    if model.is_directory and model.size is None:
        changes["size"] = directory_size(changes["model"])
    return model.model_copy(update=changes)


def directory_size(directory: str) -> ModelSize | None:
    """Return the dimensions of the model in a directory, from its config.json and the sizes of its *.safetensors.

    None where they do not say it, as for weights in fewer than 16 bits, whose files hold more than weights.
    """
    folder = Path(directory)
    try:
        config = json.loads((folder / "config.json").read_bytes())
        weight_bytes = _BYTES[config.get("dtype") or config["torch_dtype"]]
        heads = config["num_attention_heads"]
        files = [file.stat().st_size for file in folder.glob("*.safetensors")]
        return ModelSize(
            parameters=sum(files) / weight_bytes / 1e9,
            layers=config["num_hidden_layers"],
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or config["hidden_size"] // heads,
            weight_bytes=weight_bytes,
            kv_bytes=weight_bytes,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_directory(location: str) -> bool:
    return location.startswith(("/", "./", "../"))


def _resolved(folder: Path, location: str) -> str:
    """Return the absolute path of a directory that may be relative to `folder`; other locations stay unchanged."""
    return os.path.normpath((folder / location).absolute()) if _is_directory(location) else location


_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
_CONFIGS = ("config.json", "params.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "*.tiktoken")


def missing_model_files(directory: str) -> str | None:
    """Return the part of a model that the directory lacks, with the remedy, on one line; None where it lacks none."""
    folder = Path(directory)
    if not folder.is_dir():
        return f"{directory} is not a directory on this machine; it must exist on every machine, including this one"
    parts = {"configuration": _CONFIGS, "tokenizer": _TOKENIZERS, "weights": _WEIGHTS}
    for part, patterns in parts.items():
        if not any(next(folder.glob(pattern), None) for pattern in patterns):
            return f"{directory} has no {part} ({', '.join(patterns)}); save the whole model with its tokenizer there"
    return None
