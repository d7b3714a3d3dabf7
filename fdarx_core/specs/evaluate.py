"""The specification of an evaluation: models × settings × retrievers on a benchmark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, field_validator
from typing_extensions import Self

from fdarx_core.specs.options import (
    BASELINE,
    HOW,
    PRESENTATION,
    BatchConfig,
    Common,
    Names,
    Required,
    check_names,
    check_roles,
    one_of,
    unknown_model,
)
from fdarx_core.specs.running import MeasuringSpec, OpenedJob

if TYPE_CHECKING:  # importing these takes longer than showing the job's help may
    from fdarx_core.evaluation.metrics import AnswerFunction, Metric
    from fdarx_core.evaluation.thresholds import ThresholdResult
    from fdarx_core.llm import ModelConfig
    from fdarx_core.pipeline.evaluation import EarlierEvaluation
    from fdarx_core.pipeline.evaluation_steps import EvaluationSetup, GivenAnswers
    from fdarx_core.pipeline.executor import Executor
    from fdarx_core.pipeline.job import Progress
    from fdarx_core.records import Reject
    from fdarx_core.storage import RunDirectory

_SETTINGS = ("closed_book", "full_label", "oracle", "retrieved")
_NOT_RESULTS = HOW | {"deploy", "only", "fail_under", "fail_over"}


class GradingSpec(BatchConfig, MeasuringSpec):
    """The base of specifications whose jobs grade answers."""

    job: ClassVar[str] = "evaluate"

    limit: Common[int | None] = Field(None, ge=1)
    """number of questions, the first in an order that the seed decides (all)"""
    fail_under: Common[Names] = Field(default_factory=list)
    """METRIC=NUMBER, as accuracy=0.8: exit with code 4 where a model has less in any setting, and write junit.xml into
    the run; SETTING/METRIC=NUMBER for one setting or model"""
    fail_over: Common[Names] = Field(default_factory=list)
    """METRIC=NUMBER, as hallucination_rate=0.05: the same where a model has more"""

    _metrics: tuple[AnswerFunction | Metric, ...] = PrivateAttr(default=())

    def bounds(self) -> list[dict[str, float]]:
        """Return the bounds of --fail-under and of --fail-over. Raises ValueError as `read_bounds`."""
        from fdarx_core.evaluation.thresholds import read_bounds

        return [read_bounds(getattr(self, f"fail_{way}"), self._metrics, f"--fail-{way}") for way in ("under", "over")]

    def threshold_results(self, run: RunDirectory) -> list[ThresholdResult]:
        """Return the results of the thresholds on a finished run; if there are any, they are written to junit.xml."""
        from fdarx_core.evaluation.thresholds import check_thresholds, junit_report

        if results := check_thresholds(run, *self.bounds()):
            run.file("junit.xml").write_text(junit_report(run.root.name, results))
        return results

    def run(self, executor: Executor | None = None, progress: Progress | None = None) -> RunDirectory:
        """Run the job, as `AskingSpec.run`. Raises AssertionError where a finished run misses a threshold."""
        run = super().run(executor, progress)
        if run.complete and (faults := [one.fault for one in self.threshold_results(run) if one.fault]):
            raise AssertionError("\n".join(faults))
        return run


class EvaluateSpec(GradingSpec):
    """An evaluation of models on a benchmark: the options of `fdarx evaluate`, and of `fdarx_core.evaluate`."""

    by_content: ClassVar[frozenset[str]] = frozenset({"benchmark"})

    benchmark: Required[str] = ""
    """benchmark (required, except with --regrade): a run of `fdarx build`, or a folder (or file) with qa*.jsonl and
    labels.jsonl in FDARxBench's published format, on disk or s3://; or such a dataset on the Hugging Face Hub,
    hf://USER/NAME[@REVISION]"""
    split: Common[Literal["test", "dev", "all"]] = "test"
    """questions to ask: those of the test or the dev split of the benchmark, or all; report results on `test`"""
    out: str = Field(min_length=1)
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    models: Common[Names] = Field([BASELINE])
    """models to evaluate: `baseline` (built-in rules), and YAML files that list models on servers, see
    docs/models.md"""
    deploy: Common[list[str]] = Field(default_factory=list)
    """models to deploy and evaluate as well, one YAML file per model, see docs/serving-models.md; each is removed when
    its questions are answered"""
    only: Common[Names] = Field(default_factory=list)
    """evaluate only these models of the files (all except the judge)"""
    predictions: Common[str | None] = None
    """answers of other programs to grade: a file with qid (or question) and answer in each row, see docs/evaluating.md;
    or logs of inspect or lm-eval, see docs/harnesses.md; with --regrade, a run of `fdarx evaluate`"""
    regrade: str | None = None
    """grade the answers of the evaluation in --predictions again with this judge, a name of --models or baseline; only
    the judge is asked"""
    settings: Common[Annotated[Names, one_of(_SETTINGS, "setting")]] = Field(list(_SETTINGS))
    """evidence to show: closed_book, full_label, oracle, retrieved; separated by commas or spaces"""
    retrievers: Common[Names] = Field(["bm25"])
    """what finds passages: bm25, tfidf, cosine, recontriever, hybrid, or one of an installed package, each also with
    +rerank; they are compared with each other whatever the settings"""
    retrieval_scope: Literal["label", "corpus"] = "label"
    """search the question's own label, or all labels of the benchmark"""
    top_k: int = Field(5, ge=1)
    """number of passages in the setting `retrieved`"""
    label_chars: int | None = Field(None, ge=1)
    """maximum number of characters of a label's text; FDARxBench's published code uses 16000 (complete text)"""
    judge: Common[str] = BASELINE
    """model that grades: a name of --models, or baseline (built-in rules, not a language model)"""
    cosine_model: str | None = None
    """local directory of a sentence-transformers model for cosine (all-MiniLM-L6-v2, if installed)"""
    recontriever_model: str | None = None
    """local directory of ReContriever, or another Contriever"""
    reranker_model: str | None = None
    """local directory of a BGE reranker, for +rerank"""
    sample: Common[int | None] = Field(None, ge=1)
    """number of labels to evaluate on, drawn at random (all)"""

    @classmethod
    def of(cls, *, metrics: Sequence[AnswerFunction | Metric] = (), **fields: Any) -> Self:
        """Return the specification with these fields, as `AskingSpec.of`, and metrics besides those of FDARx.

        A metric is a function of a question, a prediction and its grade, or what `mean_metric` makes of one. Raises
        ValueError for wrong values, and for a metric without a name or with the name of another.
        """
        from fdarx_core.evaluation.metrics import added_metrics

        spec = super().of(**fields)
        spec._metrics = tuple(metrics)
        added_metrics(spec._metrics)
        return spec

    @field_validator("retrievers", mode="after")
    @classmethod
    def _known_retrievers(cls, names: list[str]) -> list[str]:
        from fdarx_core.retrieval.retrievers import RETRIEVERS  # importing it takes longer than showing help may

        check_names([name.removesuffix("+rerank") for name in names], RETRIEVERS, "retriever")
        return names

    def open(self) -> OpenedJob:
        """Load the models and read the benchmark.

        Raises ModelsError for an invalid models file, an unknown name or a limit without prices, ModelMissing for a
        retriever whose models can't be loaded, and StorageError for a benchmark or answers that can't be read.
        """
        from fdarx_core.evaluation.predictions import EVALUATION_TASKS
        from fdarx_core.pipeline.evaluation import ADOPTED, Evaluation, check_benchmark
        from fdarx_core.pipeline.evaluation_steps import CODE_VERSION, EVALUATION_RULES
        from fdarx_core.pipeline.executor import SMALL
        from fdarx_core.storage.benchmark_reader import read_benchmark
        from fdarx_core.storage.tables import unusable_rows

        self.bounds()
        earlier = self._earlier_evaluation()
        spec = self
        if earlier is not None:  # the options of the earlier evaluation, with the new judge
            before = earlier.run.info()["config"]
            adopted = {name: before[name] for name in ADOPTED if name in before}
            spec = self.model_copy(update={**adopted, "judge": self.regrade})
        given, rejects = spec._imported_answers()
        setup = spec.setup(given)
        clients = spec.client_pool(EVALUATION_RULES, setup.used, shared_fate=False)
        if earlier is not None:
            cells = list(earlier.cells)
            setup = replace(setup, given=cells, given_citing=earlier.citing, regraded=str(earlier.run.root))
        benchmark = read_benchmark(spec.benchmark, spec.split) if earlier is None else earlier.benchmark
        benchmark.rejects.extend(rejects)
        counted = sum(1 for _ in islice(benchmark.items(), SMALL + 1))  # no more labels than matter

        return OpenedJob(
            config=spec.identity(setup),
            make=partial(
                Evaluation,
                clients=clients,
                spec=setup,
                benchmark=benchmark,
                given=given,
                earlier=earlier,
                sample=spec.sample,
                limit=spec.limit,
                seed=spec.seed,
                resamples=spec.resamples,
            ),
            used=setup.used,
            size=min(counted, spec.sample or counted),
            read=astuple(setup.directories),
            code_version=CODE_VERSION,
            prompts=[task.prompt for task in EVALUATION_TASKS.values()],
            lines=partial(unusable_rows, len(rejects), rejects),
            check=lambda run: check_benchmark(run, benchmark.about["digest"], given),
        )

    def run(self, executor: Executor | None = None, progress: Progress | None = None) -> RunDirectory:
        """Run the job, as `AskingSpec.run`. Raises ModelsError for `deploy`, which only the command carries out."""
        if self.deploy:
            from fdarx_core.llm import ModelsError

            raise ModelsError(
                "deploy: only `fdarx evaluate` deploys models; give the address of one that runs as a Model"
            )
        return super().run(executor, progress)

    def setup(self, given: GivenAnswers) -> EvaluationSetup:
        """Return what is evaluated and how; `given` are answers of other programs. Raises ModelsError, ModelMissing."""
        from fdarx_core.evaluation.predictions import citing_settings
        from fdarx_core.evaluation.settings import RETRIEVED
        from fdarx_core.llm import ModelsError
        from fdarx_core.pipeline.evaluation_steps import EvaluationSetup
        from fdarx_core.retrieval.models import ModelDirectories
        from fdarx_core.retrieval.retrievers import check_retriever_models, needs_reranker, required_encoders

        models = self.loaded_models()
        answerers = self._answerers(models)
        check_roles({"judge": self.judge}, models)
        if not answerers and not given and self.regrade is None:
            raise ModelsError(f"no model answers: {self.judge} is the judge; add another model, or --only {self.judge}")
        if taken := sorted({cell.model for _, cell in given} & {*answerers}):
            raise ModelsError(f"--predictions has answers of {taken[0]}, which is asked as well; rename it there")
        if RETRIEVED in self.settings and not self.retrievers:
            raise ModelsError("--settings retrieved needs --retrievers")
        directories = ModelDirectories(self.cosine_model, self.recontriever_model, self.reranker_model)
        for name in self.retrievers if self.regrade is None else ():
            check_retriever_models(name, directories)
        self.check_bertscore()
        encodes = any(required_encoders(name) or needs_reranker(name) for name in self.retrievers)
        if self.gpus and not (self.deploy or self.bertscore_model or encodes):
            raise ModelsError(
                "--gpus is for --deploy, retrievers with a model, and --bertscore-model; give one of them, or leave it "
                "out"
            )
        return EvaluationSetup(
            models=models,
            answerers=answerers,
            judge=self.judge,
            settings=self.settings,
            retrievers=self.retrievers,
            top_k=self.top_k,
            label_chars=self.label_chars,
            bertscore_layers=self.bertscore_layers,
            scope=self.retrieval_scope,
            directories=directories,
            bertscore=self.bertscore_model,
            given=sorted({cell for _, cell in given}),
            given_citing=citing_settings(given.values()),
            metrics=self._metrics,
        )

    def identity(self, setup: EvaluationSetup) -> dict[str, Any]:
        """Return the options that can change the results of a run; they identify it."""
        from fdarx_core.evaluation.scoring import metric_digests

        options = self.model_dump(mode="json", exclude=_NOT_RESULTS | PRESENTATION)
        if self._metrics:
            options["metrics"] = metric_digests(self._metrics)
        for name, default in (("split", "test"), ("limit", None)):  # so that runs from before these options are resumed
            if options[name] == default:
                del options[name]
        # not the baseline's rules: when they change, what they said is made anew
        asked = {name: dict(model.request_parameters) for name, model in setup.used.items()}
        cut_by = {
            name: {"context_length": model.context_length, "tokenizer": model.tokenizer}
            for name, model in setup.used.items()
            if model.context_length and name in setup.answerers
        }
        return {**options, "answerers": list(setup.answerers), "asked": asked, "cut_by": cut_by}

    def _answerers(self, models: Mapping[str, ModelConfig]) -> list[str]:
        from fdarx_core.llm import ModelsError

        known = [BASELINE] * (BASELINE in self.models) + list(models)
        if self.regrade is not None:
            return []
        if unknown := [name for name in self.only if name not in known]:
            raise ModelsError(f"--only {unknown[0]}: {unknown_model(models)}")
        if self.only:
            return self.only
        return [name for name in known if name == BASELINE or name != self.judge or name in self._listed]

    def _earlier_evaluation(self) -> EarlierEvaluation | None:
        """Return the evaluation whose answers are graded again, None where answers are asked for or read."""
        from fdarx_core.llm import ModelsError
        from fdarx_core.pipeline.evaluation import EarlierEvaluation

        if self.regrade is None:
            if not self.benchmark:
                raise ModelsError("--benchmark is missing; give the run of a build, or published files")
            return None
        if self.predictions is None:
            raise ModelsError(
                "--regrade needs --predictions with the run of fdarx evaluate whose answers are to be graded"
            )
        if self.deploy or self.only:
            raise ModelsError("--regrade asks only the judge; leave out --deploy and --only")
        return EarlierEvaluation(self.predictions)

    def _imported_answers(self) -> tuple[GivenAnswers, list[Reject]]:
        from fdarx_core.evaluation.figures import CellKey
        from fdarx_core.storage.benchmark_reader import read_benchmark
        from fdarx_core.storage.imported_predictions import normalized_question, read_predictions

        if self.predictions is None or self.regrade is not None:
            return {}, []

        def question_ids() -> Mapping[str, Sequence[str]]:
            found = defaultdict[str, list[str]](list)
            for label in read_benchmark(self.benchmark, self.split).items():
                for question in label.questions:
                    found[normalized_question(question.question)].append(question.id)
            return found

        answers, rejects = read_predictions(self.predictions, cache(question_ids))
        by_cell = {(row.question_id, CellKey(row.model, row.setting, row.retriever)): row for row in answers}
        return by_cell, rejects
