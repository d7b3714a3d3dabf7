"""Which steps make a build, and the plain way to run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fdarx_core.generation.contexts import Amounts
from fdarx_core.generation.tasks import RULES_VERSION, TASKS
from fdarx_core.llm import Baseline, ResponseStore, ask
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.steps import Address, Asking, Choose, Generate, Read, Step, apply_rules, keep_one_of_each
from fdarx_core.records import Request, Response

STAGES = ("passages", "contexts", "generate", "rules", "duplicates")
"""The names under which dossiers account for their rows, in order."""

Answer = Callable[[Sequence[Request]], list[Response]]


def build_steps(amounts: Amounts) -> list[Step]:
    """The steps of a build in order, from the address of a label to finished questions."""
    baseline = Baseline(TASKS, RULES_VERSION)
    addresses = {task: Address(baseline.name, baseline.sampling) for task in TASKS}
    return [Read(), Choose(amounts), Generate(addresses), apply_rules, keep_one_of_each]


@dataclass(frozen=True, slots=True)
class AskBaseline:
    """Answers requests by the built-in rules, through the run's response store."""

    store: ResponseStore | None = None

    def __call__(self, requests: Sequence[Request]) -> list[Response]:
        return ask(requests, Baseline(TASKS, RULES_VERSION), self.store)


def run_steps(steps: Sequence[Step], dossiers: Sequence[Dossier], answer: Answer) -> list[Dossier]:
    """Take dossiers through the steps together; the requests of all go out at once, those of one label in a row."""
    for step in steps:
        if isinstance(step, Asking):
            requests = [step.requests(dossier) for dossier in dossiers]
            responses = iter(answer([request for listed in requests for request in listed]))
            for dossier, listed in zip(dossiers, requests, strict=True):
                step.take(dossier, [next(responses) for _ in listed])
        else:
            for dossier in dossiers:
                step(dossier)
    return list(dossiers)
