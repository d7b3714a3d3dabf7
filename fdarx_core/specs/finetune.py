"""The specification of a fine-tuning."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from fdarx_core.specs.options import PRESENTATION, BertscoreConfig, GpuConfig, Names, RunningConfig
from fdarx_core.specs.running import FunctionJob, OpenedJob, RunSpec
from fdarx_core.tuning.answerer_training import TuningSpec
from fdarx_core.tuning.trainer import load_library

if TYPE_CHECKING:
    from fdarx_core.pipeline.executor import Executor
    from fdarx_core.pipeline.job import Progress
    from fdarx_core.records import Reject
    from fdarx_core.storage import RunDirectory
    from fdarx_core.tuning.pairs import TrainingPair

_HOW = {"out", "cpus", "gpus", "executor", "workers", "fsdp", "attention"}
_BY_CONTENT = {"model", "questions"}
_NOT_RESULTS = {*PRESENTATION, *_HOW, *_BY_CONTENT}
_LIBRARIES = ("torch", "transformers", "trl", "peft")
"""What the training of an answerer needs; not imported here, as that takes seconds before an error can be shown."""
_WEIGHTS = ("*.safetensors", "*.bin")


class FinetuneAnswererSpec(BertscoreConfig, TuningSpec, GpuConfig, RunningConfig, RunSpec):
    """The training of a language model: the options of `fdarx finetune`, and of `fdarx_core.finetune_answerer`."""

    job: ClassVar[str] = "finetune_answerer"

    questions: str = Field(min_length=1)
    """training pairs: a finished run of fdarx build, or a jsonl, json, csv or parquet file with a question and an
    answer in each row, on disk or s3://; for --objective dpo, a finished run of fdarx evaluate"""
    out: str = Field(min_length=1)
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

        def make(*, run: RunDirectory, executor: Executor, progress: Progress, **_: Any) -> FunctionJob:
            if self.cpus and executor.name == "local":
                load_library("torch").set_num_threads(self.cpus)
            return FunctionJob(run, executor, partial(fine_tune, run, spec, pairs, rejects, executor, progress))

        return OpenedJob(
            config={**self.model_dump(mode="json", exclude=_NOT_RESULTS), **identity},
            make=make,
            libraries=_LIBRARIES,
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
