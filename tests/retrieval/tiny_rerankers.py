"""Cross-encoders of two layers with random weights, of the kinds that BGE rerankers are, and passages for them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY

LONGEST = 512
KINDS = ("bert", "xlm-roberta")

_SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_WORDS = 400
"""Few, so that most words are of several tokens, and a cut may fall within one."""


def sentences() -> list[str]:
    """Those of the example guidelines."""
    files = sorted((REPOSITORY / "examples" / "guidelines").iterdir())
    text = re.sub(r"<[^>]+>|&\w+;", " ", "\n\n".join(file.read_text() for file in files))
    return [" ".join(piece.split()) for piece in re.split(r"(?<=[.?])\s|\n\n", text) if piece.strip()]


def passages(count: int, longest: int, seed: int = 7) -> list[str]:
    """Each of 1 to `longest` sentences, in some order."""
    chosen, known = random.Random(seed), sentences()
    return [" ".join(chosen.choices(known, k=chosen.randint(1, longest))) for _ in range(count)]


def cross_encoder(kind: str, folder: Path, sizes: Mapping[str, int] = _SIZES) -> str:
    """A model that reads up to 512 tokens; returns its directory. Its weights are wide, so that its scores are."""
    import torch

    torch.manual_seed(5)
    tokenizer, model = _MAKERS[kind](sentences(), {**sizes, "num_labels": 1, "initializer_range": 0.3})
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


def _bert(texts: Sequence[str], sizes: Mapping[str, Any]) -> tuple[Any, Any]:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    plain = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    plain.normalizer = normalizers.BertNormalizer()
    plain.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    plain.decoder = decoders.WordPiece()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    plain.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=_WORDS, special_tokens=marks))
    plain.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = BertTokenizerFast(tokenizer_object=plain, model_max_length=LONGEST)
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=LONGEST, **sizes)
    return tokenizer, BertForSequenceClassification(config)


def _xlm_roberta(texts: Sequence[str], sizes: Mapping[str, Any]) -> tuple[Any, Any]:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForSequenceClassification

    names = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    plain = Tokenizer(models.Unigram())
    plain.normalizer = normalizers.NFKC()
    plain.pre_tokenizer = pre_tokenizers.Metaspace()
    plain.decoder = decoders.Metaspace()
    marks = list(names.values())
    trainer = trainers.UnigramTrainer(vocab_size=_WORDS, special_tokens=marks, unk_token="<unk>", show_progress=False)
    plain.train_from_iterator(texts, trainer)
    ends = [("<s>", 0), ("</s>", 2)]
    plain.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", ends)
    inputs = ["input_ids", "attention_mask"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, model_max_length=LONGEST, model_input_names=inputs, **names
    )
    # positions are counted from the one after the padding's
    config = XLMRobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=LONGEST + 2, pad_token_id=1, **sizes)
    return tokenizer, XLMRobertaForSequenceClassification(config)


_MAKERS: dict[str, Callable[[Sequence[str], Mapping[str, Any]], tuple[Any, Any]]] = {
    "bert": _bert,
    "xlm-roberta": _xlm_roberta,
}
