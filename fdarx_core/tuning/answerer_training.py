"""Training of a causal language model on pairs, by TRL and PEFT: all weights or an adapter; SFT or DPO.

Sources: Hu et al. 2021 (LoRA); Dettmers et al. 2023 (QLoRA); Rafailov et al. 2023 (DPO); QA-RAG §2.3 (three epochs).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fdarx_core.records import Reject
from fdarx_core.retrieval.models import device
from fdarx_core.tuning.pairs import STAGE, TrainingPair
from fdarx_core.tuning.trainer import (
    Report,
    load_library,
    run_training,
    training_arguments,
    training_callbacks,
)

LEARNT_PARTS = ("train", "validation")
Method = Literal["lora", "qlora", "full"]
Objective = Literal["sft", "dpo"]
Attention = Literal["sdpa", "flash_attention_2", "eager"]
ADAPTER_FILES = ("adapter_model.safetensors", "adapter_config.json")
"""The files that PEFT and vLLM read, the configuration last: readers look for it first."""
_WARM_UP = 0.03
"""The share of the steps over which the learning rate rises."""


@dataclass(frozen=True, slots=True)
class TuningSpec:
    """The base model, how it is trained, and how the test part is measured.

    `model` is the directory of the base model, at the same place on every machine. `method` trains a LoRA adapter, an
    adapter on a base model of 4 bits, or all weights; `target_modules` are the layers that get an adapter, by default
    all linear ones but the head. `objective` is supervised fine-tuning or DPO, whose `beta` limits how far the model
    goes from the base model. `length` is the size of a packed sequence in tokens, `batch` the number of sequences
    (preference pairs in DPO) a step over all workers, a multiple of `workers`. `fsdp` divides the weights among the
    workers. `evaluate_every` is in steps; None evaluates four times an epoch. Training stops after `patience`
    evaluations without a lower validation loss. `max_tokens` bounds an answer to a test question; `encoder` and
    `bertscore` are directories of models that measure answers.
    """

    model: str
    method: Method = "lora"
    objective: Objective = "sft"
    attention: Attention = "sdpa"
    target_modules: tuple[str, ...] = ()
    fsdp: bool = False
    rank: int = 16
    alpha: int = 32
    beta: float = 0.1
    rate: float = 2e-4
    epochs: int = 3
    batch: int = 4
    length: int = 2048
    evaluate_every: int | None = None
    patience: int = 4
    seed: int = 0
    workers: int = 1
    report_to: tuple[str, ...] = ()
    max_tokens: int = 400
    encoder: str | None = None
    bertscore: str | None = None
    bertscore_layers: int | None = None
    resamples: int = 2000

    @property
    def result(self) -> str:
        """The folder of the run with what was trained: `adapter`, or `model` where all weights were."""
        return "model" if self.method == "full" else "adapter"


def load_tokenizer(directory: str) -> Any:
    """Return the tokenizer of a model. Raises ValueError where there is none, or it has no chat template."""
    library = load_library("transformers")
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ValueError(f"{directory} has no tokenizer that transformers can read: {error}") from error
    if not tokenizer.chat_template:
        raise ValueError(f"{directory} has no chat template; give a model that was tuned to follow instructions")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def prompt_tokens(tokenizer: Any, messages: Sequence[dict[str, str]]) -> list[int]:
    """Return the tokens of a prompt, the same as a server makes of the same messages."""
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"])


def answered_tokens(tokenizer: Any, messages: Sequence[dict[str, str]], answer: str) -> tuple[list[int], int]:
    """Return the tokens of a prompt with its answer and the end of the turn, and where the answer begins.

    Raises ValueError where the chat template does not put the answer after the prompt.
    """
    prompt = prompt_tokens(tokenizer, messages)
    turns = [*messages, {"role": "assistant", "content": answer}]
    whole = list(tokenizer.apply_chat_template(turns, return_dict=True)["input_ids"])
    if whole[: len(prompt)] != prompt:
        raise ValueError("the chat template changes a prompt once it is answered; give another model")
    return whole, len(prompt)


def without_long_pairs(
    pairs: Iterable[TrainingPair], tokenizer: Any, max_tokens: int
) -> tuple[list[TrainingPair], list[Reject]]:
    """Return the pairs of at most `max_tokens` tokens, and rejects for longer ones of the parts that are learnt from.

    TRL would cut them. Raises ValueError where a part keeps no pair.
    """
    kept: list[TrainingPair] = []
    rejects: list[Reject] = []
    for pair in pairs:
        answers = [pair.answer, *([pair.rejected] if pair.rejected else [])]
        size = max(len(answered_tokens(tokenizer, pair.prompt, answer)[0]) for answer in answers)
        if size <= max_tokens or pair.part not in LEARNT_PARTS:
            kept.append(pair)
        else:
            detail = f"{size} tokens of at most {max_tokens}, see --length"
            rejects.append(Reject(pair.id, STAGE, "too_long", detail, source=pair.about))
    for part in LEARNT_PARTS:
        if not any(pair.part == part for pair in kept):
            raise ValueError(f"no pair of the {part} part has at most {max_tokens} tokens, see --length")
    return kept, rejects


def load_model(spec: TuningSpec, directory: str | None = None) -> Any:
    """Load the base model, or a tuned one of all weights from another directory, on the CPU or for one GPU.

    On a GPU, weights that are not trained are in bf16; those that are trained are in float32, and computed with in
    bf16. With `qlora`, the base model has 4 bits a weight. Raises ModelMissing without the `models` extra.
    """
    library, torch = load_library("transformers"), load_library("torch")
    on_gpu = device().startswith("cuda")
    options: dict[str, Any] = {"attn_implementation": spec.attention, "local_files_only": True}
    options["dtype"] = torch.bfloat16 if on_gpu and spec.method != "full" else torch.float32
    if spec.method == "qlora":
        options["quantization_config"] = library.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=options["dtype"],
            bnb_4bit_quant_storage=options["dtype"] if spec.fsdp else None,
        )
        options["device_map"] = {"": torch.cuda.current_device() if on_gpu else "cpu"}
    return library.AutoModelForCausalLM.from_pretrained(directory or spec.model, **options)


def train_answerer(
    spec: TuningSpec,
    pairs: Mapping[str, Sequence[TrainingPair]],
    checkpoints: Path,
    report: Report,
    *,
    callbacks: Sequence[Any] = (),
    shared: bool = True,
) -> Any:
    """Train as the specification says, and return TRL's trainer, with the weights of the lowest validation loss.

    Where torch.distributed is set up, this process is one worker of several. The loss of supervised fine-tuning is the
    mean cross-entropy of the tokens of the answers and the ends of their turns over all workers. Pairs are packed:
    transformers masks attention between them. An existing checkpoint is resumed.

    Args:
        spec: the base model, and how it is trained.
        pairs: the pairs of the parts train and validation.
        checkpoints: the folder of checkpoints.
        report: is told of each step.
        callbacks: further callbacks of transformers.
        shared: whether all machines see the folder of checkpoints; else each writes its own.

    Raises:
        ModelMissing: the `models` extra is missing.
        ValueError: the loss is not finite.
    """
    trl, transformers = load_library("trl"), load_library("transformers")
    tokenizer = load_tokenizer(spec.model)
    transformers.set_seed(spec.seed)
    of = trl.SFTTrainer if spec.objective == "sft" else trl.DPOTrainer
    trainer = of(
        model=load_model(spec),
        args=_arguments(trl, spec, checkpoints, shared),
        train_dataset=_dataset(pairs["train"], spec.objective),
        eval_dataset=_dataset(pairs["validation"], spec.objective),
        processing_class=tokenizer,
        peft_config=None if spec.method == "full" else lora_config(spec),
        callbacks=[*training_callbacks(spec.patience, report), *callbacks],
    )
    run_training(trainer, batch=spec.batch, evaluate_every=spec.evaluate_every)
    return trainer


def _arguments(trl: Any, spec: TuningSpec, checkpoints: Path, shared: bool) -> Any:
    on_gpu = device().startswith("cuda")
    common = training_arguments(
        checkpoints,
        rate=spec.rate,
        epochs=spec.epochs,
        seed=spec.seed,
        report_to=spec.report_to,
    ) | {
        "per_device_train_batch_size": 1,
        "per_device_eval_batch_size": 1,
        "gradient_accumulation_steps": spec.batch // spec.workers,
        "warmup_steps": _WARM_UP,
        "gradient_checkpointing": on_gpu,
        "max_length": spec.length,
        "ddp_find_unused_parameters": False,
        "save_on_each_node": not shared,
    }
    if spec.fsdp:
        common |= {"fsdp": True, "fsdp_config": {"state_dict_type": "FULL_STATE_DICT"}}
    if spec.objective == "dpo":
        return trl.DPOConfig(**common, beta=spec.beta)
    return trl.SFTConfig(**common, packing=True)


def lora_config(spec: TuningSpec) -> Any:
    """Return the configuration of the adapter in peft. Raises ModelMissing without the `models` extra."""
    return load_library("peft").LoraConfig(
        r=spec.rank,
        lora_alpha=spec.alpha,
        lora_dropout=0.0,
        target_modules=list(spec.target_modules) or "all-linear",
        task_type="CAUSAL_LM",
    )


def _dataset(pairs: Sequence[TrainingPair], objective: Objective) -> Any:
    """Return the rows in the formats of TRL: prompt and completion, or prompt, chosen and rejected."""

    def turn(text: str) -> list[dict[str, str]]:
        return [{"role": "assistant", "content": text}]

    rows = [
        {"prompt": pair.prompt, "completion": turn(pair.answer)}
        if objective == "sft"
        else {"prompt": pair.prompt, "chosen": turn(pair.answer), "rejected": turn(pair.rejected)}
        for pair in pairs
    ]
    return load_library("datasets").Dataset.from_list(rows)
