"""Overlap of answers with reference answers: BLEU, METEOR, ROUGE and token F1.

`bleu`, `meteor` and `rouge_l` are the metrics of FDARxBench §B.7; `rouge` and `bleu_4` are those of FAS §3.1 and §4,
over Penn Treebank tokens. The libraries are imported where they are used, because nltk imports scipy, which takes
seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
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
    """Return sentence BLEU of sacrebleu in 0 to 1: tokenizer 13a, with case, exponential smoothing, effective order."""
    return min(1.0, float(_bleu().sentence_score(prediction, [reference]).score) / 100)


def meteor(prediction: str, reference: str) -> float:
    """Return METEOR of nltk in 0 to 1, with its default weights, over the lower-cased words of `bleu`.

    Words match literally, by their Porter stems and, if WordNet is installed, as synonyms (see `meteor_name`).
    """
    return float(_meteor()(_words(reference), _words(prediction), stemmer=stemmer(), wordnet=_lexicon()))


def meteor_name() -> str:
    """Return the name of `meteor` for reports: "METEOR", or "METEOR without synonyms" if WordNet is not installed."""
    return "METEOR" if _has_wordnet() else "METEOR without synonyms"


def rouge_l(prediction: str, reference: str) -> float:
    """Return ROUGE-L F1 of rouge-score in 0 to 1, with Porter stems."""
    return float(_rouge_scorer(("rougeL",), _rouge_tokens).score(reference, prediction)["rougeL"].fmeasure)


def overlaps(prediction: str, reference: str) -> dict[str, Any]:
    """Return bleu, meteor and rouge_l of an answer, each in 0 to 1."""
    return {
        "bleu": bleu(prediction, reference),
        "meteor": meteor(prediction, reference),
        "rouge_l": rouge_l(prediction, reference),
    }


@cache
def _has_wordnet() -> bool:
    import nltk

    try:
        nltk.data.find("corpora/wordnet")
    except LookupError:
        return False
    return True


@cache
def _lexicon() -> SimpleNamespace:
    """Return a WordNet that looks each word up once, or an empty one."""
    if not _has_wordnet():
        return SimpleNamespace(synsets=lambda word: ())
    from nltk.corpus import wordnet

    return SimpleNamespace(synsets=lru_cache(_WORDS)(wordnet.synsets))


@cache
def stemmer() -> SimpleNamespace:
    """Return a Porter stemmer that stems each word once: stemming takes most of the time of METEOR and ROUGE."""
    from nltk.stem.porter import PorterStemmer

    return SimpleNamespace(stem=lru_cache(_WORDS)(PorterStemmer().stem))


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
def _rouge_scorer(kinds: tuple[str, ...], tokenize: Callable[[str], list[str]]) -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(kinds), tokenizer=SimpleNamespace(tokenize=tokenize))


@lru_cache(_TEXTS)  # a reference is tokenized once for all settings
def _rouge_tokens(text: str) -> list[str]:
    from rouge_score.tokenize import tokenize

    return list(tokenize(text, stemmer()))


@lru_cache(_TEXTS)
def _words(text: str) -> list[str]:
    return str(_bleu().tokenizer(text.rstrip())).split()


_KINDS = ("rouge1", "rouge2", "rougeL")
_STEMMED = 3


def treebank_tokens(text: str) -> list[str]:
    """Return Penn Treebank tokens in lower case with punctuation; the text is split into sentences first."""
    return list(_tokens(text))


def rouge(prediction: str, references: Sequence[str]) -> tuple[float, float, float]:
    """Return ROUGE-1, ROUGE-2 and ROUGE-L F1 in 0 to 1 over Porter stems; each is that of its best reference.

    Raises `ValueError` without a reference.
    """
    scorer = _rouge_scorer(_KINDS, _stems)
    found = [scorer.score(reference, prediction) for reference in _given(references)]
    one, two, longest = (max(float(scores[kind].fmeasure) for scores in found) for kind in _KINDS)
    return one, two, longest


def bleu_4(prediction: str, references: Sequence[str]) -> float:
    """Return sentence BLEU-4 in 0 to 1 with smoothing method 1 (Chen and Cherry 2014), for the best reference.

    Raises `ValueError` without a reference.
    """
    tokens = treebank_tokens(prediction)
    if not tokens:
        _given(references)
        return 0.0
    score, smoothing = _nltk_bleu()
    found = (
        float(score([treebank_tokens(reference)], tokens, smoothing_function=smoothing))
        for reference in _given(references)
    )
    return max(min(1.0, one) for one in found)


def _given(references: Sequence[str]) -> Sequence[str]:
    if not references:
        raise ValueError("no reference to compare with; answers without one have no overlap")
    return references


def _stems(text: str) -> list[str]:
    """Return stemmed tokens; as in rouge-score, words of up to three letters are not stemmed."""
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


def token_f1(answer: str, references: Sequence[str]) -> float | None:
    """Return F1 of the words of answer and reference, each counted as often as it is in both, for the best reference.

    Words are in lower case and without a plural's s. None without a reference. Source: Rajpurkar et al. 2016, §6.1.
    """
    return max((_shared(words_of(answer), words_of(reference)) for reference in references), default=None)


def _shared(said: Sequence[str], wanted: Sequence[str]) -> float:
    both = (Counter(said) & Counter(wanted)).total()
    return f1(share(both, len(said)), share(both, len(wanted)))
