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


def test_what_other_sections_say_is_not_asked_for() -> None:
    warning = (WARNINGS, "Heart Block", "Do not give Velorin to patients on digoxin with heart block.")
    found = answer_of("partner", "digoxin", warning, (INTERACTIONS, "Digoxin", DIGOXIN))
    assert found is not None and found.text == DIGOXIN


@pytest.mark.parametrize("next_one", ["This effect lasts for days.", "Monitor such patients weekly."])
def test_a_paragraph_that_refers_back_belongs_to_the_one_before(next_one: str) -> None:
    text = f"Velorin may cause heart failure in some.\n{next_one}\nVelorin is for adults."
    found = answer_of("boxed_warning", "heart failure", (BOXED, text))
    assert found is not None and found.text == f"Velorin may cause heart failure in some. {next_one}"


def test_the_next_heading_within_a_text_ends_what_the_one_before_says() -> None:
    text = f"Digoxin\n{DIGOXIN}\nUricosuric Agents (all of them)\nVelorin changes the effect of these agents."
    found = answer_of("partner", "digoxin", (INTERACTIONS, text))
    assert found is None or "these agents" not in found.text


def test_the_adverse_reactions_add_nothing_to_an_interaction() -> None:
    trial = (REACTIONS, "Digoxin was taken by 12% of the patients in the trials.")
    found = answer_of("partner", "digoxin", (INTERACTIONS, "Digoxin", DIGOXIN), trial)
    assert found is not None and found.text == DIGOXIN


@pytest.mark.parametrize(
    "other",
    [
        "This is more likely with digoxin.",
        "Digoxin | 22% | 30%",
        "Digoxin levels rise as Table 4 shows.",
    ],
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


HALF_LIFE, BINDING = "elimination half-life", "plasma protein binding"


@pytest.mark.parametrize(
    ("name", "sentence", "value"),
    [
        (HALF_LIFE, "The mean elimination half-life of velorinib is 3.5 hours.", "3.5 hours"),
        (HALF_LIFE, "Its half-life is about 2 to 3 days.", "about 2 to 3 days"),
        (BINDING, "Velorinib is 99% bound to plasma proteins.", "99%"),
        (BINDING, "Plasma protein binding of velorinib is about 85%.", "about 85%"),
        ("molecular weight", "Velorinib mesylate has a molecular weight of 471.5.", "471.5"),
        ("melting point", "Velorinib has a melting point of 230°-231°C.", "230°-231°C"),
        ("plasma clearance", "The plasma clearance of velorinib is 20 to 30 mL/min.", "20 to 30 mL/min"),
    ],
)
def test_the_value_in_a_sentence_answers_a_quantity(name: str, sentence: str, value: str) -> None:
    for code in (KINETICS, DESCRIPTION):
        found = answer_of("quantity", name, (code, f"Velorinib is absorbed. {sentence}"))
        assert found is not None and (found.text, found.statements[0].text) == (value, sentence)


@pytest.mark.parametrize(
    "sentences",
    [
        "The half-life is short.",
        "The half-life was measured in 12 patients.",
        "The half-life of digoxin is 36 hours.",
        "The half-life is 3 hours in patients with renal impairment.",
        "The half-life was reduced to 3 hours.",
        "The half-life is 3 hours. In 12 smokers the half-life was shorter.",
        "Half-life | 3 hours",
    ],
    ids=["no number", "no value", "another substance", "some patients", "a change", "another number", "a row"],
)
def test_a_quantity_has_no_answer_where_its_value_is_not_certain(sentences: str) -> None:
    assert answer_of("quantity", HALF_LIFE, (KINETICS, sentences)) is None
    assert not is_silent_on("quantity", HALF_LIFE, (KINETICS, sentences))


@pytest.mark.parametrize(
    "sentences",
    [
        "The half-life is 3 hours. The half-life of its metabolite is 9 hours.",
        "The half-life of the metabolite desmethylvelorinib is 9 hours.",
        "The half-life of 6MNA is 9 hours.",
        "The half-life relative to that of others is 3 hours longer.",
    ],
    ids=["of a metabolite too", "of a metabolite alone", "of a coded substance", "relative to others"],
)
def test_a_quantity_of_a_metabolite_or_relative_to_others_has_no_answer(sentences: str) -> None:
    assert answer_of("quantity", HALF_LIFE, (KINETICS, sentences)) is None


@pytest.mark.parametrize(
    "sentences",
    [
        ("The half-life is 3 hours.", "The terminal half-life is 12.5 hours."),
        ("The half-life is 3 hours for the base and 5 hours for the salt.",),
        ("The molecular weight is 300.",),
    ],
)
def test_several_values_are_no_answer(sentences: tuple[str, ...]) -> None:
    assert answer_of("quantity", HALF_LIFE, *((KINETICS, one) for one in sentences)) is None


def test_a_value_that_is_given_twice_is_one_answer() -> None:
    sentences = ("The half-life is 3 hours.", "Velorinib has a half-life of 3 hours.")
    found = answer_of("quantity", HALF_LIFE, *((KINETICS, one) for one in sentences))
    assert found is not None and (found.text, found.passages) == ("3 hours", [0])


def test_a_label_of_several_substances_has_no_quantities() -> None:
    piece = (KINETICS, "The half-life is 3 hours.")
    assert answer_of("quantity", HALF_LIFE, piece, drug="ONE+OTHER") is None


def test_values_in_sections_that_give_none_of_the_drug_are_no_answer() -> None:
    assert answer_of("quantity", HALF_LIFE, (WARNINGS, "The half-life of velorinib is 3 hours.")) is None


ROW = "Nausea | VELORIN (N = 200) %: 12 | Placebo (N = 199) %: 4"


def test_a_row_in_percent_answers_a_reaction() -> None:
    found = answer_of("reaction", "nausea", (REACTIONS, ROW))
    assert found is not None
    assert found.text == "VELORIN (N = 200): 12%; Placebo (N = 199): 4%"
    assert answer_of("reaction", "nausea", (REACTIONS, "Nausea | Velorin N=200: 12% | Placebo: 4%")) is not None
    assert (
        answer_of("reaction", "nausea", (REACTIONS, "Body system: Nausea | VELORIN %: 12 | Placebo %: 4")) is not None
    )


@pytest.mark.parametrize(
    "text",
    [
        "Nausea | VELORIN n (%): 24 (12) | Placebo n (%): 8 (4)",
        "Nausea | VELORIN, n: 24 | Placebo, n: 8",
        "Nausea | Treatment %: 12 | Placebo %: 4",
        "Nausea and vomiting | VELORIN %: 12 | Placebo %: 4",
        f"{ROW}\nNausea | VELORIN (N = 80) %: 9 | Placebo (N = 81) %: 3",
        f"{ROW} \nIn another trial nausea was seen in 30% of patients.",
        "Nausea was seen in 12% of patients on Velorin.",
    ],
    ids=[
        "counts with percent",
        "counts",
        "no column of the drug",
        "another row",
        "two rows",
        "a sentence",
        "no row",
    ],
)
def test_a_reaction_has_no_answer_where_its_frequency_is_not_certain(text: str) -> None:
    assert answer_of("reaction", "nausea", (REACTIONS, text)) is None


def test_a_reaction_that_no_table_names_is_silent_though_the_label_speaks_of_it_elsewhere_only_if_it_does_not() -> None:
    assert is_silent_on("reaction", "nausea", (REACTIONS, "Headache | VELORIN %: 12 | Placebo %: 4"))
    assert not is_silent_on("reaction", "nausea", (POPULATIONS, "Nausea was seen in older patients."))
    assert not is_silent_on("reaction", "nausea", (REACTIONS, "Gastrointestinal upset | VELORIN %: 12 | Placebo %: 4"))


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
    ("kind", "term", "code", "text", "near"),
    [
        ("contraindication", "asthma", CONTRAINDICATIONS, "Velorin is contraindicated in porphyria.", True),
        ("contraindication", "asthma", CONTRAINDICATIONS, "Velorin is contraindicated in bronchospasm.", False),
        ("boxed_warning", "asthma", BOXED, "Velorin may cause heart failure.", True),
        ("boxed_warning", "asthma", INDICATIONS, "Velorin is for pain.", False),
        ("overdose", "dizziness", OVERDOSAGE, "An overdose may cause coma.", True),
        ("dose_adjustment", "use in patients with renal impairment", DOSAGE, "Take 20 mg daily.", True),
        ("dose_adjustment", "use in patients with renal impairment", DOSAGE, "Take 20 mg if eGFR is normal.", False),
    ],
    ids=["named elsewhere", "a wider name", "boxed", "no such section", "overdose", "dose", "its measure"],
)
def test_a_section_that_names_neither_the_term_nor_its_class_is_a_near_miss(
    kind: str, term: str, code: str, text: str, near: bool
) -> None:
    assert is_near_miss(kind, term, (code, text), CARE) is near
    assert not is_silent_on(kind, term, (code, text))


def test_a_contraindication_in_another_section_is_no_near_miss() -> None:
    listed: Piece = (CONTRAINDICATIONS, "Velorin is contraindicated in porphyria.")
    assert is_near_miss("contraindication", "asthma", listed, CARE)
    assert not is_near_miss("contraindication", "asthma", listed, (WARNINGS, "Avoid Velorin in patients with asthma."))


def test_a_reaction_of_which_nothing_else_is_said_is_a_near_miss_of_a_warning() -> None:
    warned: Piece = (WARNINGS, "Liver failure was seen.")
    listed: Piece = (REACTIONS, "Insomnia and rash were reported.")
    assert is_near_miss("risk", "insomnia", warned, listed)
    assert not is_near_miss("risk", "insomnia", warned, listed, (POPULATIONS, "Insomnia is worse in old age."))


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
    assert is_silent_on("subsection", OVERDOSE, (WARNINGS, "Liver failure was seen."))
    assert not is_silent_on("subsection", OVERDOSE, (WARNINGS, "An overdose may cause liver failure."))


def test_a_name_without_its_spaces_is_no_silence_where_the_topic_is_asked() -> None:
    passages = made_passages((OVERDOSAGE, "Acute renalfailure was seen."), (REACTIONS, "Renal failure was seen."))
    topic = Topic("overdose", "renal failure")
    assert topic not in find_topics(made_label(passages), passages, [topic]).near


def test_the_parts_of_a_whole_section_have_their_titles() -> None:
    signs: Piece = (OVERDOSAGE, "Signs", "Coma and seizures were seen in patients.")
    found = answer_of("subsection", OVERDOSE, signs, (OVERDOSAGE, "Treatment", "Call a poison centre at once."))
    assert found is not None
    assert found.text == "Signs: Coma and seizures were seen in patients. Treatment: Call a poison centre at once."
