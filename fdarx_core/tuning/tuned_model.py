"""Answers of the base model and of the tuned one to the test part, and their losses on the references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fdarx_core.retrieval.models import device
from fdarx_core.tuning.answerer_training import (
    TuningSpec,
    answered_tokens,
    load_model,
    load_tokenizer,
    prompt_tokens,
)
from fdarx_core.tuning.evaluation import BASE, TUNED, TunedAnswer, score_answers
from fdarx_core.tuning.pairs import TrainingPair
from fdarx_core.tuning.trainer import load_library

_BATCH_SIZE = 8


def answer_test_part(spec: TuningSpec, folder: str, pairs: Sequence[TrainingPair]) -> list[TunedAnswer]:
    """Return the measured answers of the base model and of the tuned one; on a GPU where there is one.

    Args:
        spec: the base model, the method, and how answers are measured.
        folder: a local folder with the adapter, or with the tuned model of all weights.
        pairs: the pairs of the test part.
    """
    tokenizer = load_tokenizer(spec.model)
    rows: list[TunedAnswer] = []
    for name, model, context in _models(spec, folder):
        with context:
            rows += _answered(model, tokenizer, pairs, name, spec.max_tokens)
    return score_answers(rows, encoder=spec.encoder, bertscore=spec.bertscore, layers=spec.bertscore_layers)


def _models(spec: TuningSpec, folder: str) -> Iterator[tuple[str, Any, AbstractContextManager[Any]]]:
    """Yield the base model and the tuned one, each with the context in which it is itself."""
    base = load_model(spec)
    if spec.method == "full":
        yield BASE, _placed(base), nullcontext()
        del base  # both at once may not fit into the memory
        yield TUNED, _placed(load_model(spec, folder)), nullcontext()
        return
    tuned = _placed(load_library("peft").PeftModel.from_pretrained(base, folder))
    yield BASE, tuned, tuned.disable_adapter()
    yield TUNED, tuned, nullcontext()


def _placed(model: Any) -> Any:
    """Return the model in evaluation mode on the device; bitsandbytes has placed one of 4 bits already."""
    return (model if getattr(model, "is_loaded_in_4bit", False) else model.to(device())).eval()


def _answered(
    model: Any, tokenizer: Any, pairs: Sequence[TrainingPair], name: str, max_tokens: int
) -> list[TunedAnswer]:
    answers = generate_answers(model, tokenizer, pairs, max_tokens)
    return [
        TunedAnswer(
            one.id,
            one.group,
            name,
            one.question,
            one.answer,
            text,
            answer_loss(model, tokenizer, one, one.answer),
            0.0,
            rejected_loss=answer_loss(model, tokenizer, one, one.rejected) if one.rejected else None,
        )
        for one, text in zip(pairs, answers, strict=True)
    ]


def answer_loss(model: Any, tokenizer: Any, pair: TrainingPair, answer: str) -> float:
    """Return the mean cross-entropy of the tokens of an answer and the end of its turn, in nats."""
    torch = load_library("torch")
    tokens, start = answered_tokens(tokenizer, pair.prompt, answer)
    row = torch.tensor([tokens], device=model.device)
    with torch.inference_mode():
        logits = model(input_ids=row, use_cache=False).logits[0, start - 1 : -1].float()
        return float(torch.nn.functional.cross_entropy(logits, row[0, start:]))


def generate_answers(model: Any, tokenizer: Any, pairs: Sequence[TrainingPair], max_tokens: int) -> list[str]:
    """Answer the prompts of pairs by greedy decoding, with up to `max_tokens` tokens an answer, in their order."""
    answers = [""] * len(pairs)
    prompts = [prompt_tokens(tokenizer, pair.prompt) for pair in pairs]
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    for start in range(0, len(order), _BATCH_SIZE):
        batch = order[start : start + _BATCH_SIZE]
        texts = _generate_batch(model, tokenizer, [prompts[index] for index in batch], max_tokens)
        for index, text in zip(batch, texts, strict=True):
            answers[index] = text
    return answers


def _generate_batch(model: Any, tokenizer: Any, prompts: Sequence[list[int]], max_tokens: int) -> list[str]:
    """Generate with padding on the left, so that all replies begin at the same position."""
    torch = load_library("torch")
    rows = tokenizer.pad({"input_ids": list(prompts)}, padding_side="left", return_tensors="pt").to(model.device)
    with torch.inference_mode():
        found = model.generate(**rows, do_sample=False, max_new_tokens=max_tokens, pad_token_id=tokenizer.pad_token_id)
    width = rows["input_ids"].shape[1]
    return [str(tokenizer.decode(row[width:], skip_special_tokens=True)).strip() for row in found]
