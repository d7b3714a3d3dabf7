"""Questions of one label that are asked of others in the same words: which, of which labels, and how many."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from fdarx_core.generation.topics import TopicSurvey, all_topics
from fdarx_core.generation.transfers import (
    PER_QUESTION,
    PortableQuestion,
    chosen_transfers,
    expected_numbers,
    fitting_transfers,
    near_drugs,
    offered_questions,
    portable_question,
)
from fdarx_core.records import NO_ANSWER, Label, QuestionAnswer
from tests.generation.made_labels import CONTRAINDICATIONS, made_label, made_passages

ANSWER = "Stop Velorin in patients with acute pancreatitis."
QUESTION = QuestionAnswer(
    id="q1",
    type="factual",
    answer_kind="factual",
    source="section",
    category="Safety",
    set_id="set-1",
    drug_name="Velorin",
    question="Which patients with pancreatitis take Velorin?",
    answer=ANSWER,
    difficulty="direct",
    evidence=[ANSWER],
    task="generate_factual",
    endpoint="writer",
    response_key="key",
)
SOURCE = made_label()
OTHER = {"set_id": "set-2", "drug_name": "Trebavin", "aliases": ["Trebavin"], "substances": ["sodium trebate"]}
SILENT = made_passages((CONTRAINDICATIONS, "Trebavin is contraindicated in patients with anuria."), set_id="set-2")
TELLING = [number for number, topic in enumerate(all_topics()) if topic.kind == "partner"]


def portable(question: QuestionAnswer = QUESTION, label: Label = SOURCE) -> PortableQuestion:
    found = portable_question(question, label)
    assert found is not None
    return found


def transferred(*offered: PortableQuestion, asked: tuple[str, ...] = ()) -> list[QuestionAnswer]:
    return fitting_transfers(made_label(SILENT, **OTHER), SILENT, offered, asked)


def survey(set_id: str, drug: str, *answered: int) -> TopicSurvey:
    return TopicSurvey(set_id, drug, set_id, list(answered), [])


def drugs_of(surveys: Sequence[TopicSurvey]) -> dict[str, str]:
    return {one.set_id: one.drug for one in surveys}


def offered(
    questions: Iterable[PortableQuestion], surveys: Sequence[TopicSurvey], per_label: int, seed: int
) -> dict[str, list[PortableQuestion]]:
    return offered_questions(questions, drugs_of(surveys), near_drugs(surveys), per_label, seed)


def test_a_question_is_asked_of_a_label_without_a_word_of_it_in_the_same_words() -> None:
    [made] = transferred(portable())
    assert made.question == "Which patients with pancreatitis take Trebavin?"
    assert (made.type, made.source, made.answer, made.entity) == ("refusal", "transfer", NO_ANSWER, "pancreatitis")
    assert (made.set_id, made.drug_name, made.twin) == ("set-2", "Trebavin", "q1")
    assert (made.category, made.difficulty, made.endpoint) == ("Safety", "direct", "writer")
    assert made.gold_passages == [] and made.evidence == []


def test_a_label_with_all_words_is_not_asked() -> None:
    holding = made_passages((CONTRAINDICATIONS, "Trebavin can cause pancreatitis in patients."), set_id="set-2")
    assert fitting_transfers(made_label(holding, **OTHER), holding, [portable()], []) == []


def test_a_word_that_only_the_wording_has_is_not_missing() -> None:
    worded = replace(QUESTION, question="Which circumstances are there in patients who take Velorin?")
    assert transferred(portable(worded)) == []


def test_a_label_is_not_asked_what_was_written_on_it() -> None:
    assert transferred(portable(), asked=("Which patients with Pancreatitis take trebavin?",)) == []
    assert len(transferred(portable(), portable(replace(QUESTION, id="q2")))) == 1


def test_labels_with_the_same_name_of_the_product_are_not_asked_the_same() -> None:
    again = made_label(SILENT, set_id="set-2", drug="VELORINIB")
    assert fitting_transfers(again, SILENT, [portable()], []) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "refusal"},
        {"template": "What does the label of {drug} say about {term}?"},
        {"question": "Which patients with pancreatitis take it?"},
        {"question": "Which patients with pancreatitis take Velorin, and is velorinib stopped?"},
        {"question": "Which patients with pancreatitis take Velorin, and when is Velorin stopped?"},
    ],
)
def test_questions_that_are_not_portable(changes: dict[str, str]) -> None:
    assert portable_question(replace(QUESTION, **changes), SOURCE) is None  # type: ignore[arg-type]


def test_questions_are_offered_to_labels_of_the_same_or_of_similar_drugs() -> None:
    surveys = [
        survey("set-1", "VELORINIB", *TELLING[:4]),
        survey("same drug", "VELORINIB", *TELLING[:4]),
        survey("alike", "B", *TELLING[:4]),
        survey("strange", "C", *TELLING[5:9]),
    ]
    given = offered([portable()], surveys, 3, 0)
    assert {set_id for set_id, found in given.items() if found} == {"same drug", "alike"}
    assert expected_numbers(drugs_of(surveys), near_drugs(surveys), 3) == {
        "set-1": 3,
        "same drug": 3,
        "alike": 3,
        "strange": 0,
    }


def test_what_is_offered_depends_on_questions_labels_and_seed_alone() -> None:
    surveys = [survey(f"label {at}", f"drug {at}", *TELLING[at : at + 6]) for at in range(6)]
    questions = [
        replace(portable(replace(QUESTION, id=f"q{at}", set_id=f"label {at % 6}")), drug=f"drug {at % 6}")
        for at in range(40)
    ]
    first = offered(questions, surveys, 1, 0)
    random.Random(0).shuffle(questions)
    assert offered(questions, surveys, 1, 0) == first
    assert offered(questions, surveys, 1, 1) != first


def test_labels_take_turns_and_no_question_is_asked_more_often_than_allowed() -> None:
    fitting = [portable(replace(QUESTION, id=f"q{at}")) for at in range(5)]
    chosen = chosen_transfers({"a": fitting, "b": fitting, "c": []}, 2, 0)
    assert {set_id: len(found) for set_id, found in chosen.items()} == {"a": 2, "b": 2, "c": 0}
    taken = [one.id for found in chosen.values() for one in found]
    assert all(taken.count(one) <= PER_QUESTION for one in taken)
    assert sum(map(len, chosen_transfers({"a": fitting, "b": fitting}, 5, 0).values())) == 5 * PER_QUESTION


def test_the_same_questions_of_a_drug_are_offered_in_whatever_order_they_are_read() -> None:
    surveys = [survey("set-1", "VELORINIB", *TELLING[:4]), survey("set-2", "VELORINIB", *TELLING[:4])]
    questions = [portable(replace(QUESTION, id=f"q{at}")) for at in range(450)]
    first = offered(questions, surveys, 20, 0)
    assert len(first["set-2"]) == 200  # of one drug
    assert offered(iter(reversed(questions)), surveys, 20, 0) == first
    assert {one.id for one in first["set-2"]} != {one.id for one in questions[:200]}


def test_questions_that_are_offered_have_their_common_texts_once() -> None:
    """What tasks return has texts of its own; the driver holds hundreds of thousands of questions."""
    surveys = [survey("set-1", "VELORINIB", *TELLING[:4]), survey("set-2", "VELORINIB", *TELLING[:4])]
    questions = [pickle.loads(pickle.dumps(portable(replace(QUESTION, id=f"q{at}")))) for at in range(3)]
    assert len({id(one.product) for one in questions}) == 3
    found = offered(questions, surveys, 5, 0)["set-2"]
    assert sorted(one.id for one in found) == ["q0", "q1", "q2"]
    for name in ("set_id", "drug", "product", "category", "difficulty", "task", "endpoint"):
        assert len({id(getattr(one, name)) for one in found}) == 1, name
