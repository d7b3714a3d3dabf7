"""What the built-in rules do with questions whose gold answer is wrong: every one is dropped, and its twin with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.terminology import Topic
from fdarx_core.labels import Identity, Source
from fdarx_core.pipeline.build_steps import baseline, build_steps, filter_by_rules
from fdarx_core.pipeline.label_state import LabelState, TopicPlan
from fdarx_core.pipeline.steps import run_steps, step_name
from fdarx_core.records import JudgeVerdict, Label, Passage, QuestionAnswer
from tests.conftest import EXAMPLES
from tests.generation.made_labels import DOSAGE, INTERACTIONS, KINETICS, SUPPLY, WARNINGS, made_label, made_passages
from tests.pipeline.test_steps import build, identities

PASSAGES = made_passages(
    (
        INTERACTIONS,
        "Digoxin",
        "Velorin raised the AUC of digoxin by 22%. Monitor digoxin concentrations in all patients.",
    ),
    (WARNINGS, "Pancreatitis", "Stop Velorin in patients with:\n- acute pancreatitis\n- severe abdominal pain"),
    (KINETICS, "The mean elimination half-life of velorinib is 14 hours."),
    (DOSAGE, "The maximum recommended dose is 1,200 mg per day."),
    (SUPPLY, "Velorin tablets are supplied as 200 mg and 400 mg tablets, white and scored."),
)
LABEL = made_label(PASSAGES)
ASKED = {
    "digoxin": TopicPair(Topic("partner", "digoxin"), Topic("partner", "lithium"), 0),
    "pancreatitis": TopicPair(Topic("risk", "pancreatitis"), Topic("risk", "hearing loss"), 0),
    "half-life": TopicPair(Topic("quantity", "elimination half-life"), Topic("quantity", "melting point"), 1),
    "maximum": TopicPair(
        Topic("computation", "maximum daily dose"),
        Topic("bridge", "inhibitors of its main metabolizing enzyme"),
        0,
    ),
}
MADE, *FILTERS = build_steps(GenerationConfig())[2:]
assert step_name(FILTERS[0]) == step_name(filter_by_rules)


def new_state(label: Label = LABEL, passages: Sequence[Passage] = PASSAGES, *pairs: TopicPair) -> LabelState:
    identity = Identity(label.set_id, 1, "", "", "", "", "", [], "", "", Source("label.xml"))
    return LabelState(identity, TopicPlan(pairs), label=label, passages=list(passages))


def candidates(pair: TopicPair) -> list[QuestionAnswer]:
    """A question and its twin."""
    chunk = build_steps(GenerationConfig())[1]
    [state] = run_steps([chunk, MADE], [new_state(LABEL, PASSAGES, pair)], baseline().answer)
    assert [one.type == "refusal" for one in state.candidates] == [False, True]
    return state.candidates


def filtered(questions: Sequence[QuestionAnswer]) -> LabelState:
    state = new_state()
    state.candidates = list(questions)
    [done] = run_steps(FILTERS, [state], baseline().answer)
    return done


@pytest.mark.parametrize("name", ASKED)
def test_a_right_answer_passes_with_its_twin(name: str) -> None:
    state = filtered(candidates(ASKED[name]))
    assert [one.type == "refusal" for one in state.questions] == [False, True], state.rejects
    assert state.rejects == []


@pytest.mark.parametrize(
    ("name", "right", "wrong", "dropped"),
    [
        ("digoxin", "22%", "32%", ("support", "unsupported")),
        ("digoxin", "AUC of digoxin", "AUC of warfarin", None),
        ("digoxin", " Monitor digoxin concentrations in all patients.", "", ("round_trip", "incomplete_gold")),
        ("digoxin", "Velorin raised the AUC of digoxin by 22%. ", "", ("round_trip", "incomplete_gold")),
        ("digoxin", "raised", "lowered", None),
        ("pancreatitis", "; severe abdominal pain", "", ("round_trip", "incomplete_gold")),
        ("pancreatitis", "acute pancreatitis; ", "", None),
        ("pancreatitis", "Stop", "Do not stop", None),
        ("half-life", "14", "41", ("support", "unsupported")),
        ("half-life", "hours", "days", None),
        ("maximum", "= 3 tablets", "= 4 tablets", ("support", "unsupported")),
        ("maximum", "1,200 mg per day", "1,600 mg per day", None),
        ("maximum", "1,200 mg / 400 mg = 3 tablets. ", "", ("round_trip", "incomplete_gold")),
    ],
)
def test_a_wrong_answer_is_dropped_and_its_twin_too(
    name: str, right: str, wrong: str, dropped: tuple[str, str] | None
) -> None:
    one, twin = candidates(ASKED[name])
    assert right in one.answer
    state = filtered([replace(one, answer=one.answer.replace(right, wrong)), twin])
    assert state.questions == []
    [of_one] = [reject for reject in state.rejects if reject.id == one.id]
    if dropped is not None:
        assert (of_one.stage, of_one.reason) == dropped
    assert [(reject.stage, reject.reason) for reject in state.rejects if reject.id == twin.id] == [
        ("twins", "twin_rejected")
    ]


def test_a_question_that_stands_alone_keeps_no_twin_and_the_accounts_are_right() -> None:
    one, twin = candidates(ASKED["digoxin"])
    assert filtered([one]).questions[0].id == one.id
    alone = filtered([twin])
    assert alone.questions == []
    assert [(count.stage, count.kept, count.rejected) for count in alone.counts][-2:] == [
        ("round_trip", 1, 0),
        ("twins", 0, 1),
    ]


def test_the_round_trip_leaves_a_verdict_on_every_question() -> None:
    one, twin = candidates(ASKED["digoxin"])
    state = filtered([replace(one, answer="Velorin raised the AUC of digoxin by 22%."), twin])
    of = {(verdict.question_id, verdict.stage): verdict for verdict in state.verdicts}
    dropped, kept = of[one.id, "round_trip"], of[twin.id, "round_trip"]
    assert (dropped.outcome, dropped.reason, dropped.endpoint) == ("dropped", "incomplete_gold", "baseline")
    assert (dropped.task, bool(dropped.response_key)) == ("compare_answers", True)
    assert (kept.outcome, kept.reason, kept.response_key) == ("kept", "", "")
    assert isinstance(kept, JudgeVerdict)


def mutants(question: QuestionAnswer) -> Iterator[str]:
    """Answers that are wrong: with another number, without a statement, and without an item of a list."""
    for found in re.finditer(r"(?<![\w.,])\d+(?![\w.,]\d|\w)", question.answer):
        yield f"{question.answer[: found.start()]}{int(found[0]) * 3 + 1}{question.answer[found.end() :]}"
    for text in question.evidence if len(question.evidence) > 1 else ():
        yield " ".join(question.answer.replace(text, "").split())
    for text in question.evidence:
        lead, _, items = text.partition(": ")
        for item in items.split("; ")[1:] if "; " in items and " | " not in items else ():
            yield question.answer.replace(f"; {item.rstrip('.')}", "")
        assert lead


def test_no_wrong_answer_on_the_example_labels_passes() -> None:
    states = build(identities(EXAMPLES))
    tried, passed = 0, []
    for state in states:
        assert state.label is not None
        kept = [one for one in state.questions if one.type != "refusal"]
        wrong = [
            replace(one, id=f"{one.id}-{at}", answer=answer)
            for one in kept
            for at, answer in enumerate(dict.fromkeys(mutants(one)))
            if answer != one.answer
        ]
        for one in wrong:
            again = new_state(state.label, state.passages)
            again.candidates = [one]
            [done] = run_steps(FILTERS, [again], baseline().answer)
            tried += 1
            passed += [(question.question, question.answer) for question in done.questions]
    assert tried > 150
    assert passed == []
