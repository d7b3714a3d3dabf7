"""Training of a causal language model on pairs, by TRL and PEFT: all weights or an adapter; SFT or DPO.

Sources: Hu et al. 2021 (LoRA); Dettmers et al. 2023 (QLoRA); Rafailov et al. 2023 (DPO); QA-RAG §2.3 (three epochs).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fdarx_core.records import Reject
from fdarx_core.retrieval.models import device, has_bfloat16
from fdarx_core.tuning.pairs import STAGE, TrainingPair
from fdarx_core.tuning.trainer import Report, load_library, newest_checkpoint, training_callbacks

LEARNT_PARTS = ("train", "validation")
Method = Literal["lora", "qlora", "full"]
Objective = Literal["sft", "dpo"]
Attention = Literal["sdpa", "flash_attention_2", "eager"]
ADAPTER_FILES = ("adapter_model.safetensors", "adapter_config.json")
"""The files that PEFT and vLLM read, the configuration last: readers look for it first."""
_EVALUATIONS_AN_EPOCH = 4
_WARM_UP = 0.03
"""The share of the steps over which the learning rate rises."""


class TuningSpec(BaseModel):
    """The base model of an answerer, how it is trained, and how the test part is measured."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    model: str
    """local directory of the base model, which needs a chat template, at the same path on every machine"""
    rate: float = Field(2e-4, gt=0)
    """highest learning rate; a tenth of the default suits --method full, a fortieth --objective dpo"""
    epochs: int = Field(3, ge=1)
    """maximum number of epochs"""
    batch: int = Field(4, ge=1)
    """packed sequences per step, or pairs of answers with --objective dpo; a multiple of --workers, which divide it"""
    length: int = Field(2048, ge=16)
    """tokens of a packed sequence; longer pairs are rejected"""
    evaluate_every: int | None = Field(None, ge=1)
    """steps between evaluations of the validation loss, each with a checkpoint (a quarter of an epoch)"""
    patience: int = Field(4, ge=1)
    """stop after this many consecutive evaluations without a lower validation loss"""
    resamples: int = Field(2000, ge=100)
    """number of bootstrap resamples; more give more stable intervals"""
    seed: int = 0
    """random seed of the split, the order of training and the intervals"""
    objective: Objective = "sft"
    """`sft` learns the answers of the pairs; `dpo` learns to prefer answers that a judge graded correct over incorrect
    ones to the same question, which needs about twice the time a step"""
    method: Method = "lora"
    """`lora` trains an adapter; `qlora` too, on a base model of 4 bits, in about a third of the memory and more slowly;
    `full` trains all weights, which can learn most, and needs about 16 bytes of memory a weight"""
    target_modules: list[str] = Field(default_factory=list)
    """layers that get an adapter, such as q_proj,v_proj (all linear layers but the head); fewer take less memory and
    learn less"""
    rank: int = Field(16, ge=1)
    """LoRA rank; a higher rank can learn more, and takes more memory in serving"""
    alpha: int = Field(32, ge=1)
    """LoRA alpha: the adapter's weights are scaled by alpha/rank"""
    beta: float = Field(0.1, gt=0)
    """with --objective dpo: a higher beta keeps the model nearer to the base model"""
    attention: Attention = "sdpa"
    """implementation of attention: `flash_attention_2` is fastest for packed sequences, and needs the package
    flash-attn and a GPU; `sdpa` needs nothing; `eager` is slow, for models without another"""
    workers: int = Field(1, ge=1)
    """number of training processes, each with a GPU if there are GPUs or --gpus asks for some"""
    fsdp: bool = False
    """divide the weights among the GPUs of --workers, for models that do not fit on one GPU; slower than copies"""
    max_tokens: int = Field(400, ge=1)
    """maximum number of tokens of an answer to a question of the test part"""
    cosine_model: str | None = None
    """local directory of an embedding model for similarity (all-MiniLM-L6-v2, if installed)"""
    bertscore_model: str | None = None
    """local directory of a model for BERTScore"""
    bertscore_layers: int | None = None
    """number of layers of that model to use"""

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

    `callbacks` are further ones of transformers; unless the folder of checkpoints is `shared`, each machine writes its
    own. Raises ModelMissing without the `models` extra, ValueError for a loss that is not finite.
    """
    trl, transformers = load_library("trl"), load_library("transformers")
    tokenizer = load_tokenizer(spec.model)
    transformers.set_seed(spec.seed)
    arguments = _training_arguments(spec, checkpoints, shared)
    if spec.objective == "dpo":
        trainer_class, config = trl.DPOTrainer, trl.DPOConfig(**arguments, beta=spec.beta)
    else:
        trainer_class, config = trl.SFTTrainer, trl.SFTConfig(**arguments, packing=True)
    trainer = trainer_class(
        model=load_model(spec),
        args=config,
        train_dataset=_dataset(pairs["train"], spec.objective),
        eval_dataset=_dataset(pairs["validation"], spec.objective),
        processing_class=tokenizer,
        peft_config=None if spec.method == "full" else lora_config(spec),
        callbacks=[*training_callbacks(spec.patience, report), *callbacks],
    )
    every = spec.evaluate_every or max(1, len(trainer.train_dataset) // spec.batch // _EVALUATIONS_AN_EPOCH)
    trainer.args.eval_steps = trainer.args.save_steps = every
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=newest_checkpoint(checkpoints, clean=trainer.is_world_process_zero()))
    return trainer


def _training_arguments(spec: TuningSpec, checkpoints: Path, shared: bool) -> dict[str, Any]:
    """Return the arguments of the trainer: a checkpoint at each evaluation; the newest and the best are kept."""
    on_gpu = device().startswith("cuda")
    arguments = {
        "output_dir": str(checkpoints),
        "learning_rate": spec.rate,
        "num_train_epochs": spec.epochs,
        "max_length": spec.length,
        "per_device_train_batch_size": 1,
        "per_device_eval_batch_size": 1,
        "gradient_accumulation_steps": spec.batch // spec.workers,
        "gradient_checkpointing": on_gpu,
        "warmup_steps": _WARM_UP,
        "eval_strategy": "steps",
        "save_total_limit": 2,
        "save_on_each_node": not shared,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_loss",
        "greater_is_better": False,
        "restore_callback_states_from_checkpoint": True,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # a loss that is not finite must be seen
        "seed": spec.seed,
        "bf16": on_gpu and has_bfloat16(),
        "use_cpu": not on_gpu,
        "ddp_find_unused_parameters": False,
        "dataloader_pin_memory": on_gpu,
        "report_to": "none",
        "disable_tqdm": True,
    }
    if spec.fsdp:
        arguments |= {"fsdp": True, "fsdp_config": {"state_dict_type": "FULL_STATE_DICT"}}
    return arguments


def lora_config(spec: TuningSpec) -> Any:
    """Return the configuration of the adapter in peft. Raises ModelMissing without the `models` extra."""
    return load_library("peft").LoraConfig(
        r=spec.rank,
        lora_alpha=spec.alpha,
        lora_dropout=0.0,
        target_modules=spec.target_modules or "all-linear",
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
