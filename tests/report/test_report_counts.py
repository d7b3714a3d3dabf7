"""Aggregates of a small run against a count by hand."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.records import Label, Passage, QuestionAnswer, Reject, to_table
from fdarx_core.report.counts import ANY_TYPE, Counts, quantile
from fdarx_core.report.exhibits import coverage, passage_lengths, topics
from fdarx_core.report.parts import Part
from fdarx_core.report.picks import Picks
from tests.report.synthetic_run import make_label

USE, DOSE, RISK = "34067-9", "34068-7", "43685-7"


def passage(set_id: str, index: int, code: str, text: str) -> Passage:
    return Passage(set_id, index, 0, "42229-5", code, "", "", "", text)


def question(name: str, kind: str, source: str, category: str, set_id: str, gold: list[int]) -> QuestionAnswer:
    return QuestionAnswer(name, kind, kind, source, category, set_id, "Abacorin", f"{name}?", "Yes.", gold)


def two_labels() -> Part:
    """Label a has all three sections and five candidates, of which three stay; label b has one and no question."""
    candidates = [
        question("q1", "factual", "highlights", "Indications & Usage", "a", [0]),
        question("q2", "factual", "section", "Dosage & Administration", "a", [1, 2]),
        question("q3", "multihop", "section_pair", "Dosage & Administration", "a", [1, 3]),
        question("q4", "factual", "section", "Drug Interactions", "a", [3]),
        question("q5", "refusal", "refusal_template", "Drug Interactions", "a", []),
    ]
    passages = [
        passage("a", 0, USE, "for pain"),
        passage("a", 1, DOSE, "one tablet daily"),
        passage("a", 2, DOSE, "two  tablets\nat most"),
        passage("a", 3, RISK, "may bleed"),
        passage("b", 0, USE, "for fever"),
    ]
    rejects = [
        Reject("bad.xml", "read", "not_xml"),
        Reject("q4", "rules", "answer_too_short"),
        Reject("q5", "duplicates", "near_duplicate"),
    ]
    return Part(
        to_table([make_label("a", "Abacorin"), make_label("b", "Benzolex")], Label),
        to_table(passages, Passage),
        to_table(candidates, QuestionAnswer),
        to_table(candidates[:3], QuestionAnswer),
        to_table(rejects, Reject),
    )


def counted(*parts: Part) -> Counts:
    counts = Counts()
    for part in parts:
        counts.add(part)
    return counts


def test_counts_equal_a_hand_count() -> None:
    counts = counted(two_labels())
    assert (counts.labels, counts.passages) == (2, 5)
    assert counts.candidates == {"factual": 3, "multihop": 1, "refusal": 1}
    assert counts.questions["factual", "section", "Dosage & Administration"] == 1
    assert counts.questions.total() == 3
    assert counts.passage_words == {2: 3, 3: 1, 4: 1}
    assert counts.questions_per_label == {3: 1, 0: 1}


def test_rejects_carry_the_type_of_their_candidate() -> None:
    assert counted(two_labels()).dropped == {
        ("read", "not_xml", ""): 1,
        ("rules", "answer_too_short", "factual"): 1,
        ("duplicates", "near_duplicate", "refusal"): 1,
    }


def test_coverage_counts_labels_not_questions() -> None:
    counts = counted(two_labels())
    assert counts.sections == {USE: 2, DOSE: 1, RISK: 1}
    assert counts.asked == {
        (USE, "factual"): 1, (DOSE, "factual"): 1, (DOSE, "multihop"): 1, (RISK, "multihop"): 1,
        (USE, ANY_TYPE): 1, (DOSE, ANY_TYPE): 1, (RISK, ANY_TYPE): 1,
    }  # fmt: skip
    assert coverage(counts).rows[0] == ("Indications and usage", 2, [0.5, 0.0, 0.5])


def test_parts_add_up() -> None:
    once, twice = counted(two_labels()), counted(two_labels(), two_labels())
    assert twice.passages == 2 * once.passages
    assert twice.asked == once.asked + once.asked
    assert twice.dropped == once.dropped + once.dropped


def test_topic_bars_hold_every_question() -> None:
    counts = counted(two_labels())
    assert sum(sum(bar.x) for bar in topics(counts).figure.data) == counts.questions.total()


@given(st.dictionaries(st.integers(0, 5000), st.integers(1, 50), min_size=1))
def test_histogram_holds_every_row(lengths: dict[int, int]) -> None:
    bars = passage_lengths(Counts(passage_words=Counter(lengths))).figure.data[0]
    assert sum(bars.y) == sum(lengths.values())
    assert len(bars.y) <= 32


@given(st.lists(st.integers(0, 100), min_size=1), st.floats(0.01, 1))
def test_quantile_leaves_at_most_its_share_below(values: list[int], share: float) -> None:
    found = quantile(Counter(values), share)
    assert sum(value < found for value in values) < share * len(values) + 1e-9
    assert found in values


@given(st.lists(st.text(), unique=True), st.randoms())
def test_samples_do_not_depend_on_order(ids: list[str], random: st.DataObject) -> None:
    shuffled = list(ids)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = Picks[str](3, seed=1), Picks[str](3, seed=1)
    for row_id, other in zip(ids, shuffled, strict=True):
        first.offer("all", row_id, lambda row_id=row_id: row_id)  # type: ignore[misc]
        second.offer("all", other, lambda other=other: other)  # type: ignore[misc]
    assert first.of("all") == second.of("all")
    assert len(first.of("all")) == min(3, len(ids))
