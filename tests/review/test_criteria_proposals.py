"""Changes to criteria, how they are written, and what remarks they come from."""

from __future__ import annotations

import csv
from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdarx_core.filters.judges import guided_tasks
from fdarx_core.llm import Criteria
from fdarx_core.llm.prompts import Criterion
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.agreement_metrics import AnnotatedItem
from fdarx_core.review.criteria import split_held_out
from fdarx_core.review.criteria_proposals import (
    PROPOSE_CRITERIA,
    CriterionChange,
    apply_changes,
    criteria_diff,
    criteria_yaml,
    group_disagreements,
    groups_csv,
    guiding_task,
    proposal_slots,
    read_changes,
)
from fdarx_core.review.tasks import REVIEW_TASKS

OURS = Criteria.load()


def item(
    task: str = "relevance", decision: str = "somewhat", question: str = "Is it scored?", **more: str
) -> ReviewItem:
    one = ReviewItem(
        id=f"{task}-{question}",
        task=task,
        subject=question,
        set_id="s",
        drug="D",
        type="factual",
        category="",
        question=question,
        answer="Yes.",
        choices=list(REVIEW_TASKS[task].choices),
        decision=decision,
    )
    return replace(one, **more)  # type: ignore[arg-type]


def voted(one: ReviewItem, *values: str, remark: str = "") -> AnnotatedItem:
    votes = [Annotation(one.id, f"a{place}", one.task, value) for place, value in enumerate(values)]
    votes[0].remark = remark
    return AnnotatedItem(one, votes)


def change(action: str, name: str, text: str = "A rule.", *applies_to: str) -> CriterionChange:
    return CriterionChange.model_validate(
        {"action": action, "id": name, "text": text, "applies_to": list(applies_to), "why": ""}
    )


def test_the_projects_criteria_are_written_as_they_are_read() -> None:
    assert Criteria.from_yaml(criteria_yaml(OURS)) == OURS
    assert criteria_diff(OURS, OURS) == ""


TEXT = st.text(min_size=1, max_size=300).filter(lambda text: not any("\ud800" <= one <= "\udfff" for one in text))


@given(TEXT, st.lists(TEXT, min_size=1, max_size=3))
def test_any_criteria_are_read_back(purpose: str, texts: list[str]) -> None:
    rules = [Criterion(id="abc"[place], text=text, applies_to=["judge_relevance"]) for place, text in enumerate(texts)]
    criteria = Criteria(purpose=purpose, rules=rules)
    assert Criteria.from_yaml(criteria_yaml(criteria)) == criteria


def test_a_change_leaves_other_rules_and_readers_alone() -> None:
    made = apply_changes(OURS, [change("change", "one_answer", "One\n answer.")])
    before, after = ({rule.id: rule for rule in one.rules} for one in (OURS, made))
    assert after["one_answer"].text == "One answer."
    assert after["one_answer"].applies_to == before["one_answer"].applies_to
    assert [rule for rule in made.rules if rule.id != "one_answer"] == [
        rule for rule in OURS.rules if rule.id != "one_answer"
    ]


def test_a_rule_can_be_taken_out() -> None:
    assert "weakly_related" not in [rule.id for rule in apply_changes(OURS, [change("remove", "weakly_related")]).rules]


def test_what_changes_nothing_is_refused() -> None:
    rule = OURS.rules[0]
    with pytest.raises(ValueError, match="as it is"):
        apply_changes(OURS, [change("change", rule.id, rule.text)])


@pytest.mark.parametrize(
    ("task", "kind", "judge"),
    [
        ("relevance", "refusal", "judge_relevance"),
        ("category", "factual", "judge_relevance"),
        ("quality", "multihop", "judge_quality_multihop"),
        ("quality", "refusal", ""),
        ("correctness", "factual", ""),
        ("grade", "factual", ""),
    ],
)
def test_which_criteria_an_item_was_judged_by(task: str, kind: str, judge: str) -> None:
    assert guiding_task(item(task, type=kind)) == judge


def test_groups_hold_rejections_and_remarks_alone() -> None:
    agreed = voted(item(question="a"), "somewhat", "somewhat")
    rejected = [voted(item(question=one), "relevant", "relevant", "somewhat") for one in "bc"]
    divided = voted(item(question="d"), "relevant", "somewhat")
    remarked = voted(item(question="e"), "somewhat", remark="Right, by [decision].")
    unread = voted(item("correctness", "correct", "f"), "incorrect")
    found = group_disagreements([agreed, *rejected, divided, remarked, unread], OURS)
    assert [
        (about["task"], about["people_said"], about["criterion"], [one.item.question for one in items])
        for about, items in found
    ] == [
        ("relevance", "relevant", "", ["b", "c"]),
        ("relevance", "somewhat", "decision", ["e"]),
        ("correctness", "incorrect", "", ["f"]),
    ]


@pytest.mark.parametrize(
    ("remark", "because", "criterion"),
    [
        ("breaks stands_alone", "low utility: [one_answer]", "stands_alone"),
        ("", "Points at a section (stands_alone, one_answer).", "stands_alone"),
        ("a decision rests on it", "", ""),
        ("see (decision, safe_use)", "", "decision"),
        ("not_stands_alone_either", "", ""),
    ],
)
def test_the_rule_that_is_named(remark: str, because: str, criterion: str) -> None:
    [(about, _)] = group_disagreements([voted(item("quality", "unfit", because=because), "fit", remark=remark)], OURS)
    assert about["criterion"] == criterion


def test_a_proposer_is_shown_what_criteria_bear_on() -> None:
    seen = [
        voted(item(question="Is it scored?"), "relevant", remark="It\nmatters."),
        voted(item("correctness", "correct", "Is it safe?"), "incorrect", remark="No."),
        voted(item("category", "Contraindications", "Is it barred?"), "Drug Interactions", remark="Elsewhere."),
    ]
    slots = proposal_slots(seen, OURS)
    asked = PROPOSE_CRITERIA.request(slots, endpoint="small").messages[-1]["content"]
    assert "Is it scored?" in asked and "Reviewer: It matters." in asked and not {"safe?", "barred?"} & {*asked.split()}
    assert "the same on 0 of 1 items" in asked
    assert all(name in asked for name in guided_tasks())


def test_rules_word_no_criteria() -> None:
    assert PROPOSE_CRITERIA.baseline({}).changes == []


@settings(max_examples=15)
@given(st.lists(st.text("abcdefgh", min_size=3, max_size=6), unique=True, min_size=30, max_size=60), st.integers(0, 9))
def test_equal_questions_fall_to_the_same_side(questions: list[str], seed: int) -> None:
    pairs = [
        voted(item(task, decision, words, set_id=set_id), decision)
        for one in questions
        for task, decision, words, set_id in (
            ("relevance", "relevant", one, "a"),
            ("quality", "fit", f" {one.upper()} ", "b"),
        )
    ]
    learned, held = split_held_out(pairs, share=0.5, seed=seed)
    sides = [{one.item.question.strip().lower() for one in side} for side in (learned, held)]
    assert not sides[0] & sides[1] and len(learned) + len(held) == len(pairs)


def test_a_cell_is_no_formula_and_is_read_back() -> None:
    text = groups_csv(group_disagreements([voted(item(question="q"), "relevant", remark="=1+1")], OURS))
    [row] = csv.DictReader(StringIO(text))
    assert row["remarks"] == "'=1+1"
    assert read_changes(text, "t.csv") == []


def test_a_table_without_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"t\.csv: it has no columns \['action'"):
        read_changes("a;b\n1;2\n", "t.csv")
