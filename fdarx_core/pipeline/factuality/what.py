"""What a scoring is: who makes out claims, where evidence is, who judges, and what counts how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from fdarx_core.factuality.evidence import EvidenceSpec, K
from fdarx_core.factuality.evidence.pubmed import YEARS, PubMed, PubMedSettings
from fdarx_core.factuality.scores import Weights
from fdarx_core.factuality.similarity import similarity_name
from fdarx_core.factuality.tasks import FACTUALITY_RULES_VERSION, FACTUALITY_TASKS
from fdarx_core.factuality.verdicts import THRESHOLD
from fdarx_core.llm import Baseline, ModelConfig
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.stepping import Address
from fdarx_core.report.factuality import Method
from fdarx_core.retrieval.models import ModelDirectories


def baseline() -> Baseline:
    """The built-in rules for all tasks of factuality."""
    return Baseline(FACTUALITY_TASKS, FACTUALITY_RULES_VERSION)


@dataclass(frozen=True, slots=True)
class Engine:
    """Who judges entailment: rules; nli, a model in the directory or of the hub's name `place`; judge, one of `models`.

    Verdicts and tables name it `name`.
    """

    kind: Literal["rules", "nli", "judge"]
    name: str
    place: str = ""
    labels: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Checking:
    """One scoring. `claims` is baseline or a name of `models`; `compared` a second engine for the ablation.

    `safety` is the run whose labels safety flags rest on, `rxnav` where drugs by other names are asked for, each
    "" for none. `bertscore` and `encoder` are directories of models for the similarity of answers and references.
    """

    evidence: str
    engine: Engine
    compared: Engine | None = None
    claims: str = Baseline.name
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    threshold: float = THRESHOLD
    k: int = K
    weights: Weights = field(default_factory=Weights)
    safety: str = ""
    rxnav: str = ""
    bertscore: str | None = None
    bertscore_layers: int | None = None
    encoder: str | None = None
    years: tuple[int, int] = YEARS
    pubmed: PubMedSettings = field(default_factory=PubMedSettings)
    max_requests: int | None = None
    max_cost: float | None = None

    @property
    def engines(self) -> list[Engine]:
        """The main one first."""
        return [self.engine, *([self.compared] if self.compared else [])]

    @property
    def method(self) -> Method:
        """How the page says that answers were scored."""
        return Method(
            claims=self.claims,
            entailment=self.engine.name,
            evidence=self.evidence,
            similarity=similarity_name(self.bertscore, self.encoder),
            threshold=self.threshold,
            k=self.k,
            weights=self.weights,
            compared=self.compared.name if self.compared else "",
        )

    @property
    def asks_for_claims(self) -> bool:
        return self.claims != Baseline.name

    @property
    def from_pubmed(self) -> bool:
        return EvidenceSpec.parse(self.evidence).is_pubmed

    @property
    def directories(self) -> ModelDirectories:
        """Of an index's embedding model."""
        return ModelDirectories(cosine=self.encoder)

    @property
    def outside(self) -> Outside:
        others = [partial(PubMed, self.pubmed)] if self.from_pubmed else []
        return Outside(self.used, self.max_requests, self.max_cost, shared_fate=False, others=others)

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that are asked at all."""
        names = {self.claims, *(engine.name for engine in self.engines if engine.kind == "judge")}
        return {name: model for name, model in self.models.items() if name in names}

    def address(self, name: str) -> Address:
        """Where requests to a model go."""
        return Address(name, self.models[name].answers_depend_on)
