"""The options of jobs as pydantic models, and the parts that several jobs share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from cyclopts import Group, Parameter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

if TYPE_CHECKING:  # importing these takes longer than showing a job's help may
    from fdarx_core.llm import ModelConfig
    from fdarx_core.pipeline.executor import Demand
    from fdarx_core.rag.search import Role

BASELINE = "baseline"
"""The name of the built-in rules among models."""

PRESENTATION = frozenset({"quiet", "verbose", "as_json"})
"""Options of every job that change what it prints, and nothing else."""

_COMPUTING = {"cpus", "gpus", "gpus_per_actor", "executor", "asking_workers"}
HOW = {"out", "models", "reuse", "max_requests", "max_cost", "plan", "batch", "batch_files", *_COMPUTING}
"""Options of a job that asks models that change none of its results."""


T = TypeVar("T")
_REQUIRED = Parameter(group=Group("Required options", sort_key=-2), show=True)
Required: TypeAlias = Annotated[T, _REQUIRED]
"""An option that has a default, and is nevertheless required except in a special case, which its help text names."""
Common: TypeAlias = Annotated[T, Parameter(group=Group("Common options", sort_key=-1), show=True)]
"""An option that `--help` of a job in `jobs.cli` shows beside the required ones; `--help-all` shows all."""

ASKING = Group("Asking models", sort_key=1)
RUNNING = Group("Running", sort_key=2)
_RESOURCES = Group("Resources", sort_key=3)
OUTPUT = Group("Output", sort_key=4)


class JobConfig(BaseModel):
    """The base of all jobs' options. A field's docstring is its help text; unknown options are refused."""

    model_config = ConfigDict(extra="forbid", defer_build=True, use_attribute_docstrings=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for field in cls.model_fields.values():
            field.description = " ".join((field.description or "").split())
            if field.is_required() and _REQUIRED not in field.metadata:
                field.metadata.append(_REQUIRED)

    quiet: Annotated[bool, Parameter(alias="-q", group=OUTPUT)] = False
    """show no progress"""
    verbose: Annotated[bool, Parameter(alias="-v", group=OUTPUT)] = False
    """print all tables, not only the main one, and messages of the libraries"""
    as_json: Annotated[bool, Parameter(name="--json", group=OUTPUT)] = False
    """print the result as one JSON object, and nothing else on standard output"""


class ComputingConfig(JobConfig):
    """The resources of this machine that a job uses."""

    cpus: Annotated[Common[int | None], Parameter(group=_RESOURCES)] = Field(None, ge=1)
    """number of CPUs of this machine to use (all); on a cluster, the CPUs to ask for, also of machines that are still
    to be added (those that are there, and more and more of them while tasks wait)"""

    @property
    def demand(self) -> Demand:
        """What the job asks a cluster for, by those of these options that it has."""
        from fdarx_core.pipeline.executor import Demand  # importing it takes longer than showing help may

        more = {name: getattr(self, name, None) for name in ("gpus", "gpus_per_actor", "asking_workers")}
        return Demand(self.cpus, on_cluster=bool(os.environ.get("RAY_ADDRESS")), **more)


class GpuConfig(ComputingConfig):
    """The GPUs that a job asks for, whether the machines are there already or are still to be added."""

    gpus: Annotated[int | None, Parameter(group=_RESOURCES)] = Field(None, ge=0)
    """number of GPUs to use; on a cluster, the GPUs to ask for, also of machines that are still to be added: the job
    waits for the first of them (those that are there); 0 computes on CPUs"""


class SharedGpuConfig(GpuConfig):
    """The GPUs of a job whose models may share a GPU."""

    gpus_per_actor: Annotated[float | None, Parameter(group=_RESOURCES)] = Field(None, gt=0, le=1)
    """fraction of a GPU for each process that holds a model (1, or an equal share where several kinds of models compute
    at the same time)"""


class RunningConfig(ComputingConfig):
    """The place where a job runs."""

    executor: Annotated[Literal["auto", "local", "ray"], Parameter(group=RUNNING)] = "auto"
    """where work runs: `local` in this process; `ray` on all CPUs of this machine, or on the cluster of RAY_ADDRESS;
    `auto` uses this process for small jobs"""


class BatchFilesConfig(JobConfig):
    """Whether requests go into files that another program answers."""

    batch_files: Annotated[str | None, Parameter(group=ASKING)] = None
    """folder for batch files of requests to models, which `vllm run-batch` or any other program answers; no server is
    asked; the same command reads the outputs and goes on, with exit code 3 until all requests have replies; see
    docs/models.md"""


class BatchConfig(BatchFilesConfig):
    """Whether requests go through the vendors' batch APIs."""

    batch: Annotated[bool, Parameter(group=ASKING)] = False
    """send requests to models through the batch APIs of their servers: half the price, results within a day; the same
    command collects the batches of an interrupted job; see docs/models.md"""


def load_all(files: Iterable[str], *, check_access: bool = True, chosen_by: str = "") -> dict[str, ModelConfig]:
    """Return the models of several files, by name; `baseline` among them names the built-in rules, and no file.

    `check_access`: also check what this machine needs to reach their servers. `chosen_by`: the option for their names.
    Raises ModelsError for a file that can't be used, or a name that two of them give.
    """
    from fdarx_core.llm import ModelsError, load_models
    from fdarx_core.storage import Location

    models: dict[str, ModelConfig] = {}
    for file in files:
        if file == BASELINE:
            continue
        if not Location(file).is_file():
            raise ModelsError(
                f"models: {file} is not a file; give a models file or a fdarx.Model, and choose models by name "
                f"with {chosen_by}"
            )
        for name, model in load_models(file, check_access=check_access).items():
            if name in models:
                raise ModelsError(f"{file}: model {name}: another file has a model of that name; give it another")
            models[name] = model
    return models


def unknown_model(models: Mapping[str, ModelConfig]) -> str:
    """Return the message for a name that none of the models has."""
    return f"there is no such model; known are {', '.join((BASELINE, *models))}; see --models, in Python fdarx.Model"


class BertscoreConfig(JobConfig):
    """BERTScore's model."""

    bertscore_model: str | None = None
    """local directory of a model for BERTScore, such as roberta-large; without it BERTScore is not computed"""
    bertscore_layers: int | None = Field(None, ge=1)
    """number of layers of that model to use (the choice of bert-score's authors for this model)"""

    def check_bertscore(self) -> None:
        """Raise ModelMissing if the given model can't be used."""
        from fdarx_core.evaluation.similarity import check_model
        from fdarx_core.retrieval.models import ModelMissing

        if self.bertscore_model is None:
            return
        try:
            check_model(self.bertscore_model, self.bertscore_layers)
        except (ImportError, ValueError) as error:
            raise ModelMissing(f"--bertscore-model: {error}") from error


def at_commas(entries: list[str]) -> list[str]:
    """Return the entries of a list, which commas may separate as well, each once.

    An entry that is a path on this machine, also after `KIND:`, is not divided: its commas are of names.
    """
    whole = {entry for entry in entries if any(map(os.path.exists, (entry, entry.partition(":")[2])))}
    parts = [part.strip() for entry in entries for part in ([entry] if entry in whole else entry.split(","))]
    return list(dict.fromkeys(part for part in parts if part))


Names = Annotated[list[str], AfterValidator(at_commas)]
"""A list of names, with commas or spaces between."""


def check_names(names: list[str], known: Iterable[str], kind: str) -> list[str]:
    """Return the names that were given. Raises ValueError for a name that is not among the known ones of this kind."""
    if unknown := [name for name in names if name not in {*known}]:
        raise ValueError(f"there is no {kind} {unknown[0]}; known are {', '.join(known)}")
    return names


def one_of(known: Iterable[str], kind: str) -> AfterValidator:
    """Return the check of a field whose names must be among the known ones of this kind."""
    return AfterValidator(lambda names: check_names(names, known, kind))


class ModelRoles(BaseModel):
    """The names of the models that answer, rewrite and score, and the directories of the others."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    answerer: Common[str] = BASELINE
    """model that answers from the passages: a name of --models"""
    hypothesis: str | None = None
    """model that writes hypothetical answers; a model tuned on the domain is best (the answerer)"""
    rewriter: str | None = None
    """model that writes the passages of HyDE and the questions of multiquery (the answerer)"""
    scorer: str | None = None
    """model of the scoring agent of the post-processing (the answerer)"""
    cosine_model: str | None = None
    """local directory of the index's embedding model (all-MiniLM-L6-v2, if installed)"""
    reranker_model: Common[str | None] = None
    """local directory of a BGE reranker; without it, reranking is not available"""

    @property
    def roles(self) -> dict[Role, str]:
        """The name of the model in each role."""
        return {
            "answerer": self.answerer,
            "hypothesis": self.hypothesis or self.answerer,
            "rewriter": self.rewriter or self.answerer,
            "scorer": self.scorer or self.answerer,
        }


class RolesConfig(ModelRoles, JobConfig):
    """The models, and the role of each."""

    models: Common[Names] = Field([BASELINE])
    """`baseline` (built-in rules), and YAML files that list models, see docs/models.md"""


def check_roles(roles: Mapping[Any, str], models: Mapping[str, ModelConfig]) -> None:
    """Raise ModelsError for a name that is not the name of a model; the keys are the options' names."""
    from fdarx_core.llm import ModelsError

    for role, name in roles.items():
        if name not in {BASELINE, *models}:
            raise ModelsError(f"--{role} {name}: {unknown_model(models)}")
