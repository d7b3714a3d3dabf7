"""Models and how to reach them: the user's models.yaml, prices, and how tokens are counted."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from fdarx_core.llm import access
from fdarx_core.llm.prompts import validation_message
from fdarx_core.plugins import plugin_packages
from fdarx_core.records import Response
from fdarx_core.storage import Location, StorageError
from fdarx_core.wording import did_you_mean

Structured = Literal["auto", "json_schema", "json_object", "text"]

_HEADER_NAME = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
_CLIENT_HEADERS = ("host", "content-type", "content-length", "transfer-encoding", "connection", "proxy-authorization")

CHARACTERS_PER_TOKEN = 4.0
"""Of English prose with figures: on drug labels, the vocabularies of Llama 3, Qwen and Mistral give 3.9 to 4.1 over
many labels, 3.7 to 4.6 on most single ones, 4.4 to 4.7 on short questions and answers (benchmarks/RESULTS.md)."""
_KINDS = ("openai", "anthropic")
KINDS_GROUP = "fdarx.model_kinds"
"""The entry point group by which other packages add APIs; each entry point names an `OpenAIFormat`."""
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty")
FRAME_TOKENS = 4
"""Tokens that a chat template adds to each message."""

TokenCounter = Callable[[str], int]


class ModelsError(ValueError):
    """A models file, or a model's options, that cannot be used. The message names the file, the model and the field."""


def _known_kind(kind: str) -> str:
    known = (*_KINDS, *plugin_packages(KINDS_GROUP).get(KINDS_GROUP, ()))
    if kind not in known:
        raise ValueError(f"there is no such kind; known are {', '.join(known)}")
    return kind


def _plain_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write it as http://HOST/PATH or https://HOST/PATH")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("it may hold no user, password or query; a key goes into the variable named by key_env")
    return url.rstrip("/")


def _plain_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not re.match(_HEADER_NAME, name) or not value.isprintable():
            raise ValueError(f"{name!r} is no header of one line")
        if name.lower() in _CLIENT_HEADERS:
            raise ValueError(f"{name} is set by the client; leave it out (proxy_login_env holds the login of a proxy)")
        if access.names_secret(name) and not access.REFERENCE.search(value):
            raise ValueError(f"{name} looks like a secret; put it into an environment variable and write ${{VARIABLE}}")
    return headers


def _plain_query(query: dict[str, str]) -> dict[str, str]:
    if secret := next(filter(access.names_secret, query), None):
        raise ValueError(f"{secret} looks like a secret, which servers log with addresses; send it as a header")
    return query


def _text(value: Any) -> Any:
    """Return a parameter as text: YAML reads an API version as a date or a number."""
    return str(value) if isinstance(value, (date, int, float)) else value


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
    batch_discount: float = Field(0.5, ge=0, le=1)
    """The share of all these prices that a request saves by the vendor's batch API (--batch)."""

    def cost(self, response: Response) -> float:
        """Return the cost of a response in US dollars."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        fresh = max(0, response.prompt_tokens - response.cached_tokens - response.written_tokens)
        prompt = fresh * self.input + response.cached_tokens * cached + response.written_tokens * written
        share = 1 - self.batch_discount if response.batched else 1.0
        return share * (prompt + response.completion_tokens * self.output) / 1e6


class ModelConfig(BaseModel):
    """One model on one server. It holds the names of the environment variables with secrets, never the secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """The model's name in a run. It is part of each request's key: under another name, all requests are sent again."""
    kind: Annotated[str, AfterValidator(_known_kind)] = "openai"
    """openai: any OpenAI-compatible server (vLLM, Ray Serve, vendors). anthropic: its own API. Installed packages may
    add others."""
    model: str = Field(min_length=1)
    """The model's id on the server."""
    base_url: Annotated[str, AfterValidator(_plain_address)] = ""
    """Address of the API, such as http://localhost:8000/v1 or https://api.anthropic.com."""
    key_env: str | None = Field(None, pattern=access.VARIABLE_PATTERN, max_length=64)
    """Name of the environment variable that holds the key, in capitals, set on each machine that sends requests. None:
    the server needs no key."""
    key_command: str | None = None
    """A command that prints a key or token, run without a shell on each machine that sends requests: at first use, when
    `key_ttl_s` is over, and once when the server refuses the key (401)."""
    key_ttl_s: float = Field(600, gt=0)
    """Seconds for which a key of `key_command` is used. Shorter than the token lives, no request is refused for it."""
    key_header: str | None = Field(None, pattern=_HEADER_NAME)
    """The header with the key, such as api-key on Azure. Authorization takes `Bearer KEY`, others the key alone. None:
    the header of the API."""
    headers: Annotated[dict[str, str], AfterValidator(_plain_headers)] = Field(default_factory=dict)
    """More headers of each request. `${NAME}` stands for an environment variable, which holds what is secret."""
    query: Annotated[dict[str, Annotated[str, BeforeValidator(_text)]], AfterValidator(_plain_query)] = Field({})
    """Query parameters of each request, such as api-version on Azure. They may hold no secret."""
    proxy: Annotated[str, AfterValidator(access.proxy_address)] | None = None
    """Address of the forward proxy, such as http://proxy:3128. None: HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the
    environment apply."""
    proxy_login_env: str | None = Field(None, pattern=access.VARIABLE_PATTERN, max_length=64)
    """Name of the environment variable that holds USER:PASSWORD of `proxy`."""
    ca_file: str | None = None
    """A PEM file of certificate authorities to trust besides those of the system, on each machine that sends
    requests."""
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
    batch_api: bool = True
    """Whether --batch sends the model's requests through the batch API of its server. false: they are sent directly in
    any case, for a server without a batch API beside others in one run."""

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if not self.base_url:
            raise ValueError("base_url is missing; give the address of the server, such as http://localhost:8000/v1")
        if self.key_env and self.key_command:
            raise ValueError("key_env and key_command both give the key; leave one of them out")
        if self.proxy_login_env and not self.proxy:
            raise ValueError("proxy_login_env needs proxy; the login of HTTPS_PROXY stands in its own address")
        if (self.key_env or self.key_command) and any(name.lower() == self._key_header for name in self.headers):
            raise ValueError(f"headers: {self._key_header} carries the key; leave it out there")
        return self

    @property
    def _key_header(self) -> str:
        return (self.key_header or ("x-api-key" if self.kind == "anthropic" else "authorization")).lower()

    @property
    def request_parameters(self) -> dict[str, Any]:
        """All that changes a reply beyond the prompt; it is part of each request, and so of the request's key."""
        return {**self.sampling, "model": self.model, "max_tokens": self.max_tokens, "structured": self.structured}

    @property
    def engine(self) -> str:
        """What answers: the kind of API, the model's id, and the sampling parameters that were given."""
        parameters = [f"{name} {value}" for name, value in sorted(self.sampling.items())]
        return ", ".join([f"{self.kind} {self.model}", *parameters])

    @property
    def warms_prefixes(self) -> bool:
        """The value of `first_alone`, or its default for this kind of server and these prices."""
        if self.first_alone is not None:
            return self.first_alone
        cached = self.prices.cached_input if self.prices else None
        return self.kind == "anthropic" or bool(self.prices and cached is not None and cached < self.prices.input)

    def key(self) -> str:
        """Read the key from the environment; it is kept nowhere. Raises ValueError where it is missing or malformed."""
        if self.key_env is None:
            return ""
        key = access.read_variable(self.key_env, "key_env", f"the key of {self.base_url or self.model}")
        return access.check_key(key, f"key_env: environment variable {self.key_env}")

    def find_proxy(self) -> access.Proxy | None:
        """Return the proxy of this model or of the environment. Raises ValueError for one that cannot be used."""
        return access.find_proxy(self.base_url, self.proxy, self.proxy_login_env) if self.base_url else None

    def check_access(self) -> None:
        """Raise ValueError if a variable, file or program is missing on this machine that requests need."""
        self.key()
        access.expand_headers(self.headers)
        self.find_proxy()
        if self.ca_file:
            access.tls_context(self.ca_file)
        if self.key_command is not None:
            access.split_command(self.key_command)


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


def load_models(path: str | os.PathLike[str], *, check_access: bool = True) -> dict[str, ModelConfig]:
    """Return the models of a YAML file by name. The file is a list of entries with the fields of `ModelConfig`.

    Raises ModelsError where the file or an entry is wrong or, with `check_access`, what an entry needs on this machine.
    """
    entries = read_yaml(path, "a YAML file that lists models")
    if not isinstance(entries, list) or not entries:
        raise ModelsError(f"{path}: has no list of models; begin each with '- name: ...'")
    models: dict[str, ModelConfig] = {}
    for position, entry in enumerate(entries, 1):
        name = entry.get("name") if isinstance(entry, dict) else None
        label = name if isinstance(name, str) and name else f"number {position}"
        model = model_config(entry, f"{path}: model {label}", check_access=check_access)
        if model.name in models or model.name == "baseline":
            owner = "it stands for the built-in rules" if model.name == "baseline" else "another model has it"
            raise ModelsError(f"{path}: model {model.name}: the name is taken, {owner}; choose another")
        models[model.name] = model
    return models


def model_config(fields: Any, where: str, *, check_access: bool = True) -> ModelConfig:
    """Return a model from its fields. Raises ModelsError, which begins with `where`, for wrong fields or no access."""
    try:
        model = ModelConfig.model_validate(fields)
    except ValidationError as error:
        raise ModelsError(f"{where}: {fields_message(error, ModelConfig.model_fields)}") from None
    for name in model.sampling:
        if near := did_you_mean(name, _SAMPLING, 0.8):
            print(f"warning: {where}: the server is sent {name} of sampling{near}", file=sys.stderr)
    try:
        if check_access:
            model.check_access()
    except ValueError as error:
        raise ModelsError(f"{where}: {error}") from None
    return model


def fields_message(error: ValidationError, known: Collection[str]) -> str:
    """Return what is wrong with the fields of a model, on one line. For an unknown field, it is the right place."""
    unknown = [str(fault["loc"][0]) for fault in error.errors() if fault["type"] == "extra_forbidden"]
    name = next((name for name in unknown if name not in known), None)
    if name is None:
        return validation_message(error).removeprefix("content: ")
    near = did_you_mean(name, known, 0.8)
    if not near and "sampling" in known and (close := get_close_matches(name, _SAMPLING, n=1, cutoff=0.8)):
        near = f"; write it under sampling: {{{close[0]}: ...}}"
    if not near and "key_env" in known and re.search("key|secret|password|token$", name, re.IGNORECASE):
        near = "; write the name of an environment variable with the key into key_env"
    return f"there is no field {name}{near or '; the fields are ' + ', '.join(known)}"


def read_yaml(path: str | os.PathLike[str], what: str) -> Any:
    """Return the content of a YAML file. Raises ModelsError, which asks for `what` where there is no file."""
    try:
        return yaml.safe_load(Location(path).read_text())
    except StorageError as error:
        raise ModelsError(str(error) if Location(path).is_file() else f"{error}; give {what}") from None
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


_ESTIMATE_ERROR = 1.1


def tokens_left(model: ModelConfig | None, prompt_tokens: int) -> tuple[int | None, TokenCounter]:
    """Return the tokens that a model's context has for evidence, and the function that counts them.

    Args:
        model: the model; None for one without a limit.
        prompt_tokens: the tokens of the prompt without its evidence.

    Returns:
        The rest of the context after reply and prompt, a tenth less where tokens are estimated; None without a limit.
    """
    counter, exact = token_counter(model)
    if model is None or model.context_length is None:
        return None, counter
    left = max(0, model.context_length - model.max_tokens - prompt_tokens)
    return (left if exact else int(left / _ESTIMATE_ERROR)), counter


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
