"""What is compared: strategies × post-processing, on one index, and who is asked for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fdarx_core.llm import Baseline, ModelConfig
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.stepping import Address
from fdarx_core.rag.contexts import budget_of
from fdarx_core.rag.flow import CANDIDATES, CONTEXTS, Recipe
from fdarx_core.rag.strategies import ABLATIONS, STRATEGIES
from fdarx_core.rag.tasks import RAG_RULES_VERSION, RAG_TASKS
from fdarx_core.rag.tools import Role
from fdarx_core.records import RagQuestion
from fdarx_core.retrieval.index import Only
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.storage import Location


def baseline() -> Baseline:
    """The built-in rules for all tasks of answering and judging."""
    return Baseline(RAG_TASKS, RAG_RULES_VERSION)


class Way(NamedTuple):
    """One way to answer, as the tables name it."""

    strategy: str
    postprocess: str


@dataclass(frozen=True, slots=True)
class RagSweep:
    """One comparison. `roles` names for each role a model of `models`, or `baseline`.

    `exclude` leaves documents out of every search; `exclude_own` also the one that a question names as its own, as the
    paper's test did. `encoder` and `bertscore` are model directories, for the similarity of answers.
    Source: QA-RAG §3.
    """

    place: Location
    version: str
    retriever: str
    retrievers: Sequence[str]
    strategies: Sequence[str]
    postprocessors: Sequence[str]
    roles: Mapping[Role, str]
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    candidates: int = CANDIDATES
    contexts: int = CONTEXTS
    exclude: Sequence[str] = ()
    exclude_own: bool = False
    directories: ModelDirectories = field(default_factory=ModelDirectories)
    encoder: str | None = None
    bertscore: str | None = None
    bertscore_layers: int | None = None
    max_requests: int | None = None
    max_cost: float | None = None

    @property
    def ways(self) -> list[Way]:
        return [Way(strategy, post) for strategy in self.strategies for post in self.postprocessors]

    def recipe(self, way: Way, question: RagQuestion) -> Recipe:
        strategy = (STRATEGIES | ABLATIONS)[way.strategy]
        return Recipe(strategy, way.postprocess, self.candidates, self.contexts, self._budget, self.only(question))

    @property
    def _budget(self) -> int | None:
        return budget_of(self.models.get(self.roles["answerer"]))

    def only(self, question: RagQuestion) -> Only:
        """Which chunks a question may find."""
        own = (question.title,) if self.exclude_own and question.title else ()
        return Only(exclude=(*self.exclude, *own))

    def address(self, role: Role) -> Address:
        name = self.roles[role]
        sampling = baseline().sampling if name == Baseline.name else self.models[name].answers_depend_on
        return Address(name, sampling)

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that are asked at all."""
        asked = {self.roles[role] for role in self._roles_asked()}
        return {name: model for name, model in self.models.items() if name in asked}

    def _roles_asked(self) -> set[Role]:
        needed: set[Role] = {"answerer", "judge"}
        for name in self.strategies:
            role = (STRATEGIES | ABLATIONS)[name].role
            if role:
                needed.add(role)
        return needed | ({"scorer"} if "score" in self.postprocessors else set())

    @property
    def outside(self) -> Outside:
        return Outside(self.used, self.max_requests, self.max_cost, shared_fate=False)
