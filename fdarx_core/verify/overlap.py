"""Word overlap as an engine: the peer with which `fdarx verify` compares the others. No job judges by it."""

from __future__ import annotations

from fdarx_core.verify.engine import Inference, RuleEngine, TextPair
from fdarx_core.verify.exact_tokens import tokenize_sentence

LEAST_RECALL = 0.7
"""Share of a statement's distinct words and numbers that the text must have to support it."""


def _judge(pair: TextPair) -> Inference:
    """Compare the share of the statement's tokens that the text has with `LEAST_RECALL`; nothing is contradicted."""
    texts = pair.hypothesis, pair.premise
    said, there = ({one.key for one in tokenize_sentence(text) if one.kind != "mark"} for text in texts)
    recall = len(said & there) / max(len(said), 1)
    held = float(recall >= LEAST_RECALL)
    return Inference(held, 1 - held, 0.0, 0, len(pair.premise), f"token recall {recall:.2f}")


ENGINE = RuleEngine("overlap", _judge)
