"""Models of two layers with random weights, in directories as real ones are downloaded into."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any


def tokenizer(texts: Iterable[str]) -> Any:
    """BERT's, with whole words of these texts for its vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertTokenizerFast

    words = sorted({word.strip(".,").lower() for text in texts for word in text.split()})
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", ","]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys([*marks, *words]))}
    plain = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    plain.normalizer = normalizers.Lowercase()
    plain.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    plain.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return BertTokenizerFast(tokenizer_object=plain, pad_token="[PAD]", cls_token="[CLS]")


def config(tokenizer: Any, longest: int) -> Any:
    """Of models that read up to `longest` tokens; random weights follow from the seed that this sets."""
    import torch
    from transformers import BertConfig

    torch.manual_seed(5)
    return BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=longest,
        num_labels=1,
    )


def encoder(texts: Iterable[str], folder: Path, longest: int = 128) -> str:
    """A model of token embeddings; returns its directory."""
    from transformers import BertModel

    words = tokenizer(texts)
    return _saved(words, BertModel(config(words, longest)), folder)


def cross_encoder(texts: Iterable[str], folder: Path, longest: int = 128) -> str:
    """A model that gives a pair of texts one number; returns its directory."""
    from transformers import BertForSequenceClassification

    words = tokenizer(texts)
    return _saved(words, BertForSequenceClassification(config(words, longest)), folder)


def _saved(tokenizer: Any, model: Any, folder: Path) -> str:
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)
