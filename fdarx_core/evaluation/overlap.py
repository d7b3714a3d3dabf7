"""Overlap of an answer's wording with reference answers: BLEU, METEOR, ROUGE and token F1.

`bleu`, `meteor` and `rouge_l` are the metrics of FDARxBench §B.7; `rouge` and `bleu_4` are those of FAS §3.1 and §4,
over Penn Treebank tokens. The libraries are imported where they are used: nltk imports half of scipy and takes
seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import words_of
from fdarx_core.evaluation.ranking import f1, share

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


_KINDS = ("rouge1", "rouge2", "rougeL")
_STEMMED = 3


def treebank_tokens(text: str) -> list[str]:
    """Penn Treebank tokens in lower case, punctuation among them, sentence by sentence, as the tokenizer wants them."""
    return list(_tokens(text))


def rouge(prediction: str, references: Sequence[str]) -> tuple[float, float, float]:
    """ROUGE-1, ROUGE-2 and ROUGE-L F1 in 0 to 1, over Porter stems; each is that of its best reference.

    Raises `ValueError` without a reference.
    """
    found = [_rouge_overlap().score(reference, prediction) for reference in _given(references)]
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
    return max(min(1.0, _bleu_overlap(tokens, treebank_tokens(reference))) for reference in _given(references))


def _given(references: Sequence[str]) -> Sequence[str]:
    if not references:
        raise ValueError("no reference to compare with; answers without one have no overlap")
    return references


def _bleu_overlap(tokens: list[str], reference: list[str]) -> float:
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
    return tuple(token.lower() for sentence in split_sentences(text) for token in split(sentence))


@cache
def _treebank() -> Any:
    from nltk.tokenize.treebank import TreebankWordTokenizer

    return TreebankWordTokenizer()


@cache
def _nltk_bleu() -> tuple[Any, Any]:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    return sentence_bleu, SmoothingFunction().method1


@cache
def _rouge_overlap() -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(_KINDS), tokenizer=_Stems())


def token_f1(answer: str, references: Sequence[str]) -> float | None:
    """F1 of the words that answer and reference share, each as often as it stands in both; the best reference counts.

    Words are in lower case and without a plural's s. None without a reference. Source: Rajpurkar et al. 2016, §6.1.
    """
    return max((_shared(words_of(answer), words_of(reference)) for reference in references), default=None)


def _shared(said: Sequence[str], wanted: Sequence[str]) -> float:
    both = (Counter(said) & Counter(wanted)).total()
    return f1(share(both, len(said)), share(both, len(wanted)))
