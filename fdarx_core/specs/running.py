"""The bases of the jobs that write a run directory: a specification is opened, and its run is begun and finished."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias, get_origin

from cyclopts import Parameter
from pydantic import Field, PrivateAttr, ValidationError
from typing_extensions import Self

from fdarx_core.specs.options import (
    ASKING,
    BASELINE,
    RUNNING,
    BatchConfig,
    BatchFilesConfig,
    BertscoreConfig,
    Common,
    ComputingConfig,
    JobConfig,
    RunningConfig,
    SharedGpuConfig,
    load_all,
)
from fdarx_core.wording import options_fault

if TYPE_CHECKING:  # importing these takes longer than showing a job's help may
    from fdarx_core.llm import Baseline, Model, ModelConfig
    from fdarx_core.llm.prompts import Prompt
    from fdarx_core.pipeline.asking import ClientPool, PlanRow
    from fdarx_core.pipeline.executor import Demand, Executor, ExecutorName
    from fdarx_core.pipeline.job import PipelineJob, Progress
    from fdarx_core.storage import Location, RunDirectory


class FunctionJob(NamedTuple):
    """The work of a job that is no `PipelineJob`: `run_all` does all that remains of it."""

    run: RunDirectory
    executor: Executor
    run_all: Callable[[], object]


RunJob: TypeAlias = "PipelineJob | FunctionJob"
"""The work of a job, which makes one run directory and can be done again to resume it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedJob:
    """A job whose options are checked, and whose models and inputs are open.

    Args:
        config: What can change the results. It identifies the run, and is stored in `run.json`.
        make: Makes the work, given the fields `run`, `executor`, `progress`, `tell` and `reuse` of `PipelineJob`. What
            asks models makes a `PipelineJob`.
        used: The models that are asked, by name.
        size: The number of labels, documents or answers, None where it is not known.
        read: Places that the machines of a cluster read.
        code_version: The state of the code that results rest on; a finished run that another left is made anew.
        lines: Returns what to tell the user of the inputs, given the place of the rejects ("" where none is kept).
        check: Raises RunConflict for a run that was begun with other inputs.
        prompts: The prompts of the tasks that models are asked.
        libraries: Libraries whose versions decide the results, beside those of every job.
    """

    config: Mapping[str, Any]
    make: Callable[..., RunJob]
    size: int | None
    used: Mapping[str, ModelConfig] = field(default_factory=dict)
    read: Sequence[str | None] = ()
    code_version: str | None = None
    lines: Callable[[str], Sequence[str]] = lambda rejects: ()
    check: Callable[[RunDirectory], None] = lambda run: None
    prompts: Sequence[Prompt] = ()
    libraries: Sequence[str] = ()


class JobSpec(JobConfig):
    """The base of specifications that Python also makes, with `fdarx_core.Model` where a name of a model stands."""

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Return the specification with these fields; paths may be path objects, and one value stands for its list.

        Raises ValueError for unknown fields and wrong values.
        """
        values = {name: _plain(value) for name, value in fields.items() if value is not None}
        lists = {name for name, field in cls.model_fields.items() if get_origin(field.annotation) is list}
        values = {name: list(_values(value)) if name in lists else value for name, value in values.items()}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ValueError(options_fault(error.errors()[0], cls.model_fields)) from None

    @property
    def by_batch_api(self) -> bool:
        """Whether requests go through batch APIs: not unless the job has the option `batch` of `BatchConfig`."""
        return isinstance(self, BatchConfig) and self.batch

    @property
    def batch_folder(self) -> str | None:
        """The folder for batch files, None where requests do not go into files."""
        return self.batch_files if isinstance(self, BatchFilesConfig) else None


class RunSpec(ComputingConfig, JobSpec):
    """The base of specifications whose jobs write a run directory.

    `job` is the name of the job in `run.json`. `by_content` are the fields that are stored there and identify the run
    by their content, not by how a path is spelt.
    """

    job: ClassVar[str]
    by_content: ClassVar[frozenset[str]] = frozenset()

    if TYPE_CHECKING:  # each job has the field at its place among its options
        out: str

    @abstractmethod
    def open(self) -> OpenedJob:
        """Check the options, and open the models and inputs.

        Raises ValueError for wrong options, with ModelsError for models, and StorageError for inputs.
        """

    @property
    def asking_executor(self) -> ExecutorName:
        """The executor on which the job runs, by name: this process, unless the job has an option for it.

        It is this process for batches too, where all parts are in progress at once and each file is written once.
        """
        if self.by_batch_api or self.batch_folder or not isinstance(self, RunningConfig):
            return "local"
        return self.executor

    def responses(self) -> list[Location]:
        """Return the folders of responses that are used for identical requests. Raises StorageError."""
        return []

    def begin(self, opened: OpenedJob, out: str) -> RunDirectory:
        """Begin or resume the run in a folder. Raises RunConflict for one that holds other work, or of other inputs."""
        from fdarx_core.storage import RunDirectory

        config = dict(opened.config)
        if opened.used:
            config["prompts"] = {prompt.name: prompt.digest for prompt in opened.prompts}
        run = RunDirectory.begin(
            out,
            job=self.job,
            config=config,
            versions=versions(*opened.libraries),
            by_content=self.by_content | {"prompts"},
        )
        try:
            if opened.used:
                _check_prompts(run, config["prompts"])
            opened.check(run)
        except BaseException:
            if not run.complete:
                run.stop("interrupted")
            run.release()
            raise
        return run

    def run(self, executor: Executor | None = None, progress: Progress | None = None) -> RunDirectory:
        """Run the job, or resume its run; return the run.

        Args:
            executor: Where it runs; by default in this process, or on Ray if Ray is running in it already.
            progress: Called with the phase, the finished units, their number and a note.

        Raises:
            ValueError: The options or inputs can't be used.
            RunConflict: `out` holds a run of other options or inputs.
            AskingStopped: No more requests may be sent, and the job can't end without them.
        """
        from fdarx_core.storage import RunDirectory

        opened = self.open()
        run = self.begin(opened, self.out)
        try:
            if not (run.complete and is_current(run, opened.code_version)):
                job = self._job(opened, run, executor, progress)
                finish(job, job.executor.await_stopped)
        except BaseException:
            run.remove_if_empty()
            raise
        finally:
            run.release()
        return RunDirectory.open(self.out)

    def _job(
        self, opened: OpenedJob, run: RunDirectory, executor: Executor | None = None, progress: Progress | None = None
    ) -> RunJob:
        executor = executor or local_or_ray(self.asking_executor, self.demand)
        return opened.make(run=run, executor=executor, progress=progress or no_progress, reuse=self.responses())


class ModelsSpec(JobSpec):
    """The base of specifications with models; Python gives `fdarx_core.Model` where a model's name stands."""

    _given: dict[str, ModelConfig] = PrivateAttr(default_factory=dict)
    _listed: list[str] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Return the specification with these fields; where a name of a model stands, `fdarx_core.Model` may stand too.

        Raises ValueError for unknown fields and wrong values, with ModelsError for models that can't be used together.
        """
        listed = fields.get("models")
        if isinstance(listed, (list, tuple)) or _is_model(listed):
            fields["models"] = [model for model in _values(listed) if not _is_model(model)]
        spec = super().of(**fields)
        values = (entry for value in [*fields.values(), listed] for entry in _values(value))
        spec._listed = [model.name for model in _values(listed) if _is_model(model)]
        spec._adopt(list({id(entry): entry for entry in values if _is_model(entry)}.values()))
        return spec

    def with_models(self, models: Mapping[str, ModelConfig]) -> Self:
        """Return a copy with more models. Raises ModelsError for a name that a file of `models` gives too."""
        copy = self.model_copy()
        copy._given = {**self._given, **models}
        return copy

    def loaded_models(self) -> dict[str, ModelConfig]:
        """Return the models by name: those of the files, and those that were given as objects. Raises ModelsError."""
        from fdarx_core.llm import ModelsError

        files = getattr(self, "models", None) or []
        named_by = next(name for name in ("only", "generator", "answerer", "claims", "judge") if hasattr(self, name))
        loaded = load_all(_values(files), check_access=not self.batch_folder, chosen_by=f"--{named_by}")
        if taken := sorted(loaded.keys() & self._given.keys()):
            raise ModelsError(f"{taken[0]} is also the name of a model in --models; give one of them another")
        return {**loaded, **self._given}

    def _adopt(self, models: Sequence[Model]) -> None:
        """Take over the configurations of models. Raises ModelsError for two different ones of the same name."""
        from fdarx_core.llm import ModelsError

        for model in models:
            if model.config is not None and self._given.setdefault(model.name, model.config) != model.config:
                raise ModelsError(f"two different models have the name {model.name}; give one of them another `name`")


class AskingSpec(RunningConfig, RunSpec, ModelsSpec):
    """The base of specifications whose jobs ask models: limits of requests, and runs whose responses are reused."""

    reuse: Annotated[list[str], Parameter(group=ASKING)] = Field(default_factory=list)
    """other runs whose responses are used for identical requests, which saves their cost"""
    max_requests: Annotated[int | None, Parameter(group=ASKING)] = Field(None, ge=1)
    """stop cleanly after this many requests to models; repeat the command to resume (no limit)"""
    max_cost: Annotated[Common[float | None], Parameter(group=ASKING)] = Field(None, gt=0)
    """stop cleanly at this cost in US dollars, by the prices in --models (no limit)"""
    plan: Annotated[Common[bool], Parameter(group=ASKING)] = False
    """send no requests; only print requests, tokens and cost per task and model"""
    asking_workers: Annotated[int | None, Parameter(group=RUNNING)] = Field(None, ge=1, le=64)
    """processes that send the requests on Ray, each with an equal share of the limits in --models; one sends about
    3,000 requests a second (one for each 2,000 requests a second that these limits allow; one with --max-requests or
    --max-cost)"""

    _stores: list[Location] = PrivateAttr(default_factory=list)

    def responses(self) -> list[Location]:
        """Return the folders of responses that are used for identical requests. Raises StorageError."""
        from fdarx_core.storage import RunDirectory

        return [*self._stores, *(RunDirectory.open(other).file("responses") for other in self.reuse)]

    def client_pool(self, rules: Baseline, used: Mapping[str, ModelConfig], **more: Any) -> ClientPool:
        """Return the clients of the models that are asked, with the limits of the job, and its kind of batches.

        Args:
            rules: The built-in rules.
            used: The models that are asked, by name.
            more: Further fields of `ClientPool`.

        Raises:
            ModelsError: A limit of cost is set and a model has no prices, or requests can't go into batches here.
            StorageError: The folder of batch files cannot be written.
        """
        from fdarx_core.llm import ModelsError
        from fdarx_core.pipeline.asking import ClientPool, check_batch_apis
        from fdarx_core.storage import Location

        batch, files = self.by_batch_api, self.batch_folder
        unpriced = [name for name, model in used.items() if model.prices is None]
        if self.max_cost is not None and unpriced:
            raise ModelsError(f"--max-cost needs prices of every model asked; {', '.join(unpriced)} has none")
        if batch and files:
            raise ModelsError("--batch asks servers, and --batch-files asks none; leave one of them out")
        if (batch or files) and self.executor == "ray":
            option = "--batch" if batch else "--batch-files"
            raise ModelsError(f"{option} works in this process; leave out --executor ray")
        for name, model in used.items() if files else ():
            if model.batch_api and model.kind != "openai":
                raise ModelsError(
                    f"model {name}: --batch-files writes OpenAI's format, not that of kind {model.kind}; set kind: "
                    "openai, or batch_api: false to send its requests to its server"
                )
        if files and not self.plan:
            Location(files).check_writable()
        if batch and not self.plan:
            check_batch_apis(used.values(), Location(self.out) / "responses")
        return ClientPool(rules, used, self.max_requests, self.max_cost, batch=batch, batch_files=files, **more)

    def run(self, executor: Executor | None = None, progress: Progress | None = None) -> RunDirectory:
        """Run the job, as `RunSpec.run`. Raises AskingStopped if no more requests may be sent and it can't end so."""
        if self.plan:
            raise ValueError("plan: plan_requests() of the specification returns the requests that its run would send")
        return super().run(executor, progress)

    def plan_requests(self) -> list[PlanRow]:
        """Return the requests, tokens and cost that the run would have, by task and model; nothing is sent."""
        from tempfile import TemporaryDirectory

        from fdarx_core.pipeline.job import PipelineJob

        opened = self.open()
        with TemporaryDirectory() as folder:
            run = self.begin(opened, folder)
            try:
                job = self._job(opened, run)
                assert isinstance(job, PipelineJob)
                return job.plan()
            finally:
                run.release()

    def _adopt(self, models: Sequence[Model]) -> None:
        """Take over limits and stores too: a job has those of its model, if it is the only one. Raises ModelsError."""
        from fdarx_core.llm import ModelsError

        super()._adopt(models)
        asked = [model for model in models if model.config is not None]
        self._stores = [model.store for model in asked if model.store is not None]
        limited = [model for model in asked if model.max_requests is not None or model.max_cost is not None]
        if not limited:
            return
        files = [file for file in _values(getattr(self, "models", None)) if file not in (None, BASELINE)]
        if len(asked) > 1 or files:
            raise ModelsError(
                f"{limited[0].name}: a job with several models has one limit; give max_requests and max_cost to the "
                "job in place of the model"
            )
        self.max_requests = _least(self.max_requests, limited[0].max_requests)
        self.max_cost = _least(self.max_cost, limited[0].max_cost)


class MeasuringSpec(BertscoreConfig, SharedGpuConfig, AskingSpec):
    """The base of specifications whose jobs compute figures with intervals: BERTScore's model, and the intervals."""

    seed: int = 0
    """random seed of the sample and the intervals"""
    resamples: int = Field(2000, ge=100)
    """number of bootstrap resamples; more give more stable intervals"""


def finish(job: RunJob, wait: Callable[[], None]) -> None:
    """Run a job to its end. However else it ends, what is in flight is stored and `run.json` says how it ended.

    `wait` waits for what is in flight after an interruption, for which the status is written first, because `ray job
    stop` kills the job three seconds after SIGTERM.
    """
    from fdarx_core.llm import AskingStopped

    try:
        job.run_all()
    except KeyboardInterrupt:
        job.executor.stop_asking()
        job.run.stop("interrupted")
        wait()
        raise
    except BaseException as error:
        job.run.stop("stopped" if isinstance(error, AskingStopped) else "failed")
        raise


def _check_prompts(run: RunDirectory, now: Mapping[str, str]) -> None:
    """Raise RunConflict for a run with other prompts; one that was begun before prompts were stored has none."""
    from fdarx_core.storage import RunConflict

    before = run.info()["config"].get("prompts", now)
    if changed := sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name)):
        raise RunConflict(
            f"{run.root} was begun with other prompts ({', '.join(changed)}); choose another --out, with --reuse of "
            "this run, or restore the prompts"
        )


def is_current(run: RunDirectory, code_version: str | None) -> bool:
    """Return whether the code is that of a finished run, where results rest on it."""
    return code_version is None or run.info()["code_version"] == code_version


def versions(*libraries: str) -> dict[str, str]:
    """Return the versions of Python, FDARx, the libraries that decide its results, and further ones."""
    from fdarx_core.storage import version_of

    names = ("fdarx", "ray", "lxml", "pyarrow", *libraries)
    return {"python": sys.version.split()[0], **{name: version_of(name) for name in names}}


def no_progress(phase: str, done: int, total: int, note: str) -> None:
    """Show no progress."""


def local_or_ray(name: str, demand: Demand) -> Executor:
    """Return the executor of that name for Python: `auto` is Ray if it is running in this process already.

    Raises ValueError for `ray` where it is not.
    """
    from fdarx_core.pipeline.local import LocalExecutor

    ray = sys.modules.get("ray")
    on_ray = ray is not None and ray.is_initialized()
    if name == "ray" and not on_ray:
        raise ValueError("executor: call ray.init() first, so that the job runs on Ray")
    if name == "local" or not on_ray:
        return LocalExecutor()
    from fdarx_core.pipeline.ray_executor import RayExecutor

    return RayExecutor(demand)


def _least(first: Any, second: Any) -> Any:
    return min((limit for limit in (first, second) if limit is not None), default=None)


def _is_model(value: Any) -> bool:
    from fdarx_core.llm import Model

    return isinstance(value, Model)


def _values(value: Any) -> Collection[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _plain(value: Any) -> Any:
    """Return a value as the command line gives it: a model by its name, a path or run by its address."""
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if _is_model(value):
        return value.name
    from fdarx_core.storage import RunDirectory

    if isinstance(value, RunDirectory):
        return str(value.root)
    return os.fspath(value) if isinstance(value, os.PathLike) else value
