"""What a label answers and what it is silent on, by its headings, sentences and tables."""

from __future__ import annotations

import pytest

from fdarx_core.generation.label_reader import MAX_ANSWER
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topics import all_topics, find_topics, survey_label
from tests.generation.made_labels import (
    BOXED,
    CONTRAINDICATIONS,
    DESCRIPTION,
    DOSAGE,
    INDICATIONS,
    INTERACTIONS,
    KINETICS,
    OVERDOSAGE,
    POPULATIONS,
    REACTIONS,
    SUPPLY,
    WARNINGS,
    Piece,
    answer_of,
    is_near_miss,
    is_silent_on,
    made_label,
    made_passages,
    topics_of,
)

DIGOXIN = "Velorin raised the AUC of digoxin by 22%. Monitor digoxin concentrations in all patients."


def test_a_heading_answers_with_all_that_stands_under_it() -> None:
    found = answer_of("partner", "digoxin", (INTERACTIONS, "Digoxin", DIGOXIN))
    assert found is not None
    assert (found.text, found.passages) == (DIGOXIN, [0])
    assert [one.text for one in found.statements] == DIGOXIN.replace(". M", ".|M").split("|")


def test_each_kind_is_answered_where_it_belongs() -> None:
    found = topics_of(
        (DOSAGE, "Hypertension", "The recommended dosage is 25 mg once daily in adults."),
        (WARNINGS, "Pancreatitis", "Acute pancreatitis was seen in patients on Velorin."),
        (INTERACTIONS, "Digoxin", DIGOXIN),
        (POPULATIONS, "Renal Impairment", "No difference was seen between these and other patients."),
    )
    assert {(topic.kind, topic.name) for topic in found.answers} == {
        ("indication", "hypertension"),
        ("risk", "pancreatitis"),
        ("partner", "digoxin"),
        ("population", "use in patients with renal impairment"),
    }


@pytest.mark.parametrize("section", [DOSAGE, REACTIONS, DESCRIPTION])
def test_a_heading_elsewhere_answers_nothing_of_partners(section: str) -> None:
    assert answer_of("partner", "digoxin", (section, "Digoxin", DIGOXIN)) is None


def test_an_answer_is_completed_by_paragraphs_of_the_section_under_their_headings() -> None:
    other = (INTERACTIONS, "Quinidine", "Do not use quinidine. It also raises digoxin levels in blood.")
    found = answer_of("partner", "digoxin", (INTERACTIONS, "Digoxin", DIGOXIN), other)
    assert found is not None and found.text == f"{DIGOXIN} Quinidine: {other[2]}"
    assert found.passages == [0, 1]


def test_what_other_sections_say_of_a_term_belongs_to_the_answer() -> None:
    study: Piece = (KINETICS, "The half-life of Velorin was longer with digoxin in healthy adults.")
    found = answer_of("partner", "digoxin", (INTERACTIONS, "Digoxin", DIGOXIN), study)
    assert found is not None and found.text == f"{DIGOXIN} Pharmacokinetics: {study[-1]}"
    assert answer_of("partner", "digoxin", study) is None  # no statement on an interaction


@pytest.mark.parametrize("next_one", ["This effect lasts for days.", "Monitor such patients weekly."])
def test_a_paragraph_that_refers_back_belongs_to_the_one_before(next_one: str) -> None:
    text = f"Velorin may cause heart failure in some.\n{next_one}\nVelorin is for adults."
    found = answer_of("boxed_warning", "heart failure", (BOXED, text))
    assert found is not None and found.text == f"Velorin may cause heart failure in some. {next_one}"


def test_the_next_heading_within_a_text_ends_what_the_one_before_says() -> None:
    text = f"Digoxin\n{DIGOXIN}\nUricosuric Agents (all of them)\nVelorin changes the effect of these agents."
    found = answer_of("partner", "digoxin", (INTERACTIONS, text))
    assert found is None or "these agents" not in found.text


@pytest.mark.parametrize(
    "other",
    ["This is more likely with digoxin.", "Digoxin | 22% | 30%", "Digoxin levels rise as Table 4 shows."],
    ids=["it cannot be understood alone", "a row", "a table"],
)
def test_no_answer_where_another_paragraph_of_the_section_cannot_be_joined(other: str) -> None:
    assert answer_of("partner", "digoxin", (INTERACTIONS, "Digoxin", DIGOXIN)) is not None
    assert answer_of("partner", "digoxin", (INTERACTIONS, "Digoxin", DIGOXIN), (INTERACTIONS, other)) is None


def test_no_answer_where_another_paragraph_names_a_member_of_a_class() -> None:
    text = "Velorin raises the risk of bleeding with NSAIDs."
    assert answer_of("partner", "NSAIDs", (INTERACTIONS, "NSAIDs", text)) is not None
    assert answer_of("partner", "NSAIDs", (INTERACTIONS, "NSAIDs", text), (INTERACTIONS, "Avoid ibuprofen.")) is None


@pytest.mark.parametrize(
    "text",
    [
        "Velorin raised the AUC of digoxin " + "very " * 120 + "much.",
        "Velorin changes the AUC of digoxin as Table 4 shows. Monitor digoxin concentrations.",
        "The following applies to digoxin. Monitor digoxin concentrations in all patients.",
        "Avoid digoxin use.",
    ],
    ids=["too long", "a table", "other text", "too short"],
)
def test_no_answer_where_it_is_not_whole(text: str) -> None:
    assert answer_of("partner", "digoxin", (INTERACTIONS, "Digoxin", text)) is None


def test_the_longest_answer_is_allowed() -> None:
    for length, answered in ((MAX_ANSWER, True), (MAX_ANSWER + 1, False)):
        text = "Velorin raises digoxin levels " + "a" * (length - 31) + "."
        assert len(text) == length
        assert (answer_of("partner", "digoxin", (INTERACTIONS, "Digoxin", text)) is not None) == answered


def test_a_heading_that_names_a_term_among_much_else_is_not_about_it() -> None:
    heading = "Digoxin, Several Further Cardiac Glycosides, Natural Remedies, Unusual Meals"
    assert answer_of("partner", "digoxin", (INTERACTIONS, heading, DIGOXIN)) is None
    assert answer_of("partner", "digoxin", (INTERACTIONS, "Use of Digoxin in Patients", DIGOXIN)) is not None


def test_a_heading_names_the_longest_term_in_it() -> None:
    text = "Velorin levels rise twofold, so halve the daily dose of Velorin."
    found = topics_of((INTERACTIONS, "Strong CYP3A4 Inhibitors", text))
    assert [topic.name for topic in found.answers] == ["strong CYP3A4 inhibitors"]


def test_an_indication_is_answered_by_a_dose() -> None:
    assert (
        answer_of("indication", "hypertension", (DOSAGE, "Hypertension", "Treat adults for as long as needed.")) is None
    )
    found = answer_of("indication", "hypertension", (DOSAGE, "Hypertension", "Adults take 25 mg once daily at first."))
    assert found is not None


@pytest.mark.parametrize(
    ("pieces", "silent"),
    [
        ([(INTERACTIONS, "Velorin was studied with food alone.")], True),
        ([(POPULATIONS, "Digoxin was given to some.")], False),
        ([(POPULATIONS, "LANOXIN was given to some.")], False),
        ([(INTERACTIONS, "Drugs with a narrow therapeutic index were not studied.")], False),
        ([(CONTRAINDICATIONS, "Do not give Velorin with cardiac drugs.")], False),
        ([(POPULATIONS, "The heart rate rose in older patients.")], True),
    ],
    ids=[
        "nothing",
        "its name",
        "a synonym",
        "its class",
        "its class in another place that answers",
        "its class elsewhere",
    ],
)
def test_a_label_is_silent_where_nothing_names_the_term_or_may_answer_for_it(pieces: list[Piece], silent: bool) -> None:
    assert is_silent_on("partner", "digoxin", *pieces) is silent
    assert answer_of("partner", "digoxin", *pieces) is None


def test_a_label_that_names_a_member_is_not_silent_on_the_class() -> None:
    assert is_silent_on("partner", "NSAIDs", (INTERACTIONS, "Velorin was studied with food alone."))
    assert not is_silent_on("partner", "NSAIDs", (POPULATIONS, "Older patients took ibuprofen."))


def test_what_stands_in_the_highlights_or_in_a_title_alone_is_not_silence() -> None:
    piece = (INTERACTIONS, "Velorin was studied with food alone.")
    assert not is_silent_on("partner", "digoxin", piece, highlights=["Digoxin: monitor its concentrations."])
    assert not is_silent_on("partner", "digoxin", (INTERACTIONS, "Digoxin", "Velorin was not studied with it."))


def test_the_drug_itself_and_its_class_are_not_asked_about() -> None:
    own = {"drug_name": "Ibuprofen", "aliases": ["Ibuprofen"], "substances": ["ibuprofen"]}
    found = topics_of((INTERACTIONS, "Take it with food."), **own)
    names = {topic.name for topic in found.silent}
    assert "warfarin" in names and not names & {"ibuprofen", "NSAIDs"}


def test_no_topic_is_both_answered_and_silent() -> None:
    found = topics_of((INTERACTIONS, "Digoxin", DIGOXIN), (INDICATIONS, "Velorin is for hypertension."))
    assert not found.answers.keys() & set(found.silent)
    assert set(all_topics()) >= {*found.answers, *found.silent}
    assert len(all_topics()) == len(set(all_topics()))


def test_topics_that_are_asked_for_are_found_as_among_all() -> None:
    passages = made_passages((INTERACTIONS, "Digoxin", DIGOXIN), (KINETICS, "The half-life of Velorin is 3 hours."))
    label = made_label(passages)
    everything, asked = find_topics(label, passages), [Topic("partner", "digoxin"), Topic("partner", "warfarin")]
    only = find_topics(label, passages, asked)
    assert only.answers == {asked[0]: everything.answers[asked[0]]} and only.silent == asked[1:]


def test_a_survey_has_the_places_of_the_topics() -> None:
    passages = made_passages((INTERACTIONS, "Digoxin", DIGOXIN))
    label = made_label(passages)
    survey, found = survey_label(label, passages), find_topics(label, passages)
    assert [all_topics()[at] for at in survey.answered] == list(found.answers)
    assert [all_topics()[at] for at in survey.silent] == found.silent
    assert (survey.set_id, survey.drug) == ("set-1", "VELORINIB")


@pytest.mark.parametrize(
    ("kind", "term", "code", "text", "answer"),
    [
        (
            "contraindication",
            "asthma",
            CONTRAINDICATIONS,
            "Velorin is contraindicated in patients with:\n- a history of asthma [see Warnings (5.7)]\n- porphyria.",
            "Velorin is contraindicated in patients with: a history of asthma.",
        ),
        (
            "boxed_warning",
            "heart failure",
            BOXED,
            "Velorin may cause heart failure. Monitor all patients weekly.",
            "Velorin may cause heart failure. Monitor all patients weekly.",
        ),
        (
            "dose_adjustment",
            "use in patients with renal impairment",
            DOSAGE,
            "Take 20 mg daily. Patients with renal impairment should take 10 mg daily.",
            "Take 20 mg daily. Patients with renal impairment should take 10 mg daily.",
        ),
        (
            "overdose",
            "dizziness",
            OVERDOSAGE,
            "An overdose may cause dizziness in some patients. Call a poison centre.",
            "An overdose may cause dizziness in some patients. Call a poison centre.",
        ),
    ],
)
def test_a_section_answers_with_what_it_says_of_the_term(
    kind: str, term: str, code: str, text: str, answer: str
) -> None:
    found = answer_of(kind, term, (code, text))
    assert found is not None and found.text == answer
    assert not is_near_miss(kind, term, (code, text))


@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [
        ("contraindication", CONTRAINDICATIONS, "Asthma was reported in some patients with such a history."),
        ("contraindication", CONTRAINDICATIONS, "It is contraindicated in asthma."),
        ("boxed_warning", BOXED, "died of asthma in a trial of Velorin."),
        ("boxed_warning", BOXED, "These patients may have asthma attacks when they take Velorin."),
    ],
    ids=["forbids nothing", "refers back", "a fragment", "refers to others"],
)
def test_a_section_that_needs_its_other_sentences_has_no_answer(kind: str, code: str, text: str) -> None:
    assert answer_of(kind, "asthma", (code, text)) is None
    assert not is_near_miss(kind, "asthma", (code, text))


CARE: Piece = (WARNINGS, "Monitor patients with asthma, dizziness or renal impairment.")


@pytest.mark.parametrize(
    ("code", "text", "near"),
    [
        (OVERDOSAGE, "An overdose may cause coma.", True),
        (OVERDOSAGE, "An overdose may cause vertigo.", False),
        (INDICATIONS, "Velorin is for pain.", False),
    ],
    ids=["named elsewhere", "a wider name", "no such section"],
)
def test_an_overdosage_section_that_names_neither_the_term_nor_its_class_is_a_near_miss(
    code: str, text: str, near: bool
) -> None:
    assert is_near_miss("overdose", "dizziness", (code, text), CARE) is near
    assert not is_silent_on("overdose", "dizziness", (code, text))


@pytest.mark.parametrize("kind", ["contraindication", "boxed_warning", "dose_adjustment", "indication", "subsection"])
def test_no_label_is_silent_on_what_is_only_asked_where_it_is_answered(kind: str) -> None:
    found = topics_of((CONTRAINDICATIONS, "Velorin is contraindicated in porphyria."), (BOXED, "Liver failure."), CARE)
    assert kind not in {topic.kind for topic in (*found.silent, *found.near)}


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("Nausea and rash were reported.", True),
        ("Nausea was reported. It is not possible to reliably estimate the frequency.", True),
        ("Nausea was commonly reported.", False),
        ("Nausea was reported.\nIncidence of headache: 3%", False),
    ],
)
def test_a_reaction_is_a_near_miss_where_no_frequency_is_given(text: str, near: bool) -> None:
    assert is_near_miss("reaction", "nausea", (REACTIONS, text)) is near


@pytest.mark.parametrize(
    ("name", "code", "text", "answer"),
    [
        (
            "indications",
            INDICATIONS,
            "Carefully consider the benefits. Velorin is indicated for:\n- gout\n- arthritis",
            "Carefully consider the benefits. Velorin is indicated for: gout; arthritis.",
        ),
        ("contraindications", CONTRAINDICATIONS, "None.", "No contraindications are listed: none."),
        (
            "contraindications",
            CONTRAINDICATIONS,
            "Velorin is contraindicated in porphyria. Deaths have been reported.",
            "Velorin is contraindicated in porphyria. Deaths have been reported.",
        ),
        ("boxed warning", BOXED, "Velorin may cause heart failure.", "Velorin may cause heart failure."),
        ("storage", SUPPLY, "It comes in bottles of 30. Store at 20 °C. Keep it dry.", "Store at 20 °C."),
        (
            "inactive ingredients",
            DESCRIPTION,
            "Velorin is white. The inactive ingredients are starch, talc, lactose and water.",
            "The inactive ingredients are starch, talc, lactose and water.",
        ),
        (
            "most common adverse reactions",
            REACTIONS,
            "The most common adverse reactions are rash and nausea. Coma was seen.",
            "The most common adverse reactions are rash and nausea.",
        ),
    ],
)
def test_a_section_as_a_whole_is_an_answer(name: str, code: str, text: str, answer: str) -> None:
    found = answer_of("section", name, (code, text))
    assert found is not None and found.text == answer


def test_a_section_that_lost_a_heading_or_has_parts_of_another_kind_is_no_answer() -> None:
    whole = (INDICATIONS, "Velorin is indicated for gout.\nARTHRITIS")
    assert answer_of("section", "indications", whole) is None
    part = (WARNINGS, "Other", "Velorin is for adults alone.")
    pieces = made_passages((INDICATIONS, "Velorin is indicated for gout."), part)
    pieces[1].section_path = f"{pieces[0].section_path} > Other"
    assert Topic("section", "indications") not in find_topics(made_label(pieces), pieces).answers


OVERDOSE = "section on overdosage"


def test_a_section_that_many_labels_lack_is_asked_about_as_a_whole() -> None:
    text = "An overdose may cause coma. Call a centre."
    found = answer_of("subsection", OVERDOSE, (OVERDOSAGE, text))
    assert found is not None and found.text == text


def test_a_name_without_its_spaces_is_no_silence_where_the_topic_is_asked() -> None:
    passages = made_passages((OVERDOSAGE, "Acute renalfailure was seen."), (REACTIONS, "Renal failure was seen."))
    topic = Topic("overdose", "renal failure")
    assert topic not in find_topics(made_label(passages), passages, [topic]).near


def test_a_name_with_another_ending_is_no_silence_where_the_topic_is_asked() -> None:
    passages = made_passages((WARNINGS, "Correct the volume of dehydrated patients."))
    topic = Topic("effect", "dehydration")
    assert topic not in find_topics(made_label(passages), passages, [topic]).silent


def test_the_parts_of_a_whole_section_have_their_titles() -> None:
    signs: Piece = (OVERDOSAGE, "Signs", "Coma and seizures were seen in patients.")
    found = answer_of("subsection", OVERDOSE, signs, (OVERDOSAGE, "Treatment", "Call a poison centre at once."))
    assert found is not None
    assert found.text == "Signs: Coma and seizures were seen in patients. Treatment: Call a poison centre at once."


@pytest.mark.parametrize(
    "text",
    [
        "Gastrointestinal: Dyspepsia, abdominal distension, flatulence, sweating increased, dry mouth.",
        "Metabolism and nutrition disorders: Triglyceride increased, anorexia, flatulence, weight decrease.",
    ],
)
def test_a_bare_list_of_reactions_is_no_answer(text: str) -> None:
    assert answer_of("effect", "flatulence", (REACTIONS, "Postmarketing Experience", text)) is None
    said = f"{text[:-1]} were reported in patients after approval of the product."
    assert answer_of("effect", "flatulence", (REACTIONS, "Postmarketing Experience", said)) is not None


def test_no_label_is_silent_on_a_reaction_whose_table_is_missing() -> None:
    text = "The reactions of patients in clinical trials are listed in Table 1."
    assert not is_silent_on("effect", "tinnitus", (REACTIONS, text))
    assert is_silent_on("effect", "tinnitus", (REACTIONS, "No reactions of patients in clinical trials were seen."))
