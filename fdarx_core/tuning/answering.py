"""Answers to the questions of the test part, by the base model and by the tuned one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fdarx_core.tuning.encoding import ChatEncoder
from fdarx_core.tuning.model import Tuned

_AT_ONCE = 8


def answers(tuned: Tuned, encoder: ChatEncoder, questions: Sequence[str], most: int) -> list[str]:
    """The likeliest next token each time, up to `most` tokens an answer; in the order of the questions."""
    found = [""] * len(questions)
    prompts = [encoder.prompt(question) for question in questions]
    order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
    for start in range(0, len(order), _AT_ONCE):
        batch = order[start : start + _AT_ONCE]
        for at, text in zip(batch, _batch(tuned, encoder, [prompts[one] for one in batch], most), strict=True):
            found[at] = text
    return found


def _batch(tuned: Tuned, encoder: ChatEncoder, prompts: Sequence[list[int]], most: int) -> list[str]:
    """Prompts end together, so that all replies begin at one place."""
    torch, tokenizer = tuned.torch, encoder.tokenizer
    width = max(map(len, prompts))
    filler = _filler(tokenizer)
    tokens = torch.tensor([[filler] * (width - len(one)) + one for one in prompts], device=tuned.device)
    mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts], device=tuned.device)
    tuned.model.eval()
    with torch.inference_mode(), tuned.precision():
        made = tuned.model.generate(
            input_ids=tokens, attention_mask=mask, do_sample=False, max_new_tokens=most, pad_token_id=filler
        )
    return [str(tokenizer.decode(row[width:], skip_special_tokens=True)).strip() for row in made]


def _filler(tokenizer: Any) -> int:
    return int(tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id)
