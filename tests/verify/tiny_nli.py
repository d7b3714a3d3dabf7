"""NLI cross-encoders of two layers with random weights, in directories as real ones are downloaded into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.retrieval import tiny_rerankers

KINDS = ("bert", "xlm-roberta", "deberta-v2")
LONGEST = tiny_rerankers.LONGEST
LABELS = ("entailment", "neutral", "contradiction")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def cross_encoder(kind: str, folder: Path, labels: Sequence[str] = LABELS, sizes: Mapping[str, int] = SIZES) -> str:
    """A model that reads up to 512 tokens; returns its directory. The same weights whatever the labels' names."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tiny_rerankers.cross_encoder("bert" if kind == "bert" else "xlm-roberta", folder, sizes)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = _config(kind, len(tokenizer), tokenizer.pad_token_id, sizes)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: number for number, label in enumerate(labels)}
    torch.manual_seed(7)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    return str(folder)


def _config(kind: str, words: int, padding: int, sizes: Mapping[str, int]) -> Any:
    from transformers import BertConfig, DebertaV2Config, XLMRobertaConfig

    shared = {**sizes, "vocab_size": words, "pad_token_id": padding, "initializer_range": 0.3}
    if kind == "bert":
        return BertConfig(**shared, max_position_embeddings=LONGEST)
    if kind == "xlm-roberta":
        return XLMRobertaConfig(**shared, max_position_embeddings=LONGEST + 2)
    # as DeBERTa-v3 is: no positions of its own, no token types
    relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
    return DebertaV2Config(
        **shared, **relative, position_buckets=64, norm_rel_ebd="layer_norm", share_att_key=True, type_vocab_size=0,
        max_position_embeddings=LONGEST,
    )  # fmt: skip
