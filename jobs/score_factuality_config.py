"""The options of `fdarx factuality`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from fdarx_core.factuality.entailment.nli import check_nli
from fdarx_core.factuality.entailment.nli.model import name_of
from fdarx_core.factuality.evidence import EvidenceSpec, K, LocalEvidence, open_evidence
from fdarx_core.factuality.evidence.pubmed import YEARS, PubMedSettings
from fdarx_core.factuality.figures import RESAMPLES
from fdarx_core.factuality.safety.rxnav import ADDRESS
from fdarx_core.factuality.scores import Weights
from fdarx_core.factuality.verdicts import THRESHOLD
from fdarx_core.llm import Baseline, ModelConfig, ModelsError
from fdarx_core.pipeline.factuality.what import Checking, Engine
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.storage.answers import Census
from fdarx_core.storage.benchmark import open_build
from jobs.asking_config import load_all, unknown_model
from jobs.measuring_config import MeasuringConfig, at_commas

_HOW = {"out", "cpus", "models", "reuse", "max_requests", "max_cost", "plan", "pubmed_url", "pubmed_email", "rxnav_url"}
_TOLD_OTHERWISE = {"predictions", "gold"}
_YEARS = re.compile(r"(\d{4})(?:-(\d{4}))?")
_SPAN = f"{YEARS[0]}-{YEARS[1]}"
_WEIGHTS = Weights()


class ScoreFactualityConfig(MeasuringConfig):
    """Options of `fdarx factuality`."""

    predictions: list[str] = Field(
        min_length=1,
        description="answers to check: files (jsonl, json, csv, parquet) with a question and an answer a row, or "
        "finished runs of `fdarx evaluate` or `fdarx evaluate-rag`",
    )
    evidence: str = Field(
        description="what claims are held against: labels:RUN (the passages of the question's own label, of a build), "
        "all-labels:RUN, index:INDEX (of `fdarx index`), file:PATH (rows of texts), or pubmed"
    )
    out: str = Field(description="run directory to write, on disk or s3://; the same command again resumes it")
    gold: list[str] = Field(
        default_factory=list,
        description="files with MedLFQA's fields (Question, Free_form_answer, Must_have, Nice_to_have), matched by "
        "question; without them nothing is correlated with gold factuality",
    )
    models: list[str] = Field(default_factory=list, description="YAML files that list models, see docs/models.md")
    claims: str = Field(Baseline.name, description="who makes out claims: baseline (rules), or a name of --models")
    entailment: str = Field(
        Baseline.name,
        description="who judges claims: baseline (rules), an NLI cross-encoder's directory or name on the hub, or a "
        "name of --models",
    )
    compare_entailment: str | None = Field(
        None, description="a second judge, of the same forms, to compare with the first as one of the ablations"
    )
    nli_labels: list[str] = Field(
        default_factory=list,
        description="the classes of the NLI model's outputs in their order, where its configuration does not name them",
    )
    threshold: float = Field(THRESHOLD, gt=0, le=1, description="probability from which a passage decides on a claim")
    k: int = Field(K, ge=1, le=100, description="passages for each claim")
    weights: str = Field(
        f"{_WEIGHTS.similarity},{_WEIGHTS.support},{_WEIGHTS.contra}",
        description="what similarity, support and the absence of contradiction count in FAS; they add up to 1",
    )
    safety: str | None = Field(
        None, description="a build whose labels safety flags rest on (that of labels:RUN and all-labels:RUN)"
    )
    cosine_model: str | None = Field(
        None,
        description="local directory of a sentence-transformers model: similarity where BERTScore has none, and the "
        "vectors of an index",
    )
    rxnav: bool = Field(
        False, description="ask RxNav for the ingredients of drugs that no label of --safety names so (brands, mostly)"
    )
    rxnav_url: str | None = Field(None, description="where RxNav is, if not at NLM")
    years: str = Field(_SPAN, description="years of publication of the articles that PubMed may give")
    pubmed_url: str | None = Field(None, description="where Entrez is, if not at NCBI")
    pubmed_email: str | None = Field(None, description="whom NCBI may write to before it blocks an address")
    sample: int | None = Field(None, ge=1, description="answers to so many questions, drawn at random (all)")
    resamples: int = Field(RESAMPLES, ge=100, description="bootstrap resamples; more make steadier intervals")

    @field_validator("predictions", "gold", "models", "nli_labels", mode="after")
    @classmethod
    def _at_commas(cls, given: list[str]) -> list[str]:
        return at_commas(given)

    @field_validator("weights", mode="after")
    @classmethod
    def _weigh(cls, given: str) -> str:
        Weights.read(given)
        return given

    @field_validator("years", mode="after")
    @classmethod
    def _span(cls, given: str) -> str:
        _years(given)
        return given

    @field_validator("evidence", mode="after")
    @classmethod
    def _named(cls, given: str) -> str:
        EvidenceSpec.parse(given)
        return given

    def checking(self) -> Checking:
        """Raises ModelsError for a model that can't be used, ModelMissing for a directory, StorageError for a run."""
        models = load_all(self.models)
        if self.claims not in {Baseline.name, *models}:
            raise ModelsError(f"--claims {self.claims}: {unknown_model(models)}")
        self.check_bertscore()
        checking = Checking(
            evidence=self.evidence,
            engine=self._engine("--entailment", self.entailment, models),
            compared=self._compared(models),
            claims=self.claims,
            models=models,
            threshold=self.threshold,
            k=self.k,
            weights=Weights.read(self.weights),
            safety=self._safety(),
            rxnav=self._rxnav(),
            bertscore=self.bertscore_model,
            bertscore_layers=self.bertscore_layers,
            encoder=ModelDirectories(cosine=self.cosine_model).of("cosine") if self.cosine_model else None,
            years=_years(self.years),
            pubmed=self._pubmed(),
            max_requests=self.max_requests,
            max_cost=self.max_cost,
        )
        self.check_prices(checking.used)
        return checking

    def source(self, checking: Checking) -> LocalEvidence | None:
        """The evidence, opened to see that it is there; None for PubMed. Raises as `open_evidence`."""
        return None if checking.from_pubmed else open_evidence(checking.evidence, checking.directories)

    def identity(self, checking: Checking, source: LocalEvidence | None, census: Census) -> dict[str, Any]:
        """What makes a run this run: every option that can change its results, and the answers."""
        return {
            **self.model_dump(mode="json", exclude=_HOW | _TOLD_OTHERWISE),
            "safety": checking.safety,
            "asked": {name: model.answers_depend_on for name, model in checking.used.items()},
            "evidence": self.evidence if source is None else dict(source.identity),
            "answers": census.digest,
        }

    def _compared(self, models: Mapping[str, ModelConfig]) -> Engine | None:
        if self.compare_entailment is None:
            return None
        engine = self._engine("--compare-entailment", self.compare_entailment, models)
        if engine.name == self._engine("--entailment", self.entailment, models).name:
            raise ModelsError(
                f"--compare-entailment {self.compare_entailment}: --entailment has the same name; compare another"
            )
        return engine

    def _engine(self, option: str, given: str, models: Mapping[str, ModelConfig]) -> Engine:
        if given == Baseline.name:
            return Engine("rules", given)
        if given in models:
            return Engine("judge", given)
        try:
            labels = tuple(self.nli_labels) or None
            check_nli(given, labels)
        except ModelMissing as error:
            known = ", ".join((Baseline.name, *models))
            raise ModelMissing(f"{option} {given}: {error} (or one of {known})") from error
        return Engine("nli", name_of(given), given, labels)

    def _safety(self) -> str:
        """The run of the labels, "" for none. Raises StorageError where it is no finished build."""
        spec = EvidenceSpec.parse(self.evidence)
        of_evidence = spec.place if spec.kind in ("labels", "all-labels") else ""
        place = self.safety or of_evidence
        return str(open_build(place).root) if place else ""

    def _rxnav(self) -> str:
        """Its address, "" where it is not asked. Raises ValueError where there is no label to find drugs by."""
        if self.rxnav and not self._safety():
            raise ValueError("--rxnav finds drugs for safety flags, which need labels: give --safety RUN")
        return (self.rxnav_url or ADDRESS) if self.rxnav else ""

    def _pubmed(self) -> PubMedSettings:
        given = {"base_url": self.pubmed_url, "email": self.pubmed_email}
        return PubMedSettings.model_validate({name: value for name, value in given.items() if value})


def _years(given: str) -> tuple[int, int]:
    """Raises ValueError for anything but 2014-2024 or 2020."""
    found = _YEARS.fullmatch(given.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if first > last:
        raise ValueError(f"write the first and the last year, as {_SPAN}")
    return first, last
