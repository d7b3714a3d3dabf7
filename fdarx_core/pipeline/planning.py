"""What a build will ask, before it asks: the built-in rules stand in for the models, so that later steps have work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fdarx_core.llm.models import ModelConfig
from fdarx_core.llm.tokens import count_messages, counter_of
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.plan import baseline, run_steps
from fdarx_core.pipeline.steps import Step
from fdarx_core.records import Request, Response


@dataclass(slots=True)
class PlanRow:
    """One task at one endpoint. Tokens are estimates unless `exact`; `cost` is in USD, None without prices."""

    task: str
    endpoint: str
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    exact: bool = False
    cost: float | None = None


@dataclass(slots=True)
class Tally:
    """Answers as the rules would, and counts what a model in their place would read and write."""

    models: Mapping[str, ModelConfig]
    rows: dict[tuple[str, str], PlanRow] = field(default_factory=dict)

    def __call__(self, requests: Sequence[Request]) -> list[Response]:
        responses = baseline().answer(requests)
        for request, response in zip(requests, responses, strict=True):
            self._add(request, response)
        return responses

    def _add(self, request: Request, response: Response) -> None:
        model = self.models.get(request.endpoint)
        row = self.rows.setdefault((request.task, request.endpoint), PlanRow(request.task, request.endpoint))
        row.requests += 1
        if model is None:
            return  # rules read no tokens
        counter, row.exact = counter_of(model)
        row.prompt_tokens += count_messages(request.messages, counter)
        row.completion_tokens += counter(response.text)


def plan_part(steps: Sequence[Step], models: Mapping[str, ModelConfig], dossiers: Sequence[Dossier]) -> list[PlanRow]:
    """What these labels would have asked."""
    tally = Tally(models)
    run_steps(steps, dossiers, tally)
    return list(tally.rows.values())


def add_up(parts: Sequence[Sequence[PlanRow]], models: Mapping[str, ModelConfig]) -> list[PlanRow]:
    """Rows summed over parts, in the order in which the tasks are asked, with what they would cost."""
    sums: dict[tuple[str, str], PlanRow] = {}
    for row in (row for part in parts for row in part):
        one = sums.setdefault((row.task, row.endpoint), PlanRow(row.task, row.endpoint, exact=row.exact))
        one.requests += row.requests
        one.prompt_tokens += row.prompt_tokens
        one.completion_tokens += row.completion_tokens
    for one in sums.values():
        model = models.get(one.endpoint)
        if model is not None and model.prices is not None:
            counted = Response("", one.task, 0, one.endpoint, "")
            counted.prompt_tokens, counted.completion_tokens = one.prompt_tokens, one.completion_tokens
            one.cost = model.prices.cost(counted)
    return list(sums.values())
