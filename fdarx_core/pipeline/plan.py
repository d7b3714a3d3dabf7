"""Which steps make a build, and who is asked in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.filters.judges import JUDGE_RULES_VERSION, JUDGE_TASKS, JUDGES, Judge
from fdarx_core.generation.contexts import Amounts
from fdarx_core.generation.tasks import REPHRASE_REFUSAL, RULES_VERSION, TASKS
from fdarx_core.llm import Baseline
from fdarx_core.llm.models import ModelConfig
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.stepping import Address, Step
from fdarx_core.pipeline.steps import Choose, Generate, Judged, Read, apply_rules, keep_one_of_each

STAGES = ("passages", "contexts", "generate", "rules", "duplicates", *(judge.stage for judge in JUDGES))
"""The names under which dossiers account for their rows, in order."""


def baseline() -> Baseline:
    """The built-in rules for all tasks of a build."""
    return Baseline({**TASKS, **JUDGE_TASKS}, f"{RULES_VERSION} {JUDGE_RULES_VERSION}")


@dataclass(frozen=True, slots=True)
class Roles:
    """Who does what in a build: names of `models`, or `baseline`."""

    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    generator: str = Baseline.name
    rephraser: str = Baseline.name
    judge: str = Baseline.name

    def address(self, name: str) -> Address:
        """Where requests of that name go. Raises KeyError for a name that is no model."""
        return Address(name, self.sampling(name))

    def sampling(self, name: str) -> Mapping[str, Any]:
        return baseline().sampling if name == Baseline.name else self.models[name].answers_depend_on

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that are asked at all."""
        names = {self.generator, self.rephraser, self.judge}
        return {name: model for name, model in self.models.items() if name in names}


def build_steps(amounts: Amounts, roles: Roles | None = None, judges: Sequence[Judge] = JUDGES) -> list[Step[Dossier]]:
    """The steps of a build in order, from the address of a label to finished questions. Source: FDARxBench §3.2."""
    roles = roles or Roles()
    writers = dict.fromkeys(TASKS, roles.address(roles.generator))
    writers[REPHRASE_REFUSAL.name] = roles.address(roles.rephraser)
    judge = roles.address(roles.judge)
    judged = [Judged(one, judge) for one in judges]
    return [Read(), Choose(amounts), Generate(writers), apply_rules, keep_one_of_each, *judged]
