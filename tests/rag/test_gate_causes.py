"""True statements that the gate lets through, and false ones that it stops, by what makes them hard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fdarx_core as fdarx
from fdarx_core.rag.index import Answer
from fdarx_core.records import Chunk, LabelVersion, Product
from fdarx_core.retrieval.index import IndexStore
from tests.labels.rrf import write_names
from tests.rag.scripted_model import ScriptedModel, scripted_model

_DOSE = (
    "The recommended starting dose of Velora is 10 mg once daily with food. Is Velora given to patients on dialysis?\n"
    "Velora tablets should not be crushed. Should Velora be stopped after 12 weeks? Draw blood before each infusion.\n"
    "Intensive monitoring of liver enzymes is required."
)
_TABLE = (
    "Table 1. Dose by renal function\neGFR (mL/min) | Starting dose | Maximum dose\n"
    "60 or more | 10 mg | 40 mg\n30 to 59 | 5 mg | 20 mg\nbelow 30 | 2.5 mg | 15 mg"
)
_CONTRAINDICATED = (
    "Velora is contraindicated in patients with:\n- anuria. It may be fatal.\n- known hypersensitivity\n"
    "- severe hepatic impairment"
)


def _label(set_id: str, drug: str, date: str, version: int, sections: list[tuple[str, str]]) -> list[Chunk]:
    product = Product([drug, drug.lower()], [drug.lower()], [""], [drug.lower()], [""])
    label = LabelVersion(version, date, "", "Acme Pharma", [drug.lower()], [""], [product], ["NDA"])
    return [
        Chunk(f"{set_id}-{at}", set_id, drug, "", section, text, at, -1, set_id, drug, "", None if at else label)
        for at, (section, text) in enumerate(sections)
    ]


CHUNKS = [
    *_label(
        "s1", "Velora", "2024-03-15", 12, [("2 DOSE", _DOSE), ("2.3 DOSE", _TABLE), ("4 NO USE", _CONTRAINDICATED)]
    ),
    *_label("s2", "Mirapan", "2021-07-01", 3, [("2 DOSE", "The starting dose of Mirapan is 25 mg.")]),
    *_label("s3", "Tolvera", "2020-01-31", 1, [("5 WARNINGS", "Tolvera may cause drowsiness with alcohol.")]),
]
QUESTION = "What is the recommended starting dose of Velora tablets?"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedModel]:
    folder = tmp_path_factory.mktemp("index")
    store = IndexStore(str(folder))
    store.commit([store.write_segment(CHUNKS)])
    with scripted_model(fdarx.Index.open(folder)) as model:
        yield model


def replied(model: ScriptedModel, statement: str, question: str = QUESTION, verdict: str = "none") -> Answer:
    """The answer with a statement that cites all that Velora's label has."""
    return model.answer(f"{statement.rstrip('.')} [1][2][3].", question, {"": verdict}, drug="Velora")


@pytest.mark.parametrize(
    ("cause", "question", "statement"),
    [
        # "No." before a sentence answers the question, and denies nothing
        ("no", "May Velora tablets be crushed?", "No. Velora tablets should not be crushed."),
        ("no", "May Velora tablets be crushed?", "No: Velora tablets should not be crushed."),
        ("no", "Is monitoring optional?", "No, intensive monitoring of liver enzymes is required."),
        ("no", "Is there a safe dose in anuria?", "None: Velora is contraindicated in patients with anuria."),
        ("no", "Is blood drawn after the infusion?", "Never. Draw blood before each infusion."),
        ("no", "Is it given with food?", "Yes. The recommended starting dose of Velora is 10 mg once daily with food."),
        # a question that the label asks is no statement
        ("question", QUESTION, "Velora is not given to patients on dialysis."),
        ("question", QUESTION, "Velora should not be stopped after 12 weeks."),
        ("question", QUESTION, "Velora should be stopped after 12 weeks."),
        ("question", QUESTION, "Velora is given to patients on dialysis."),
        ("question", QUESTION, "To the question of food the label answers with food."),
        ("question", QUESTION, "Whether Velora is given to patients on dialysis is asked, and not answered."),
        # a number of the question needs no passage
        ("asked", "What dose does a 65-year-old start with?", "A patient of 65 years starts with 10 mg once daily."),
        ("asked", "Is 7.5 mg of Velora a starting dose?", "The starting dose is 10 mg, not 7.5 mg."),
        ("asked", "A man weighs 82 kg. Which dose?", "At 82 kg the starting dose is 10 mg once daily."),
        ("asked", "Is Velora given every 8 hours?", "Velora is not given every 8 hours, but once daily."),
        ("asked", "Does 25% of the dose suffice?", "The label does not give 25% of the dose; it starts at 10 mg."),
        ("asked", "Is it for patients aged 18 to 24?", "From 18 to 24 years the starting dose is 10 mg as well."),
        # several rows of one table at once
        ("rows", QUESTION, "The starting dose is 10 mg, 5 mg or 2.5 mg, by renal function."),
        ("rows", QUESTION, "At most 40 mg, 20 mg and 15 mg are given, from normal to poor renal function."),
        ("rows", QUESTION, "With an eGFR of 60 or more start at 10 mg, and below 30 at 2.5 mg."),
        ("rows", QUESTION, "The maximum falls from 40 mg to 15 mg as the eGFR falls below 30 mL/min."),
        ("rows", QUESTION, "Doses are halved from 10 mg to 5 mg, and the maximum from 40 mg to 20 mg, at 30 to 59."),
        ("rows", QUESTION, "Starting doses of 2.5 mg to 10 mg and maximum doses of 15 mg to 40 mg are given."),
        # the date and the version of a label stand in no text
        ("date", "How old is the label of Velora?", "The label is of March 15, 2024."),
        ("date", "How old is the label of Velora?", "The label has the effective date 2024-03-15 and the version 12."),
        ("date", "How old is the label of Velora?", "As of 15 March 2024, the starting dose is 10 mg once daily."),
        ("date", "How old is the label of Velora?", "According to the label of 2024, Velora starts at 10 mg."),
        ("date", "How old is the label of Velora?", "It is version 12, effective 03/15/2024."),
        ("date", "Who makes Velora?", "The label by Acme Pharma (2024) recommends 10 mg once daily."),
        # a list goes on after an item of two sentences
        ("list", "Who must not take Velora?", "Patients with severe hepatic impairment must not take Velora."),
    ],
)  # fmt: skip
def test_true_statements_stay(model: ScriptedModel, cause: str, question: str, statement: str) -> None:
    for verdict in ("supported", "none"):
        answer = replied(model, statement, question, verdict)
        assert not answer.gate.dropped and statement.rstrip(".") in answer.text.replace(" [1][2][3]", "")
        assert answer.gate.supported == answer.gate.statements or verdict == "none"


@pytest.mark.parametrize(
    ("question", "statement", "reason"),
    [
        (QUESTION, "The starting dose of Velora is 15 g once daily.", "number"),
        (QUESTION, "The starting dose of Velora is 35 mg once daily.", "number"),
        (QUESTION, "The starting dose of Velora is 10 mcg once daily.", "number"),
        (QUESTION, "The starting dose of Velora is 10 mg every 6 hours.", "number"),
        (QUESTION, "The label of Velora is of 2019.", "number"),
        (QUESTION, "The dose of Velora is 2024 mg.", "number"),  # the year is no amount
        (QUESTION, "Of 400 patients, most took Velora with food.", "number"),
        ("Is 7.5 mg a starting dose?", "The starting dose is 17.5 mg.", "number"),
        (QUESTION, "Warfarin must not be taken with Velora.", "drug"),
        (QUESTION, "Take Velora together with Mirapan, with food.", "drug"),
        (QUESTION, "Mirapan tablets should not be crushed.", "drug"),
        (QUESTION, "Like naproxen, Velora is contraindicated in anuria.", "drug"),
        (QUESTION, "Velora is as effective as semaglutide.", "drug"),
        (QUESTION, "Before Velora, stop Coumadin.", "drug"),
    ],
)
def test_false_numbers_and_drugs_go_without_a_verdict(
    model: ScriptedModel, question: str, statement: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_names(tmp_path, {"warfarin": "Coumadin", "naproxen": "", "semaglutide": ""})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    answer = replied(model, statement, question)
    assert [one.reason for one in answer.gate.dropped] == [reason] and answer.withheld


FALSE = [
    "Draw blood after each infusion.",  # "after" for "before"
    "Velora is taken before, not with, food.",
    "With an eGFR of 30 to 59 start at 10 mg.",  # the value of another row
    "Below 30 mL/min give at most 20 mg.",
    "With normal renal function the maximum is 15 mg.",
    "Only routine monitoring of liver enzymes is required.",  # "routine" for "intensive"
    "Monitoring of liver enzymes is optional.",
    "Velora tablets should be crushed.",
]


@pytest.mark.parametrize("statement", FALSE)
def test_the_verdicts_of_the_model_decide_on_wording(model: ScriptedModel, statement: str) -> None:
    answer = replied(model, statement, verdict="contradicted")
    assert [one.reason for one in answer.gate.dropped] == ["contradicted"] and answer.withheld
    other = replied(model, statement, verdict="other_drug")
    assert [one.reason for one in other.gate.dropped] == ["drug"] and other.withheld
    for verdict, found in (("unsupported", "unsupported"), ("none", "undecided")):
        marked = replied(model, statement, verdict=verdict)
        assert [one.verdict for one in marked.statements] == [found] and marked.marked.startswith("[unverified] ")


@pytest.mark.parametrize("statement", FALSE)
def test_quotation_alone_supports_none_of_them(model: ScriptedModel, statement: str) -> None:
    text = f"{statement.rstrip('.')} [1][2][3]."
    answer = model.answer(text, QUESTION, drug="Velora", verifier="exact")
    assert [one.verdict for one in answer.statements] == ["undecided"] and not model.asked


def test_the_model_sees_titles_lead_in_question_drug_and_the_whole_passage(model: ScriptedModel) -> None:
    question = "Who must not take Velora?"
    answer = model.answer("Not in [1][2][3]:\n- people without urine", question, drug="Velora")
    [together] = model.asked
    assert "Velora (active moieties: velora) > 4 NO USE\nVelora is contraindicated" in together
    at = next(n for n, hit in enumerate(answer.contexts, 1) if hit.section[0] == "4")
    model.answer(f"Not in [{at}]:\n- people without urine", question, drug="Velora")
    [asked] = model.asked
    for shown in (
        'titles="Velora (active moieties: velora) > 4 NO USE"',
        _CONTRAINDICATED,
        "<drug>\nVelora\n</drug>",
        "<question>\nWho must not take Velora?\n</question>",
        "<claim>\nNot in: people without urine\n</claim>",
        "The label of Velora by Acme Pharma has the effective date 2024-03-15 and the version 12.",
    ):
        assert shown in asked


def test_a_statement_rests_on_the_words_that_the_model_quotes(model: ScriptedModel) -> None:
    quote = "Draw blood before each infusion."
    answer = model.answer("Take a sample first [1][2][3].", QUESTION, {"": "supported"}, quote=quote, drug="Velora")
    assert [one.quote for one in answer.citations if one.quote] == [quote] and answer.gate.supported == 1


def test_quotations_are_not_asked_about(model: ScriptedModel) -> None:
    answer = replied(model, "Draw blood before each infusion.")
    assert answer.gate.supported == 1 and not model.asked


def test_a_supported_statement_may_name_a_drug_in_other_words(model: ScriptedModel) -> None:
    """The verifier knows that Coumadin is warfarin, and the rule does not."""
    assert replied(model, "Like Coumadin, Velora is given once daily.", verdict="supported").gate.supported == 1
