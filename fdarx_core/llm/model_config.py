"""Models and how to reach them: the user's models.yaml, prices, and how tokens are counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fdarx_core.llm.prompts import validation_message
from fdarx_core.records import Response
from fdarx_core.storage import Location, StorageError

Structured = Literal["auto", "json_schema", "json_object", "text"]

CHARACTERS_PER_TOKEN = 4.0
"""Of English prose with figures: on drug labels, the vocabularies of Llama 3, Qwen and Mistral give 3.9 to 4.1 over
many labels, 3.7 to 4.6 on most single ones, 4.4 to 4.7 on short questions and answers (benchmarks/RESULTS.md)."""
FRAME_TOKENS = 4
"""Tokens that a chat template adds to each message."""

TokenCounter = Callable[[str], int]


class ModelsError(ValueError):
    """A models file, or a model's options, that cannot be used. The message names the file, the model and the field."""


def _plain_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write it as http://HOST/PATH or https://HOST/PATH")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("it may hold no user, password or query; a key goes into the variable named by key_env")
    return url.rstrip("/")


class Prices(BaseModel):
    """US dollars per million tokens, as the vendor lists them."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    input: float = Field(ge=0)
    """A million prompt tokens."""
    cached_input: float | None = Field(None, ge=0)
    """A million prompt tokens read from the server's prompt cache. Default: as input."""
    cache_write: float | None = Field(None, ge=0)
    """A million prompt tokens written to the cache (anthropic: 1.25 times input). Default: as input."""
    output: float = Field(ge=0)
    """A million completion tokens, reasoning included."""

    def cost(self, response: Response) -> float:
        """Return the cost of a response in US dollars."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        fresh = max(0, response.prompt_tokens - response.cached_tokens - response.written_tokens)
        prompt = fresh * self.input + response.cached_tokens * cached + response.written_tokens * written
        return (prompt + response.completion_tokens * self.output) / 1e6


class ModelConfig(BaseModel):
    """One model on one server. It holds the name of the environment variable with the key, never the key itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """The model's name in a run. It is part of each request's key: under another name, all requests are sent again."""
    kind: Literal["openai", "anthropic"] = "openai"
    """openai: any OpenAI-compatible server (vLLM, Ray Serve, vendors). anthropic: its own API."""
    model: str = Field(min_length=1)
    """The model's id on the server."""
    base_url: Annotated[str, AfterValidator(_plain_address)]
    """Address of the API, such as http://localhost:8000/v1 or https://api.anthropic.com."""
    key_env: str | None = Field(None, pattern=r"^[A-Z][A-Z0-9_]*$", max_length=64)
    """Name of the environment variable that holds the key, in capitals, set on each machine that sends requests. None:
    the server needs no key."""
    sampling: dict[str, Any] = Field(default_factory=dict)
    """Parameters sent with each request (temperature, top_p, seed ...) and part of its key. Temperature 0 makes runs
    comparable; without it, the server's default applies."""
    max_tokens: int = Field(1024, ge=1)
    """The most tokens of one reply. A reply that reaches it is cut short and lost. A high limit costs nothing unless a
    model runs on, but some vendors count it against tokens a minute."""
    max_in_flight: int = Field(64, ge=1)
    """Requests at the server at once. More is faster until the server queues or answers 429; a vLLM replica takes some
    hundreds."""
    requests_per_minute: float | None = Field(None, gt=0)
    """The requests are evenly spaced. None: as fast as the server takes them, slower while it answers 429."""
    tokens_per_minute: float | None = Field(None, gt=0)
    """Prompt and completion together: estimated at first, corrected by the reply's counts."""
    prices: Prices | None = None
    """Without prices the cost of a run is unknown, and --max-cost is refused."""
    context_length: int | None = Field(None, ge=1)
    """Tokens of prompt and reply together. An evaluation leaves out passages of a label until it fits; without it,
    requests that are too long fail."""
    tokenizer: str | None = None
    """A local directory with the model's tokenizer.json, for exact token counts in a plan and in what fits into the
    context. None: they are estimated from characters."""
    structured: Structured = "auto"
    """How the server is held to a reply's schema. auto: json_schema, and where it is refused json_object (anthropic: a
    forced tool call), then text. text with one repair request is the least reliable."""
    first_alone: bool | None = None
    """Of requests that share their first 1,024 tokens or more, such as the questions on one label, send one alone and
    the others once it is answered, so that they find the prefix in a vendor's cache; sent at once, each would pay for
    it. This costs the wait for one reply a label, while other labels are asked. None: only with anthropic, and where
    prices make cached_input cheaper than input. vLLM gains nothing by it."""
    timeout_s: float = Field(300, gt=0)
    """Seconds for one attempt, reply included. Too short a time abandons long replies that are paid for."""
    max_tries: int = Field(8, ge=1)
    """Failed attempts after which a request fails. A throttled attempt (429) does not count."""
    max_wait_s: float = Field(600, ge=0)
    """Seconds that one request may wait between its attempts, throttling included."""

    @property
    def request_parameters(self) -> dict[str, Any]:
        """All that changes a reply beyond the prompt; it is part of each request, and so of the request's key."""
        return {**self.sampling, "model": self.model, "max_tokens": self.max_tokens, "structured": self.structured}

    @property
    def engine(self) -> str:
        """What answers: the kind of API, the model's id, and the sampling parameters that were given."""
        given = [f"{name} {value}" for name, value in sorted(self.sampling.items())]
        return ", ".join([f"{self.kind} {self.model}", *given])

    @property
    def warms_prefixes(self) -> bool:
        """The value of `first_alone`, or its default for this kind of server and these prices."""
        if self.first_alone is not None:
            return self.first_alone
        cached = self.prices.cached_input if self.prices else None
        return self.kind == "anthropic" or bool(self.prices and cached is not None and cached < self.prices.input)

    def key(self) -> str:
        """Read the key from the environment; it is kept nowhere. Raises ValueError where it is missing or malformed."""
        return "" if self.key_env is None else read_key(self.key_env, self.base_url)


def read_key(variable: str, owner: str) -> str:
    """Read an API key from an environment variable; `owner` is the server that it belongs to.

    Raises ValueError where it is missing or malformed.
    """
    key = os.environ.get(variable, "")
    if not key:
        raise ValueError(f"environment variable {variable} is not set; set it to the key of {owner}")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ValueError(f"environment variable {variable} holds white space or is not plain ASCII; correct it")
    return key


VOTE = "vote"
"""The number of a vote among the parameters of a request. It makes the key another, and is not sent."""


def vote_parameters(parameters: Mapping[str, Any], vote: int) -> dict[str, Any]:
    """Return the parameters of the request with which a model votes for the `vote`-th time on the same prompt.

    The first vote has the parameters themselves, so that its response is also that of a run with one vote. A seed among
    them is raised by one a vote, because a server gives equal replies for equal seeds.
    """
    if vote == 1:
        return dict(parameters)
    seed = parameters.get("seed")
    seeded = {"seed": seed + vote - 1} if isinstance(seed, int) else {}
    return {**parameters, **seeded, VOTE: vote}


def load_models(path: str | os.PathLike[str]) -> dict[str, ModelConfig]:
    """Return the models of a YAML file by name. The file is a list of entries with the fields of `ModelConfig`.

    Raises ModelsError where the file, an entry, or a key's environment variable is missing or wrong.
    """
    entries = read_yaml(path, "a YAML file that lists models")
    if not isinstance(entries, list) or not entries:
        raise ModelsError(f"{path}: has no list of models; begin each with '- name: ...'")
    models: dict[str, ModelConfig] = {}
    for position, entry in enumerate(entries, 1):
        name = entry.get("name") if isinstance(entry, dict) else None
        label = name if isinstance(name, str) and name else f"number {position}"
        model = model_config(entry, f"{path}: model {label}")
        if model.name in models or model.name == "baseline":
            owner = "it stands for the built-in rules" if model.name == "baseline" else "another model has it"
            raise ModelsError(f"{path}: model {model.name}: the name is taken, {owner}; choose another")
        models[model.name] = model
    return models


def model_config(fields: Any, where: str) -> ModelConfig:
    """Return a model from its fields. Raises ModelsError, which begins with `where`, for wrong fields or no key."""
    try:
        model = ModelConfig.model_validate(fields)
    except ValidationError as error:
        known = ", ".join(ModelConfig.model_fields)
        raise ModelsError(f"{where}: {validation_message(error)}; the fields are {known}") from None
    try:
        model.key()
    except ValueError as error:
        raise ModelsError(f"{where}: key_env: {error}") from None
    return model


def read_yaml(path: str | os.PathLike[str], what: str) -> Any:
    """Return the content of a YAML file. Raises ModelsError, which asks for `what` where there is no file."""
    try:
        return yaml.safe_load(Location(path).read_text())
    except StorageError as error:
        raise ModelsError(f"{error}; give {what}") from None
    except UnicodeDecodeError as error:
        raise ModelsError(f"{path}: not UTF-8 text: {error}; give {what}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # the error's own text would quote the file, and perhaps a key
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise ModelsError(f"{path}: not YAML: see {where}") from None


def count_messages(messages: Sequence[Mapping[str, str]], counter: TokenCounter) -> int:
    """Return the prompt tokens of a conversation, the chat template's included."""
    return sum(counter(message["content"]) + FRAME_TOKENS for message in messages)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text from its characters."""
    return round(len(text) / CHARACTERS_PER_TOKEN)


def token_counter(model: ModelConfig | None) -> tuple[TokenCounter, bool]:
    """Return a function that counts a model's tokens, and whether it is exact (by the `tokenizer.json` of the model).

    Raises ValueError where the model's `tokenizer` directory has no such file, or the `models` extra is missing.
    """
    if model is None or model.tokenizer is None:
        return estimate_tokens, False
    return load_tokenizer(model.tokenizer), True


@cache
def load_tokenizer(directory: str) -> TokenCounter:
    """Return a function that counts tokens by the `tokenizer.json` of a directory. Raises ValueError as above."""
    file = Path(directory) / "tokenizer.json"
    if not file.is_file():
        raise ValueError(f"tokenizer: {directory} has no tokenizer.json; give the model's directory, or leave it out")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ValueError("tokenizer: counting by it needs the extra: pip install 'fdarx[models]'") from None
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
