"""ROUGE and BLEU-4 against plain calls of the libraries, values by hand, and what holds for any texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer
from nltk.tokenize.treebank import TreebankWordTokenizer
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score.rouge_scorer import RougeScorer

from fdarx_core.factuality.overlap import bleu_4, rouge, treebank_tokens

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
def test_equal_to_the_libraries(prediction: str, references: list[str]) -> None:
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
    with pytest.raises(ValueError, match="no reference"):
        rouge("x", [])
    for prediction in ("x", ""):
        with pytest.raises(ValueError, match="no reference"):
            bleu_4(prediction, [])


@given(st.text(max_size=60), st.lists(st.text(max_size=60), min_size=1, max_size=3))
def test_any_text_is_within_bounds(prediction: str, references: list[str]) -> None:
    assert all(0 <= value <= 1 for value in (*rouge(prediction, references), bleu_4(prediction, references)))


@given(SENTENCES)
def test_a_text_is_like_itself(text: str) -> None:
    one, two, longest = rouge(text, [text])
    tokens = len(treebank_tokens(text))
    assert (one, longest) == pytest.approx((1, 1))
    assert two == pytest.approx(float(tokens > 1))
    if tokens >= 4:
        assert bleu_4(text, [text]) == pytest.approx(1)


@settings(max_examples=25)
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
