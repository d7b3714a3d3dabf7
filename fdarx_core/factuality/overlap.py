"""How much of the references' wording an answer has: ROUGE and BLEU-4 over Penn Treebank tokens. Source: FAS §3.1, §4.

The libraries are imported where they are used, as in `evaluation.metrics.overlap`, whose ROUGE-L has other tokens:
that of FDARxBench.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from fdarx_core.evaluation.metrics.overlap import stemmer
from fdarx_core.filters.text import sentences

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

_KINDS = ("rouge1", "rouge2", "rougeL")
_TEXTS = 2**12
_STEMMED = 3


def treebank_tokens(text: str) -> list[str]:
    """Penn Treebank tokens in lower case, punctuation among them, sentence by sentence, as the tokenizer wants them."""
    return list(_tokens(text))


def rouge(prediction: str, references: Sequence[str]) -> tuple[float, float, float]:
    """ROUGE-1, ROUGE-2 and ROUGE-L F1 in 0 to 1, over Porter stems; each is that of its best reference.

    Raises `ValueError` without a reference.
    """
    found = [_rouge().score(reference, prediction) for reference in _given(references)]
    one, two, longest = (max(float(scores[kind].fmeasure) for scores in found) for kind in _KINDS)
    return one, two, longest


def bleu_4(prediction: str, references: Sequence[str]) -> float:
    """Sentence BLEU-4 in 0 to 1 with smoothing method 1 (Chen and Cherry 2014), of the best reference.

    Raises `ValueError` without a reference.
    """
    tokens = treebank_tokens(prediction)
    if not tokens:
        _given(references)
        return 0.0
    return max(min(1.0, _bleu(tokens, treebank_tokens(reference))) for reference in _given(references))


def _given(references: Sequence[str]) -> Sequence[str]:
    if not references:
        raise ValueError("no reference to compare with; answers without one have no overlap")
    return references


def _bleu(tokens: list[str], reference: list[str]) -> float:
    score, smoothing = _nltk_bleu()
    return float(score([reference], tokens, smoothing_function=smoothing))


class _Stems:
    """A tokenizer as rouge-score wants it; like its own, it leaves words of up to three letters as they are."""

    def tokenize(self, text: str) -> list[str]:
        stem = stemmer().stem
        return [stem(token) if len(token) > _STEMMED else token for token in _tokens(text)]


@lru_cache(_TEXTS)
def _tokens(text: str) -> tuple[str, ...]:
    split = _treebank().tokenize
    return tuple(token.lower() for sentence in sentences(text) for token in split(sentence))


@cache
def _treebank() -> Any:
    from nltk.tokenize.treebank import TreebankWordTokenizer

    return TreebankWordTokenizer()


@cache
def _nltk_bleu() -> tuple[Any, Any]:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    return sentence_bleu, SmoothingFunction().method1


@cache
def _rouge() -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(_KINDS), tokenizer=_Stems())
