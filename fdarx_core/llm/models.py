"""Which models there are and how to reach them: the user's `models.yaml`, checked before anything is asked."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fdarx_core.llm.prompts import explained
from fdarx_core.records import Response
from fdarx_core.storage import Location, StorageError

Structured = Literal["auto", "json_schema", "json_object", "text"]


class ModelsError(ValueError):
    """A models file that can't be used; the message names the file, the model, the field and the remedy."""


def _plain_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write it as http://HOST/PATH or https://HOST/PATH")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("it may hold no user, password or query; a key goes into the variable named by key_env")
    return url.rstrip("/")


class Prices(BaseModel):
    """US dollars per million tokens, as the vendor lists them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, description="A million prompt tokens.")
    cached_input: float | None = Field(
        None,
        ge=0,
        description="A million prompt tokens read from the server's prompt cache; without it they cost as much as "
        "others.",
    )
    cache_write: float | None = Field(
        None,
        ge=0,
        description="A million prompt tokens written to the cache (anthropic: 1.25 times input); without it as input.",
    )
    output: float = Field(ge=0, description="A million completion tokens, reasoning included.")

    @property
    def reward_caching(self) -> bool:
        """Whether a token costs less where it is read from the cache."""
        return self.cached_input is not None and self.cached_input < self.input

    def cost(self, response: Response) -> float:
        """US dollars."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        fresh = max(0, response.prompt_tokens - response.cached_tokens - response.written_tokens)
        prompt = fresh * self.input + response.cached_tokens * cached + response.written_tokens * written
        return (prompt + response.completion_tokens * self.output) / 1e6


class ModelConfig(BaseModel):
    """One model on one server. The key is not part of it, only the name of the environment variable that holds it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="What the run calls it. Part of each request's key: under another name all is asked again.",
    )
    kind: Literal["openai", "anthropic"] = Field(
        "openai", description="openai: any OpenAI-compatible server (vLLM, Ray Serve, vendors). anthropic: its own API."
    )
    model: str = Field(min_length=1, description="The model's id on the server.")
    base_url: Annotated[str, AfterValidator(_plain_address)] = Field(
        description="Where the API begins, as in http://localhost:8000/v1 or https://api.anthropic.com."
    )
    key_env: str | None = Field(
        None,
        pattern=r"^[A-Z][A-Z0-9_]*$",
        max_length=64,
        description="Name of the environment variable that holds the key, in capitals. None: the server wants no key. "
        "Each machine that asks must have it.",
    )
    sampling: dict[str, Any] = Field(
        default_factory=dict,
        description="Sent as it stands with each request (temperature, top_p, seed ...) and part of its key. "
        "Temperature 0 makes runs comparable; without it, a server's own default decides.",
    )
    max_tokens: int = Field(
        1024,
        ge=1,
        description="The most tokens of one reply. Too few cut replies short, which are lost; many cost nothing unless "
        "a model runs on, but some vendors count them against tokens a minute.",
    )
    max_in_flight: int = Field(
        64,
        ge=1,
        description="Requests at the server at once. More is faster until the server queues or answers 429; a vLLM "
        "replica takes some hundreds.",
    )
    requests_per_minute: float | None = Field(
        None, gt=0, description="Sent evenly spaced. None: as fast as the server takes them, slower while it says 429."
    )
    tokens_per_minute: float | None = Field(
        None, gt=0, description="Prompt and completion together: estimated when sent, corrected when answered."
    )
    prices: Prices | None = Field(None, description="Without them a run's cost is unknown and --max-cost is refused.")
    context_length: int | None = Field(
        None,
        ge=1,
        description="Tokens of prompt and reply together. An evaluation leaves passages of a label out until it fits; "
        "without it, what is too long fails.",
    )
    tokenizer: str | None = Field(
        None,
        description="A local directory with the model's tokenizer.json, by which a plan, and what fits into the "
        "context, count tokens exactly. None: they are estimated from characters.",
    )
    structured: Structured = Field(
        "auto",
        description="How the server is held to a reply's schema. auto: json_schema, and where it is refused json_object"
        " (anthropic: a forced tool call), then text. text with one repair request is the least reliable.",
    )
    first_alone: bool | None = Field(
        None,
        description="Of requests that share their first 1,024 tokens or more, as the questions on one label do, one "
        "goes alone and the rest follow once it is answered: sent together, each would pay for what a vendor's cache "
        "then holds. It costs the wait for one reply a label, while other labels are asked. None: with anthropic, and "
        "where prices say that cached_input costs less. vLLM gains nothing by it.",
    )
    timeout_s: float = Field(
        300, gt=0, description="Seconds for one try, reply included. Too short abandons long replies that are paid for."
    )
    max_tries: int = Field(
        8, ge=1, description="Tries that may fail before a request counts as failed; being told to wait is none."
    )
    max_wait_s: float = Field(
        600, ge=0, description="Seconds that one request may wait between its tries, being told to wait included."
    )

    @property
    def answers_depend_on(self) -> dict[str, Any]:
        """All that changes a reply beyond the prompt; a request carries it, and its key covers it."""
        return {
            **self.sampling,
            "model": self.model,
            "max_tokens": self.max_tokens,
            "structured": self.structured,
        }

    @property
    def first_goes_alone(self) -> bool:
        """What `first_alone` says, or what is best for this kind of server."""
        if self.first_alone is not None:
            return self.first_alone
        return self.kind == "anthropic" or bool(self.prices and self.prices.reward_caching)

    def key(self) -> str:
        """The key, read from the environment now and kept nowhere. Raises ValueError where it is not usable."""
        if self.key_env is None:
            return ""
        key = os.environ.get(self.key_env, "")
        if not key:
            raise ValueError(f"environment variable {self.key_env} is not set; set it to the key of {self.base_url}")
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise ValueError(f"environment variable {self.key_env} holds white space or no plain ASCII; set it anew")
        return key


def load_models(path: str | os.PathLike[str]) -> dict[str, ModelConfig]:
    """The models of a YAML file, by name: a list, each entry with the fields of `ModelConfig`.

    Raises ModelsError where the file, an entry, or a key's environment variable is missing or wrong.
    """
    models: dict[str, ModelConfig] = {}
    for position, entry in enumerate(_entries(str(path)), 1):
        model = _model(entry, f"{path}: model {_named(entry, position)}")
        if model.name in models or model.name == "baseline":
            taken = "it stands for the built-in rules" if model.name == "baseline" else "another model has it"
            raise ModelsError(f"{path}: model {model.name}: the name is taken, {taken}; give it another")
        models[model.name] = model
    return models


def read_yaml(path: str | os.PathLike[str], what: str) -> Any:
    """What a YAML file holds. Raises ModelsError, which asks for `what` where there is none."""
    try:
        return yaml.safe_load(Location(path).read_text())
    except StorageError as error:
        raise ModelsError(f"{error}; give {what}") from None
    except UnicodeDecodeError as error:
        raise ModelsError(f"{path}: not UTF-8 text: {error}; give {what}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # the error's own text would quote the file, and so perhaps a key
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise ModelsError(f"{path}: not YAML: see {where}") from None


def _entries(path: str) -> list[Any]:
    entries = read_yaml(path, "a YAML file that lists models")
    if not isinstance(entries, list) or not entries:
        raise ModelsError(f"{path}: holds no list of models; begin each with '- name: ...'")
    return entries


def _named(entry: Any, position: int) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and name else f"number {position}"


def _model(entry: Any, where: str) -> ModelConfig:
    try:
        model = ModelConfig.model_validate(entry)
    except ValidationError as error:
        known = ", ".join(ModelConfig.model_fields)
        raise ModelsError(f"{where}: {explained(error)}; the fields are {known}") from None
    try:
        model.key()
    except ValueError as error:
        raise ModelsError(f"{where}: key_env: {error}") from None
    return model
