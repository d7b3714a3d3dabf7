"""What a build will ask, before it asks: the built-in rules stand in for the models, so that later steps have work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fdarx_core.llm import Baseline
from fdarx_core.llm.models import ModelConfig
from fdarx_core.llm.tokens import counter_of
from fdarx_core.pipeline.prefixes import Prefixes
from fdarx_core.pipeline.stepping import File, Step, run_steps
from fdarx_core.records import Request, Response


@dataclass(slots=True)
class PlanRow:
    """One task at one endpoint. Tokens are estimates unless `exact`; `cost` is in USD, None without prices.

    `shared_tokens` are those of the prompts with which the prompt before begins as well, so that a server that caches
    prefixes need not compute them; `cost` counts them as all others.
    """

    task: str
    endpoint: str
    requests: int = 0
    prompt_tokens: int = 0
    shared_tokens: int = 0
    completion_tokens: int = 0
    exact: bool = False
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """One request that would be asked, with the tokens that it and its reply would hold."""

    key: int
    task: str
    endpoint: str
    prompt_tokens: int
    shared_tokens: int
    completion_tokens: int


@dataclass(slots=True)
class Tally:
    """Answers as the rules would, and notes what a model in their place would read and write."""

    rules: Baseline
    models: Mapping[str, ModelConfig]
    planned: list[Planned] = field(default_factory=list)
    prefixes: Prefixes = field(default_factory=Prefixes)

    def __call__(self, requests: Sequence[Request]) -> list[Response]:
        responses = self.rules.answer(requests)
        self.planned += [self._count(*pair) for pair in zip(requests, responses, strict=True)]
        return responses

    def _count(self, request: Request, response: Response) -> Planned:
        model = self.models.get(request.endpoint)
        prompt, shared, completion = 0, 0, 0  # rules read none
        if model is not None:
            counter, _ = counter_of(model)
            prompt, shared = self.prefixes.count(request.endpoint, request.messages, counter)
            completion = counter(response.text)
        return Planned(int(request.key[:16], 16), request.task, request.endpoint, prompt, shared, completion)


def plan_part(
    steps: Sequence[Step[File]], rules: Baseline, models: Mapping[str, ModelConfig], files: Sequence[File]
) -> list[Planned]:
    """What these labels would have asked."""
    tally = Tally(rules, models)
    run_steps(steps, files, tally)
    return tally.planned


def add_up(parts: Iterable[Sequence[Planned]], models: Mapping[str, ModelConfig]) -> list[PlanRow]:
    """A row a task and endpoint, in the order in which tasks are asked, with what they would cost.

    What labels ask in the same words is asked once, so it counts once.
    """
    sums: dict[tuple[str, str], PlanRow] = {}
    seen: set[int] = set()
    for one in (one for part in parts for one in part):
        row = sums.setdefault((one.task, one.endpoint), PlanRow(one.task, one.endpoint))
        if one.key not in seen:
            seen.add(one.key)
            row.requests += 1
            row.prompt_tokens += one.prompt_tokens
            row.shared_tokens += one.shared_tokens
            row.completion_tokens += one.completion_tokens
    for row in sums.values():
        _price(row, models.get(row.endpoint))
    return list(sums.values())


def _price(row: PlanRow, model: ModelConfig | None) -> None:
    if model is None:
        return
    _, row.exact = counter_of(model)
    if model.prices is not None:
        counted = Response("", row.task, 0, row.endpoint, "")
        counted.prompt_tokens, counted.completion_tokens = row.prompt_tokens, row.completion_tokens
        row.cost = model.prices.cost(counted)
