"""The test part, asked of the base model and of the tuned one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fdarx_core.storage import RunDirectory
from fdarx_core.tuning.encoding import ChatEncoder, concatenate_pairs
from fdarx_core.tuning.evaluation import BASE, TUNED, TunedAnswer, score_answers
from fdarx_core.tuning.pairs import TrainingPair
from fdarx_core.tuning.training import ADAPTER_FILES, LoraModel, TuningSpec, generate_answers


def examine(run: RunDirectory, tuning: TuningSpec, pairs: Sequence[TrainingPair]) -> list[TunedAnswer]:
    """Return the answers of both models, with their scores. It runs in one Ray task, on a GPU if there is one."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ADAPTER_FILES:
            (Path(folder) / name).write_bytes((run.file("adapter") / name).read_bytes())
        tuned = LoraModel(tuning, adapter=folder)
    encoder = ChatEncoder(tuning.model)
    with tuned.without_adapter():
        rows = _answered(tuned, encoder, pairs, BASE, tuning.max_tokens)
    rows += _answered(tuned, encoder, pairs, TUNED, tuning.max_tokens)
    return score_answers(rows, encoder=tuning.encoder, bertscore=tuning.bertscore, layers=tuning.bertscore_layers)


def _answered(
    tuned: LoraModel, encoder: ChatEncoder, pairs: Sequence[TrainingPair], name: str, most: int
) -> list[TunedAnswer]:
    losses = [_loss(tuned, encoder, one) for one in pairs]
    given = generate_answers(tuned, encoder, [one.question for one in pairs], most)
    return [
        TunedAnswer(one.id, one.group, name, one.question, one.answer, text, loss, 0.0)
        for one, text, loss in zip(pairs, given, losses, strict=True)
    ]


def _loss(tuned: LoraModel, encoder: ChatEncoder, pair: TrainingPair) -> float:
    row = concatenate_pairs([encoder.encode(pair)])
    no_grad: Any = tuned.torch.inference_mode()
    with no_grad:
        return float(tuned.loss(row)) / row.answer_tokens
