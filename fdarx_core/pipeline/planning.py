"""Plans: what a run would ask, before it asks. The built-in rules answer in place of models, so that later steps have
work; how many tokens a prefix cache would save is counted along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fdarx_core.llm import Baseline
from fdarx_core.llm.model_config import FRAME_TOKENS, ModelConfig, TokenCounter, token_counter
from fdarx_core.records import Request, Response


@dataclass(slots=True)
class PlanRow:
    """One request, told apart by its `key`, or the sum of all of one task at one endpoint.

    Tokens are estimates unless `exact`; `cost` is in USD, None without prices. `shared_tokens` are those of the
    prompts with which the prompt before begins as well, so that a server that caches prefixes need not compute them;
    `cost` counts them as all others.
    """

    task: str
    endpoint: str
    requests: int = 0
    prompt_tokens: int = 0
    shared_tokens: int = 0
    completion_tokens: int = 0
    exact: bool = False
    cost: float | None = None
    key: int = 0


Counted: TypeAlias = Sequence[tuple[str, int]]
"""The texts of a prompt's messages, each with its tokens, the template's marks included."""


@dataclass(slots=True)
class Tally:
    """Answers as the rules would, and notes what a model in their place would read and write."""

    rules: Baseline
    models: Mapping[str, ModelConfig]
    planned: list[PlanRow] = field(default_factory=list)
    before: dict[str, Counted] = field(default_factory=dict)

    def __call__(self, requests: Sequence[Request]) -> list[Response]:
        responses = self.rules.answer(requests)
        self.planned += [self._count(*pair) for pair in zip(requests, responses, strict=True)]
        return responses

    def note(self, requests: Sequence[Request]) -> None:
        """Record requests to an endpoint that reads no tokens."""
        self.planned += map(_row, requests)

    def _count(self, request: Request, response: Response) -> PlanRow:
        row, model = _row(request), self.models.get(request.endpoint)
        if model is not None:  # rules read no tokens
            counter, _ = token_counter(model)
            row.prompt_tokens, row.shared_tokens = count_prompt(
                self.before, request.endpoint, request.messages, counter
            )
            row.completion_tokens = counter(response.text)
        return row


def _row(request: Request) -> PlanRow:
    return PlanRow(request.task, request.endpoint, requests=1, key=int(request.key[:16], 16))


def count_prompt(
    before: dict[str, Counted], endpoint: str, messages: Sequence[dict[str, str]], counter: TokenCounter
) -> tuple[int, int]:
    """Return the tokens of the next prompt, and how many of them the previous prompt begins with too.

    `before` holds the prompt before by endpoint; this one takes its place.
    """
    last = before.get(endpoint, ())
    known = dict(last)  # so that a label that stands in forty prompts is counted once
    texts = [message["content"] for message in messages]
    now = [(text, known[text] if text in known else counter(text) + FRAME_TOKENS) for text in texts]
    before[endpoint] = now
    return sum(tokens for _, tokens in now), _shared(last, now, counter)


def add_up(parts: Iterable[Sequence[PlanRow]], models: Mapping[str, ModelConfig]) -> list[PlanRow]:
    """Return one row per task and endpoint, in the order of the tasks, with its cost.

    Identical requests are sent once, so they are counted once.
    """
    sums: dict[tuple[str, str], PlanRow] = {}
    seen: set[int] = set()
    for one in (one for part in parts for one in part):
        row = sums.setdefault((one.task, one.endpoint), PlanRow(one.task, one.endpoint))
        if one.key not in seen:
            seen.add(one.key)
            row.requests += one.requests
            row.prompt_tokens += one.prompt_tokens
            row.shared_tokens += one.shared_tokens
            row.completion_tokens += one.completion_tokens
    for row in sums.values():
        _price(row, models.get(row.endpoint))
    return list(sums.values())


def _price(row: PlanRow, model: ModelConfig | None) -> None:
    if model is None:
        return
    _, row.exact = token_counter(model)
    if model.prices is not None:
        counted = Response("", row.task, 0, row.endpoint, "")
        counted.prompt_tokens, counted.completion_tokens = row.prompt_tokens, row.completion_tokens
        row.cost = model.prices.cost(counted)


def _shared(before: Counted, now: Counted, counter: TokenCounter) -> int:
    shared = 0
    for (old, _), (new, tokens) in zip(before, now, strict=False):
        if old != new:
            return shared + counter(new[: agreement(old, new)])
        shared += tokens
    return shared


def agreement(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
