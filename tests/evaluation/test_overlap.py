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
from nltk.stem.porter import PorterStemmer
from nltk.tokenize.treebank import TreebankWordTokenizer
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.meteor_score import single_meteor_score
from rouge_score.rouge_scorer import RougeScorer

from fdarx_core.evaluation.similarity import (
    bleu,
    bleu_4,
    meteor,
    meteor_name,
    overlaps,
    rouge,
    rouge_l,
    treebank_tokens,
)
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


def values(found: dict[str, float]) -> tuple[float, ...]:
    return tuple(found.values())


def test_equal_to_the_libraries(rows: list[MetricRow]) -> None:
    found = [overlaps(row.answer, row.question.answer) for row in rows]
    for row, ours in zip(rows, found, strict=True):
        assert values(ours) == pytest.approx(plain(row.answer, row.question.answer), abs=1e-9)
    assert sum(ours["bleu"] > 0.05 for ours in found) > 50


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
    code = "from fdarx_core.evaluation.similarity import *; print(meteor_name(), meteor('one pill', 'one tablet'))"
    environment = os.environ | {"NLTK_DATA": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    name, value = done.stdout.split()
    assert name == "METEOR"
    assert float(value) == pytest.approx(1 - 0.5 * (1 / 2) ** 3)


WORDS = "take 2.5 mg of the tablets, tablet Take daily dosing doses doesn't . % (5-10) patients".split()  # noqa: SIM905
LINES = st.lists(st.sampled_from(WORDS), max_size=15).map(" ".join)
SENTENCES = st.lists(st.sampled_from([word for word in WORDS if word != "."]), min_size=1, max_size=15).map(" ".join)
REFERENCES = st.lists(LINES, min_size=1, max_size=3)


class Plain:
    """Treebank tokens of one sentence with Porter stems, as a caller of rouge-score would write it."""

    def tokenize(self, text: str) -> list[str]:
        stem = PorterStemmer().stem
        return [stem(t) if len(t) > 3 else t for t in (t.lower() for t in TreebankWordTokenizer().tokenize(text))]


@given(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=3))
def test_equal_to_the_libraries_factuality_overlap(prediction: str, references: list[str]) -> None:
    kinds = ["rouge1", "rouge2", "rougeL"]
    plain = RougeScorer(kinds, tokenizer=Plain()).score_multi(references, prediction)
    assert rouge(prediction, references) == pytest.approx([plain[kind].fmeasure for kind in kinds])
    split = [[t.lower() for t in TreebankWordTokenizer().tokenize(text)] for text in (prediction, *references)]
    smoothing = SmoothingFunction().method1
    expected = max(sentence_bleu([one], split[0], smoothing_function=smoothing) for one in split[1:])
    assert bleu_4(prediction, references) == pytest.approx(expected)


def test_by_hand() -> None:
    # Of five and seven tokens (a full stop each) five are shared, in order; of four and six pairs three.
    one, two, longest = rouge("Take one tablet daily.", ["Take one tablet by mouth daily."])
    assert one == pytest.approx(2 * (5 / 5) * (5 / 7) / (5 / 5 + 5 / 7))
    assert two == pytest.approx(2 * (3 / 4) * (3 / 6) / (3 / 4 + 3 / 6))
    assert longest == pytest.approx(one)
    # Stems: dosing and doses are both dose; the words' order is turned round, so that one of two is in order.
    assert rouge("dosing patients", ["patient doses"]) == pytest.approx((1, 0, 0.5))
    # Precisions 4/5 … of five tokens: 4/5, 3/4, 2/3, 1/2 with a penalty for 5 tokens against 6.
    found = bleu_4("one tablet daily with milk", ["one tablet daily with food always"])
    assert found == pytest.approx((4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25 * 2.718281828459045 ** (1 - 6 / 5))
    # Smoothing 1: a tenth of a match where there is none.
    assert bleu_4("a b c d", ["a x y z"]) == pytest.approx((1 / 4 * 0.1 / 3 * 0.1 / 2 * 0.1 / 1) ** 0.25)


def test_tokens_are_those_of_the_treebank_sentence_by_sentence() -> None:
    assert treebank_tokens("Don't exceed 2.5 mg (daily). Stop at 5%!") == [
        "do", "n't", "exceed", "2.5", "mg", "(", "daily", ")", ".", "stop", "at", "5", "%", "!",
    ]  # fmt: skip


@pytest.mark.parametrize("prediction", ["", "  ", "\n"])
def test_no_words_have_nothing_in_common(prediction: str) -> None:
    assert rouge(prediction, ["40 mg"]) == (0, 0, 0)
    assert bleu_4(prediction, ["40 mg"]) == 0
    assert rouge("40 mg", [prediction]) == (0, 0, 0)
    assert bleu_4("40 mg", [prediction]) == 0


def test_without_a_reference_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        rouge("x", [])
    for prediction in ("x", ""):
        with pytest.raises(ValueError, match="empty"):
            bleu_4(prediction, [])


@given(st.text(max_size=60), st.lists(st.text(max_size=60), min_size=1, max_size=3))
def test_any_text_is_within_bounds_factuality_overlap(prediction: str, references: list[str]) -> None:
    assert all(0 <= value <= 1 for value in (*rouge(prediction, references), bleu_4(prediction, references)))


@given(SENTENCES)
def test_a_text_is_like_itself(text: str) -> None:
    one, two, longest = rouge(text, [text])
    tokens = len(treebank_tokens(text))
    assert (one, longest) == pytest.approx((1, 1))
    assert two == pytest.approx(float(tokens > 1))
    if tokens >= 4:
        assert bleu_4(text, [text]) == pytest.approx(1)


@given(LINES, REFERENCES, LINES, st.randoms())
def test_more_references_never_lower_a_score_and_their_order_does_not_count(
    prediction: str, references: list[str], more: str, dice: object
) -> None:
    few = (*rouge(prediction, references), bleu_4(prediction, references))
    many = (*rouge(prediction, [*references, more]), bleu_4(prediction, [*references, more]))
    assert all(one <= other for one, other in zip(few, many, strict=True))
    shuffled = [*references, more]
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert (*rouge(prediction, shuffled), bleu_4(prediction, shuffled)) == many
