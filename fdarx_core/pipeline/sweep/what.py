"""What a sweep is: who is asked, in which settings, with which retrievers, and who grades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.evaluation.cell import CellKey
from fdarx_core.evaluation.scoring import MARKED
from fdarx_core.evaluation.settings import RETRIEVED, Room, is_due, needs_whole_label
from fdarx_core.evaluation.tasks import EVALUATION_RULES_VERSION, EVALUATION_TASKS
from fdarx_core.llm import Baseline, ModelConfig
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.stepping import Address
from fdarx_core.records import QuestionAnswer, Subject
from fdarx_core.retrieval.models import ModelDirectories


def baseline() -> Baseline:
    """The built-in rules for all tasks of an evaluation."""
    return Baseline(EVALUATION_TASKS, EVALUATION_RULES_VERSION)


@dataclass(frozen=True, slots=True)
class Sweep:
    """One evaluation. `answerers` and `judge` are names of `models`, or `baseline`.

    `scope` of retrieval is label or corpus; `label_chars` cuts a label's text, None leaves it whole; `bertscore` is the
    directory of a model for BERTScore. `given` are the cells of answers made elsewhere, which are graded and not asked
    for, `given_citing` those of their settings in which answers cite.
    """

    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    answerers: Sequence[str] = ()
    judge: str = Baseline.name
    settings: Sequence[str] = ()
    retrievers: Sequence[str] = ()
    top_k: int = 5
    scope: str = "label"
    label_chars: int | None = None
    directories: ModelDirectories = field(default_factory=ModelDirectories)
    bertscore: str | None = None
    bertscore_layers: int | None = None
    given: Sequence[CellKey] = ()
    given_citing: frozenset[str] = frozenset()
    max_requests: int | None = None
    max_cost: float | None = None

    def cells(self, model: str) -> list[CellKey]:
        """In the order in which they are asked: what shares the longest prefix first."""
        if model not in self.answerers:
            return [cell for cell in self.given if cell.model == model]
        keys: list[CellKey] = []
        for setting in self.settings:
            named = self.retrievers if setting == RETRIEVED else [""]
            keys += [CellKey(model, setting, retriever) for retriever in named]
        return keys

    @property
    def sitters(self) -> list[str]:
        """All whose answers are graded: those asked, then those whose answers were made elsewhere."""
        return list(dict.fromkeys([*self.answerers, *(cell.model for cell in self.given)]))

    def is_due(self, setting: str, question: QuestionAnswer, subject: Subject) -> bool:
        """Whether the question is asked in the setting: that is meant for it, and the label's text is at hand."""
        return is_due(setting, question) and (subject.whole or not needs_whole_label(setting))

    def citing(self, model: str) -> frozenset[str]:
        """The settings in which its answers are to cite."""
        return MARKED if model in self.answerers else MARKED | self.given_citing

    def address(self, name: str) -> Address:
        """Where requests of that name go. Raises KeyError for a name that is no model."""
        return Address(name, self.sampling(name))

    def sampling(self, name: str) -> Mapping[str, Any]:
        return baseline().sampling if name == Baseline.name else self.models[name].answers_depend_on

    def room(self, name: str) -> Room:
        """How much of a label fits into the model's context."""
        return Room.of(self.models.get(name), self.label_chars)

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that are asked at all."""
        names = {*self.answerers, self.judge}
        return {name: model for name, model in self.models.items() if name in names}

    @property
    def outside(self) -> Outside:
        return Outside(self.used, self.max_requests, self.max_cost, shared_fate=False)
