"""How much of a reference answer's wording a prediction has, by the field's own libraries. Source: FDARxBench §B.7.

They are imported where they are used: nltk brings half of scipy along, and takes seconds that only scoring should cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

_WORDS = 2**17
_TEXTS = 2**12


def bleu(prediction: str, reference: str) -> float:
    """Sentence BLEU in 0 to 1: sacrebleu's, tokenizer 13a, case kept, exponential smoothing, effective order."""
    return min(1.0, float(_bleu().sentence_score(prediction, [reference]).score) / 100)


def meteor(prediction: str, reference: str) -> float:
    """METEOR in 0 to 1: nltk's with its own weights, over the lower-cased words that `bleu` counts.

    Words match as they are, by their Porter stems, and, where WordNet is installed, as synonyms (`meteor_name`).
    """
    return float(_meteor()(_words(reference), _words(prediction), stemmer=stemmer(), wordnet=_lexicon()))


def meteor_name() -> str:
    """What `meteor` gives on this machine, for reports: "METEOR", or "METEOR without synonyms" for want of WordNet."""
    return "METEOR" if _has_wordnet() else "METEOR without synonyms"


def rouge_l(prediction: str, reference: str) -> float:
    """ROUGE-L F1 in 0 to 1: rouge-score's, with Porter stems, as is usual."""
    return float(_rouge().score(reference, prediction)["rougeL"].fmeasure)


@dataclass(frozen=True, slots=True)
class Overlaps:
    """The three of one prediction, each in 0 to 1."""

    bleu: float
    meteor: float
    rouge_l: float


def overlaps(prediction: str, reference: str) -> Overlaps:
    return Overlaps(bleu(prediction, reference), meteor(prediction, reference), rouge_l(prediction, reference))


class Stemmer:
    """A Porter stemmer that stems each word once: stemming is most of what METEOR and ROUGE cost."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self.stem: Callable[[str], str] = lru_cache(_WORDS)(PorterStemmer().stem)


class _RougeWords:
    """rouge-score's own words with Porter stems; a reference answer is read once for all settings of a model."""

    def __init__(self) -> None:
        from rouge_score.tokenize import tokenize

        self.tokenize: Callable[[str], list[str]] = lru_cache(_TEXTS)(lambda text: tokenize(text, stemmer()))


class _Lexicon:
    """A WordNet that looks each word up once, or an empty one."""

    def __init__(self, look_up: Callable[[str], Sequence[Any]]) -> None:
        self.synsets: Callable[[str], Sequence[Any]] = lru_cache(_WORDS)(look_up)


@cache
def _has_wordnet() -> bool:
    import nltk

    try:
        nltk.data.find("corpora/wordnet")
    except LookupError:
        return False
    return True


@cache
def _lexicon() -> _Lexicon:
    if not _has_wordnet():
        return _Lexicon(lambda word: ())
    from nltk.corpus import wordnet

    return _Lexicon(wordnet.synsets)


@cache
def stemmer() -> Stemmer:
    return Stemmer()


@cache
def _meteor() -> Callable[..., float]:
    from nltk.translate.meteor_score import single_meteor_score

    score: Callable[..., float] = single_meteor_score
    return score


@cache
def _bleu() -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(effective_order=True)


@cache
def _rouge() -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_RougeWords())


@lru_cache(_TEXTS)
def _words(text: str) -> list[str]:
    return str(_bleu().tokenizer(text.rstrip())).split()
