"""The options of `fdarx evaluate`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from fdarx_core.evaluation.answers import citing_settings
from fdarx_core.evaluation.settings import RETRIEVED, SETTINGS
from fdarx_core.llm import Baseline, ModelConfig, ModelsError
from fdarx_core.pipeline.sweep.parts import Given
from fdarx_core.pipeline.sweep.what import Sweep
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.registry import RETRIEVERS, check
from jobs.asking_config import load_all, unknown_model
from jobs.deploying import Served
from jobs.measuring_config import MeasuringConfig, at_commas

_NOT_RESULTS = {"out", "cpus", "models", "deploy", "gpus", "only", "reuse", "max_requests", "max_cost", "plan"}
_NOWHERE = "http://not-up-yet"
"""Where a model is asked that is brought up first: its address is known then."""


class EvaluateConfig(MeasuringConfig):
    """Options of `fdarx evaluate`."""

    benchmark: str = Field(
        description="what to ask: a run of `fdarx build`, or a folder (or file) with qa*.jsonl and labels.jsonl in "
        "FDARxBench's published format; on disk or s3://"
    )
    out: str = Field(description="run directory to write, on disk or s3://; the same command again resumes it")
    models: list[str] = Field(
        [Baseline.name],
        description="whom to ask: `baseline` (built-in rules), and YAML files that list models on servers, see "
        "docs/models.md",
    )
    deploy: list[str] = Field(
        default_factory=list,
        description="models to bring up for this, asked as well: a YAML file each, see docs/serving-models.md; each is "
        "taken down once its questions are answered",
    )
    gpus: int | None = Field(
        None,
        ge=1,
        description="GPUs that --deploy may take, those counted that an autoscaling cluster adds (those there are now)",
    )
    only: list[str] = Field(
        default_factory=list,
        description="ask only these models of the files (all of them but the judge)",
    )
    predictions: str | None = Field(
        None,
        description="answers made elsewhere, to be graded: a file of rows with qid and answer, see docs/evaluating.md",
    )
    settings: list[str] = Field(
        list(SETTINGS),
        description="evidence to show: closed_book, full_label, oracle, retrieved; commas or spaces between",
    )
    retrievers: list[str] = Field(
        ["bm25"],
        description=f"what finds passages: {', '.join(RETRIEVERS)}, each also with +rerank; compared with each "
        "other whatever the settings",
    )
    retrieval_scope: Literal["label", "corpus"] = Field(
        "label", description="search the question's own label, or all labels of the benchmark"
    )
    top_k: int = Field(5, ge=1, description="passages shown in the setting retrieved")
    label_chars: int | None = Field(
        None,
        ge=1,
        description="cut a label's text after so many characters, as FDARxBench's published code does at 16000 (whole)",
    )
    judge: str = Field(
        Baseline.name, description="who grades: a name of --models, or the built-in rules, which are no language model"
    )
    cosine_model: str | None = Field(
        None, description="local directory of a sentence-transformers model for cosine (all-MiniLM-L6-v2, if installed)"
    )
    recontriever_model: str | None = Field(None, description="local directory of ReContriever, or another Contriever")
    reranker_model: str | None = Field(None, description="local directory of a BGE reranker, for +rerank")
    sample: int | None = Field(None, ge=1, description="evaluate on this many labels, drawn at random (all)")

    @field_validator("models", "only", "settings", "retrievers", mode="after")
    @classmethod
    def _at_commas(cls, given: list[str]) -> list[str]:
        return at_commas(given)

    @field_validator("settings", mode="after")
    @classmethod
    def _known_settings(cls, given: list[str]) -> list[str]:
        if unknown := [one for one in given if one not in SETTINGS]:
            raise ValueError(f"there is no setting {unknown[0]}; known are {', '.join(SETTINGS)}")
        return given

    @field_validator("retrievers", mode="after")
    @classmethod
    def _known_retrievers(cls, given: list[str]) -> list[str]:
        if unknown := [one for one in given if one.removesuffix("+rerank") not in RETRIEVERS]:
            raise ValueError(f"there is no retriever {unknown[0]}; known are {', '.join(RETRIEVERS)}")
        return given

    def sweep(self, given: Given, served: Served) -> Sweep:
        """Raises ModelsError for a models file that can't be used, a name that is not in it, a limit without prices,
        ModelMissing for a retriever whose models can't be loaded."""
        models = self._models(served)
        answerers = self._answerers(models)
        if self.judge != Baseline.name and self.judge not in models:
            raise ModelsError(f"--judge {self.judge}: {unknown_model(models)}")
        if taken := sorted({cell.model for _, cell in given} & {*answerers}):
            raise ModelsError(f"--predictions has answers of {taken[0]}, which is asked as well; rename it there")
        if RETRIEVED in self.settings and not self.retrievers:
            raise ModelsError("--settings retrieved wants --retrievers")
        directories = ModelDirectories(self.cosine_model, self.recontriever_model, self.reranker_model)
        for name in self.retrievers:
            check(name, directories)
        self.check_bertscore()
        sweep = Sweep(
            models=models,
            answerers=answerers,
            judge=self.judge,
            settings=self.settings,
            retrievers=self.retrievers,
            top_k=self.top_k,
            scope=self.retrieval_scope,
            label_chars=self.label_chars,
            directories=directories,
            bertscore=self.bertscore_model,
            bertscore_layers=self.bertscore_layers,
            given=sorted({cell for _, cell in given}),
            given_citing=citing_settings(given.values()),
            max_requests=self.max_requests,
            max_cost=self.max_cost,
        )
        self.check_prices(sweep.used)
        return sweep

    def identity(self, sweep: Sweep) -> dict[str, Any]:
        """What makes a run this run: every option that can change its results."""
        config = self.model_dump(mode="json", exclude=_NOT_RESULTS)
        # not the baseline's rules: when they change, what they said is made anew
        asked = {name: dict(sweep.sampling(name)) for name in sweep.used}
        return {**config, "answerers": list(sweep.answerers), "asked": asked, "cut_by": self._cut_by(sweep)}

    def _cut_by(self, sweep: Sweep) -> dict[str, Any]:
        """What decides how much of a label each model is shown."""
        bounded = {
            name: model for name, model in sweep.used.items() if model.context_length and name in sweep.answerers
        }
        return {
            name: {"context_length": model.context_length, "tokenizer": model.tokenizer}
            for name, model in bounded.items()
        }

    def _models(self, served: Served) -> dict[str, ModelConfig]:
        if self.gpus is not None and not served:
            raise ModelsError("--gpus bounds what --deploy takes; give --deploy, or leave it out")
        running = load_all(self.models)
        if taken := sorted(running.keys() & served.keys()):
            raise ModelsError(f"--deploy: {taken[0]} is also the name of a model in --models; give one of them another")
        return {**running, **{name: model.asked_at(_NOWHERE) for name, model in served.items()}}

    def _answerers(self, models: dict[str, ModelConfig]) -> list[str]:
        there = [Baseline.name] * (Baseline.name in self.models) + list(models)
        if unknown := [name for name in self.only if name not in there]:
            raise ModelsError(f"--only {unknown[0]}: {unknown_model(models)}")
        if self.only:
            return self.only
        return [name for name in there if name == Baseline.name or name != self.judge]
