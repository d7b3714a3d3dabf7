"""How replies are read: citations in the forms models write them in, refusals in their words, what is neither."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.predictions import ANSWER_TASKS, parse_reply, prediction_from_response
from fdarx_core.evaluation.settings import FULL_LABEL, ORACLE, RETRIEVED, prompt_context
from fdarx_core.records import Passage, QuestionAnswer, Response

SET_ID, OTHER = "label-a", "label-b"


def passage(number: int, set_id: str = SET_ID) -> Passage:
    return Passage(set_id, number, 0, "", "", "", "", "", f"Text {number}.")


SHOWN = {number: passage(number) for number in (3, 4, 5, 7, 12, 40)}

CITED = [
    ("5 mg.\nCITED_PASSAGES: [PASSAGE_0003, PASSAGE_0012]", [3, 12]),
    ("5 mg.\nCITED PASSAGES: PASSAGE_12", [12]),
    ("5 mg.\nCited passages - PASSAGE 12 and PASSAGE 3", [12, 3]),
    ("5 mg.\nCitations: [0003, 12]", [3, 12]),
    ("5 mg.\n**CITED_PASSAGES**: [||PASSAGE_0003||]", [3]),
    ("5 mg.\n**CITED_PASSAGES:** [3]", [3]),
    ("5 mg.\nCITED\\_PASSAGES: [PASSAGE\\_0003]", [3]),
    ("5 mg.\nCITED_PASSAGES [PASSAGE_0003]", [3]),
    ("5 mg.\nCITED_PASSAGES: {PASSAGE_0003}", [3]),
    ("5 mg.\nCITED_PASSAGES: [Passage_0003; passage 5]", [3, 5]),
    ("5 mg.\nCITED_PASSAGES: PASSAGE_0003-PASSAGE_0005", [3, 4, 5]),
    ("5 mg.\nCITED_PASSAGES: [0003–0005]", [3, 4, 5]),
    ("5 mg.\nCITED_PASSAGES: PASSAGE_0003 to 0005", [3, 4, 5]),
    ("5 mg.\nCITED_PASSAGES: [PASSAGES 3-5]", [3, 4, 5]),
    ("5 mg.\nCITED_PASSAGES: [PASSAGE_0005-PASSAGE_0003]", [5, 3]),
    ("5 mg.\nCITED_PASSAGES: [PASSAGE_0003, 0005, 12]", [3, 5, 12]),
    ("5 mg.\nCITED_PASSAGES: [PASSAGE_0003, PASSAGE_0003]", [3]),
    ("5 mg.\nCITED_PASSAGES: [\n  PASSAGE_0003,\n  PASSAGE_0012\n]", [3, 12]),
    ("5 mg.\nCITED_PASSAGES:\n- PASSAGE_0003\n- PASSAGE_0005", [3, 5]),
    ("5 mg.\nCITED_PASSAGES:\n1. PASSAGE_0003\n2. PASSAGE_0012", [3, 12]),
    ("5 mg.\nCITED_PASSAGES: [PASSAGE_0003], [PASSAGE_0005]", [3, 5]),
    ("5 mg.\nCITED_PASSAGES: [PASSAGE_0003 (Dosage, 2.1), PASSAGE_0005 (section 7)]", [3, 5]),
    ("5 mg.\nReferences:\n[PASSAGE_0003]", [3]),
    ("5 mg.\nPassages cited: 3, 5", [3, 5]),
    ("5 mg.\n2. CITED_PASSAGES: [3, 5]", [3, 5]),
    ("5 mg. CITED_PASSAGES: [PASSAGE_0003]", [3]),
    ("CITED_PASSAGES: [PASSAGE_0003]\nAnswer: 5 mg.", [3]),
    ("**Answer:** 5 mg.\n\nCITED_PASSAGES: [PASSAGE_0003]", [3]),
    ("Final answer: 5 mg.\nCITED_PASSAGES: [PASSAGE_0003]", [3]),
    ("5 mg.\nCITED_PASSAGES: [PASSAGE_0003]\n\nQUESTION: Else?\nANSWER: 9 mg [PASSAGE_0040]", [3]),
    ("5 mg [PASSAGE_0012].", [12]),
    ("5 mg (PASSAGE_0012, PASSAGE_0003).", [12, 3]),
    ("5 mg [||PASSAGE_0012||].", [12]),
    ("5 mg [see PASSAGE_0012].\nCITED_PASSAGES: []", [12]),
    ("5 mg [PASSAGE_0012].\nCITED_PASSAGES: [PASSAGE_0003]", [3]),
    ("5 mg.\nCITED_PASSAGES: []", []),
    ("5 mg.\nCITED_PASSAGES: None", []),
    ("5 mg.", []),
    ("<think>Perhaps PASSAGE_0040?</think>\n5 mg.\nCITED_PASSAGES: [PASSAGE_0003]", [3]),
    ("Perhaps PASSAGE_0040.</think>5 mg.\nCITED_PASSAGES: [PASSAGE_0003]", [3]),
    ("```\n5 mg.\nCITED_PASSAGES: [PASSAGE_0003]\n```", [3]),
    ('{"answer": "5 mg.", "cited_passages": ["PASSAGE_0003", 12]}', [3, 12]),
    ('Here it is:\n```json\n{"Answer": "5 mg.", "Citations": "PASSAGE_0003, PASSAGE_0005"}\n```', [3, 5]),
]


@pytest.mark.parametrize(("reply", "expected"), CITED)
def test_citations_are_understood_and_taken_out(reply: str, expected: list[int]) -> None:
    reading = parse_reply(reply, SHOWN)
    assert [one.doc_chunk_index for one in reading.cited] == expected
    assert (reading.outcome, reading.answer, reading.unknown) == ("answered", "5 mg.", 0)


@pytest.mark.parametrize(
    ("reply", "cited", "unknown"),
    [
        ("5 mg.\nCITED_PASSAGES: [PASSAGE_0003, PASSAGE_0099]", [3], 1),
        ("5 mg.\nCITED_PASSAGES: [PASSAGE_0001-PASSAGE_0012]", [3, 4, 5, 7, 12], 1),
        ("5 mg.\nCITED_PASSAGES: [PASSAGE_0099, PASSAGE_0099]", [], 1),
    ],
)
def test_passages_that_were_not_shown_are_counted(reply: str, cited: list[int], unknown: int) -> None:
    reading = parse_reply(reply, SHOWN)
    assert ([one.doc_chunk_index for one in reading.cited], reading.unknown) == (cited, unknown)


def test_prose_about_sources_is_no_list() -> None:
    reading = parse_reply("5 mg, by section 12.\nSources: FDA label, section 5", SHOWN)
    assert not reading.cited
    assert reading.answer.endswith("section 5")


REFUSALS = [
    "NOT_ANSWERABLE\nCITED_PASSAGES: []",
    "NOT_ANSWERABLE. The label names hypertension (5 mg daily), not angina.",
    "The label covers adults, who take 5 mg.\nNOT_ANSWERABLE",
    "The answer is NOT_ANSWERABLE because the label is silent.",
    "Not answerable.",
    "**NOT_ANSWERABLE**",
    "The label does not contain information on desmopressin.",
    "The label does not provide a dose for dialysis.",
    "The label doesn't specify.",
    "The label for metformin does not explicitly state whether it interacts with echinacea.",
    "The label does not list hypertrichosis as an adverse reaction.",
    "The label provides no information on lactose.",
    "The context does not contain the answer.",
    "None of the passages discuss biotin.",
    "No mention of biotin is made in the label text.",
    "There is no information in the label about biotin.",
    "There is no mention of biotin in this label, so I cannot answer.",
    "Biotin is not addressed in the provided label passages; therefore, the question cannot be answered.",
    "Based on the provided label, the effect of biotin on the dose is not specified.",
    "It is not stated in the label.",
    "Not mentioned in the label.",
    "Unfortunately, the label does not address this.",
    "Although the label mentions renal impairment (5 mg), it does not specify a dose for dialysis.",
    "The label does not mention biotin. It only discusses zinc at 500 mg.",
    "The provided passages do not mention biotin. Please consult a pharmacist.",
    "This cannot be determined from the label.",
    "Unable to determine from the label.",
    "There is insufficient information to answer this question.",
    "Information not found!",
    "No information provided.",
    "The information is not available in the provided text.",
    "I don't know.",
    "I do not know what the label says.",
    "I cannot answer this question based on the provided passages.",
    "I'm sorry, but I do not have access to the label.",
    "I'm not sure what the label says about this.",
    "As an AI, I do not have access to that label.",
    "Sorry, I can't answer that.",
    '{"answer": null, "cited_passages": []}',
]

ANSWERS = [
    "Velorin is not recommended in pregnancy.",
    "The label does not recommend Velorin for children.",
    "The label does not support use in children under 12.",
    "Safety and effectiveness have not been established in children.",
    "It is not known whether Velorin is excreted in human milk.",
    "There are no adequate and well-controlled studies in pregnant women.",
    "No data are available on use in pregnancy.",
    "No dose adjustment is required.",
    "No, the label does not require dose adjustment.",
    "No.",
    "None.",
    "The mechanism is unknown.",
    "The label does not contain a boxed warning.",
    "Tablets do not contain lactose.",
    "The label does not state a pediatric dose, but recommends 5 mg for adults.",
    "I don't know the exact label text. The usual dose is 500 mg twice daily.",
    "I do not have access to the label; however, metformin is typically started at 500 mg twice daily.",
    "Starting dose: 5 mg.\nMaximum dose: NOT_ANSWERABLE",
    "The frequency cannot be reliably estimated because reports are voluntary.",
    "Overdose: no specific antidote is available.",
    "Velorin cannot be removed by dialysis.",
    "Hypersensitivity reactions were not reported in trials.",
    "The dose has not been studied in hepatic impairment.",
    "Patients who do not respond should be given 10 mg.",
    "No interactions were observed with warfarin in the study.",
]


@pytest.mark.parametrize("reply", REFUSALS)
def test_refusals(reply: str) -> None:
    assert parse_reply(reply, SHOWN).outcome == "refused"


@pytest.mark.parametrize("reply", ANSWERS)
def test_answers_with_a_not_in_them(reply: str) -> None:
    assert parse_reply(reply, SHOWN).outcome == "answered"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [("<think>5 mg, or", "unclosed_thought"), ("CITED_PASSAGES: [PASSAGE_0003]", "no_answer"), ("...", "no_answer")],
)
def test_no_answer_at_all(reply: str, reason: str) -> None:
    reading = parse_reply(reply, SHOWN)
    assert (reading.outcome, reading.reason) == ("unparsed", reason)


SCRAPS = """CITED_PASSAGES: [ ] PASSAGE_0003 PASSAGE_ || 12 - – , \\ ` ``` ```json { } " answer null <think> </think>
NOT_ANSWERABLE Answer: Sources: ( ) * label does not state I don't know 5 mg . ;"""
PIECES = st.sampled_from([*SCRAPS.split(), "\n"])


@given(st.lists(PIECES, max_size=30).map(" ".join) | st.text(max_size=200))
def test_any_reply_is_read(reply: str) -> None:
    reading = parse_reply(reply, SHOWN)
    assert reading.outcome in ("answered", "refused", "unparsed")
    assert (reading.outcome == "unparsed") == bool(reading.reason)
    numbers = [one.doc_chunk_index for one in reading.cited]
    assert set(numbers) <= set(SHOWN)
    assert len(numbers) == len(set(numbers))


WORDS = st.sampled_from("take 5 mg once daily with food in adults over 65 years of age until renal function".split())  # noqa: SIM905


@given(st.lists(WORDS, min_size=1, max_size=30).map(" ".join), st.lists(st.sampled_from(sorted(SHOWN)), unique=True))
def test_a_well_formed_reply_is_read_back(answer: str, cited: list[int]) -> None:
    listed = ", ".join(SHOWN[number].marker for number in cited)
    for reply in (
        f"{answer}.\nCITED_PASSAGES: [{listed}]",
        json.dumps({"answer": f"{answer}.", "cited_passages": [SHOWN[number].marker for number in cited]}),
    ):
        reading = parse_reply(reply, SHOWN)
        assert (reading.outcome, reading.answer, reading.unknown) == ("answered", f"{answer}.", 0)
        assert [one.doc_chunk_index for one in reading.cited] == cited


QUESTION = QuestionAnswer(
    "q1", "factual", "factual", "section", "", SET_ID, "Velorin", "How much?", "5 mg.", [3], [""], [True]
)


def response(text: str, reason: str = "", finish_reason: str = "stop") -> Response:
    return Response("key", "answer_full_label", 1, "m", text, reason, finish_reason, 900, 20, 1.5, 800)


def test_a_prediction_carries_what_the_response_says() -> None:
    seen = prompt_context(FULL_LABEL, QUESTION, list(SHOWN.values()))
    task = ANSWER_TASKS[FULL_LABEL]
    found = prediction_from_response(
        ("m", FULL_LABEL, ""), QUESTION, seen, task, response("5 mg.\nCITED_PASSAGES: [3, 99]"), 0.25
    )
    assert (found.outcome, found.answer, found.cited, found.cited_unknown) == ("answered", "5 mg.", [3], 1)
    assert (found.shown, found.shown_set_ids, found.cited_set_ids) == (list(SHOWN), [], [])
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (900, 800, 20)
    assert (found.latency_s, found.cost, found.response_key, found.task) == (1.5, 0.25, "key", "answer_full_label")


@pytest.mark.parametrize(
    ("given_response", "outcome", "reason"),
    [
        (response("HTTP 400", "refused_request", "error"), "failed", "refused_request"),
        (response("5 mg, and", finish_reason="length"), "unparsed", "truncated_reply"),
        (response("  "), "unparsed", "empty_reply"),
    ],
)
def test_what_is_no_reply_is_no_answer(given_response: Response, outcome: str, reason: str) -> None:
    seen = prompt_context(ORACLE, QUESTION, list(SHOWN.values()))
    found = prediction_from_response(("m", ORACLE, ""), QUESTION, seen, ANSWER_TASKS[ORACLE], given_response)
    assert (found.outcome, found.reason, found.answer, found.text) == (outcome, reason, "", given_response.text)


def test_ids_tell_cells_apart() -> None:
    seen = prompt_context(RETRIEVED, QUESTION, [], list(SHOWN.values()))
    ids = {
        prediction_from_response(cell, QUESTION, seen, ANSWER_TASKS[RETRIEVED], response("5 mg.")).id
        for cell in (("m", RETRIEVED, "bm25"), ("m", RETRIEVED, "dense"), ("n", RETRIEVED, "bm25"))
    }
    assert len(ids) == 3


def test_over_the_corpus_a_marker_is_a_place() -> None:
    ranked = [passage(7), passage(7, OTHER), passage(2, OTHER)]
    seen = prompt_context(RETRIEVED, QUESTION, [], ranked)
    reply = response("5 mg.\nCITED_PASSAGES: [PASSAGE_0003, PASSAGE_0001, PASSAGE_0007]")
    found = prediction_from_response(("m", RETRIEVED, "bm25"), QUESTION, seen, ANSWER_TASKS[RETRIEVED], reply)
    assert (found.cited, found.cited_set_ids, found.cited_unknown) == ([2, 7], [OTHER, SET_ID], 1)
    assert (found.shown, found.shown_set_ids) == ([7, 7, 2], [SET_ID, OTHER, OTHER])
