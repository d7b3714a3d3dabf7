"""Overlaps against plain calls of the libraries, and what holds for any two texts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nltk
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from nltk.corpus import wordnet
from nltk.translate.meteor_score import single_meteor_score
from rouge_score.rouge_scorer import RougeScorer

from fdarx_core.evaluation.metrics.overlap import Overlaps, bleu, meteor, meteor_name, overlaps, rouge_l
from tests.conftest import REPOSITORY
from tests.evaluation.metric_rows import MetricRow

TEXTS = st.lists(st.sampled_from("take 2.5 mg of the tablets, tablet Take daily dosing doses . % (5-10)".split())).map(  # noqa: SIM905
    " ".join
)


class NoWords:
    def synsets(self, word: str) -> list[str]:
        return []


def plain(prediction: str, reference: str) -> tuple[float, float, float]:
    split: Callable[[str], str] = sacrebleu.BLEU(tokenize="13a").tokenizer
    lexicon = wordnet if meteor_name() == "METEOR" else NoWords()
    found = single_meteor_score(split(reference).split(), split(prediction).split(), wordnet=lexicon)
    rouge = RougeScorer(["rougeL"], use_stemmer=True).score(reference, prediction)["rougeL"].fmeasure
    return sacrebleu.sentence_bleu(prediction, [reference]).score / 100, found, rouge


def values(found: Overlaps) -> tuple[float, float, float]:
    return found.bleu, found.meteor, found.rouge_l


def test_equal_to_the_libraries(rows: list[MetricRow]) -> None:
    found = [overlaps(row.answer, row.question.answer) for row in rows]
    for row, ours in zip(rows, found, strict=True):
        assert values(ours) == pytest.approx(plain(row.answer, row.question.answer), abs=1e-9)
    assert sum(ours.bleu > 0.05 for ours in found) > 50


@given(TEXTS, TEXTS)
def test_equal_to_the_libraries_on_any_words(prediction: str, reference: str) -> None:
    ours = values(overlaps(prediction, reference))
    assert ours == pytest.approx(plain(prediction, reference), abs=1e-9)
    assert all(0 <= value <= 1 for value in ours)


@given(st.text(), st.text())
def test_any_text_is_within_bounds(prediction: str, reference: str) -> None:
    assert all(0 <= value <= 1 for value in values(overlaps(prediction, reference)))


def test_values_made_by_hand() -> None:
    same = "Take one tablet with food daily"
    assert bleu(same, same) == rouge_l(same, same) == pytest.approx(1)
    assert meteor(same, same) == pytest.approx(1 - 0.5 * (1 / 6) ** 3)
    # Two of the three words in order, of four and of three: recall 2/4, precision 2/3.
    assert rouge_l("one tablets weekly", "take one tablet daily") == pytest.approx(2 * (2 / 4) * (2 / 3) / (7 / 6))
    # One unigram of one, shorter than the reference by half; there are no longer n-grams.
    assert bleu("daily", "taken daily") == pytest.approx(2.718281828459045 ** (1 - 2))


@pytest.mark.parametrize(("prediction", "reference"), [("", "40 mg daily"), ("40 mg daily", ""), ("", ""), ("x", "y")])
def test_nothing_in_common_is_zero(prediction: str, reference: str) -> None:
    assert values(overlaps(prediction, reference)) == (0, 0, 0)


def test_the_name_says_whether_synonyms_count() -> None:
    try:
        nltk.data.find("corpora/wordnet")
    except LookupError:
        assert meteor_name() == "METEOR without synonyms"
        assert meteor("one pill", "one tablet") == meteor("one spoon", "one tablet")
    else:
        assert meteor_name() == "METEOR"


def test_synonyms_count_where_wordnet_is(tmp_path: Path) -> None:
    folder = tmp_path / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    for kind in ("noun", "verb", "adj", "adv"):
        for name in (f"index.{kind}", f"data.{kind}", f"{kind}.exc"):
            (folder / name).write_text("")
    (folder / "lexnames").write_text("".join(f"{number:02d}\tnoun.{number}\t1\n" for number in range(45)))
    (folder / "index.noun").write_text("pill n 1 0 1 0 00000000\ntablet n 1 0 1 0 00000000\n")
    (folder / "index.sense").write_text("")
    (folder / "data.noun").write_text("00000000 06 n 02 pill 0 tablet 0 000 | a small round medicine\n")
    code = "from fdarx_core.evaluation.metrics.overlap import *; print(meteor_name(), meteor('one pill', 'one tablet'))"
    environment = os.environ | {"NLTK_DATA": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    name, value = done.stdout.split()
    assert name == "METEOR"
    assert float(value) == pytest.approx(1 - 0.5 * (1 / 2) ** 3)
