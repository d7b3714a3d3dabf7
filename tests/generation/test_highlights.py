"""Questions on the Highlights: wording, gold answer, evidence in the full section."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.generation.candidates import highlight_candidates
from fdarx_core.labels import parse_document
from fdarx_core.records import Highlight, Label, Passage, QuestionAnswer, Section

WARNINGS = "43685-7"


def make_label(highlights: Sequence[Highlight], set_id: str = "set-1") -> Label:
    top = Section(WARNINGS, WARNINGS, "5", "WARNINGS AND PRECAUTIONS", "WARNINGS AND PRECAUTIONS", 0)
    below = Section("42229-5", WARNINGS, "5.2", "Renal Toxicity", "WARNINGS AND PRECAUTIONS > Renal Toxicity", 1)
    return Label(
        set_id=set_id, version=1, effective_date="", document_type="", document_type_name="", title="",
        drug_name="Zelvarin", aliases=["Zelvarin"], substances=[], uniis=[], routes=[], dosage_forms=[], labeler="",
        ndcs=[], marketing_categories=[], application_numbers=[], boxed_warning="", sections=[top, below],
        highlights=list(highlights),
    )  # fmt: skip


def passage(index: int, number: str, text: str, code: str = WARNINGS) -> Passage:
    return Passage("set-1", index, 0, "42229-5", code, number, "", "", text)


def warning(text: str, topic: str = "", references: Sequence[str] = ()) -> Highlight:
    return Highlight(WARNINGS, "WARNINGS AND PRECAUTIONS", topic, text, list(references))


BODY = [
    passage(3, "5.1", "Hepatotoxicity. Monitor liver tests every 3 months and stop treatment if they worsen."),
    passage(4, "5.2", "Renal toxicity. Avoid use in patients with creatinine clearance below 30 mL/min."),
    passage(9, "8.6", "Avoid use in patients with creatinine clearance below 30 mL/min.", "43684-0"),
]


def only(found: list[QuestionAnswer]) -> QuestionAnswer:
    assert len(found) == 1
    return found[0]


def test_a_statement_with_a_topic_is_asked_by_topic_with_evidence_from_its_reference() -> None:
    text = "Renal Toxicity: Avoid use in patients with creatinine clearance below 30 mL/min. (5.2)"
    found = only(highlight_candidates(make_label([warning(text, "Renal Toxicity", ["5.2"])]), BODY))
    assert "renal toxicity" in found.question and "Zelvarin" in found.question
    assert found.answer == "Renal Toxicity: Avoid use in patients with creatinine clearance below 30 mL/min."
    assert (found.gold_passages, found.gold_has_answer) == ([4], [True])
    assert found.category == "Safety & Serious Risks"


def test_a_wrong_reference_falls_back_to_the_whole_section() -> None:
    text = "Hepatotoxicity: Monitor liver tests every 3 months. (5.2)"
    assert only(highlight_candidates(make_label([warning(text, "Hepatotoxicity", ["5.2"])]), BODY)).gold_passages == [3]


def test_a_statement_without_topic_takes_the_title_of_the_section_it_cites() -> None:
    text = "Avoid use in patients with creatinine clearance below 30 mL/min. (5.2)"
    assert "renal toxicity" in only(highlight_candidates(make_label([warning(text, "", ["5.2"])]), BODY)).question


def test_a_short_heading_is_also_asked_whole() -> None:
    statements = [
        warning("Hepatotoxicity: Monitor liver tests every 3 months. (5.1)", "Hepatotoxicity", ["5.1"]),
        warning(
            "Renal Toxicity: Avoid use if creatinine clearance is below 30 mL/min. (5.2)", "Renal Toxicity", ["5.2"]
        ),
    ]
    found = highlight_candidates(make_label(statements), BODY)
    assert [len(one.gold_passages) for one in found] == [2, 1, 1]
    assert len({one.question for one in found}) == 3


@pytest.mark.parametrize(
    "text",
    [
        "Renal Toxicity: Avoid use in patients with creatinine clearance below 45 mL/min. (5.2)",
        "Ototoxicity: Hearing loss and vertigo were noted after rapid infusion. (5.9)",
        "To report SUSPECTED ADVERSE REACTIONS, contact Acme at 1-800-000-0000.",
        "Renal Toxicity: See boxed warning. (5.2)",
        "",
    ],
)
def test_what_the_body_does_not_bear_out_gives_no_question(text: str) -> None:
    assert highlight_candidates(make_label([warning(text)]), BODY) == []


def test_recent_major_changes_are_not_asked_about() -> None:
    change = Highlight("43683-2", "RECENT MAJOR CHANGES", "", "Warnings, renal toxicity (5.2) 1/2024", ["5.2"])
    assert highlight_candidates(make_label([change]), BODY) == []


def test_the_wording_varies_with_the_label_and_not_with_the_run() -> None:
    text = "Renal Toxicity: Avoid use in patients with creatinine clearance below 30 mL/min. (5.2)"
    statement = warning(text, "Renal Toxicity", ["5.2"])
    by_label = [only(highlight_candidates(make_label([statement], f"set-{n}"), BODY)).question for n in range(20)]
    assert len(set(by_label)) == 3
    assert by_label == [
        only(highlight_candidates(make_label([statement], f"set-{n}"), BODY)).question for n in range(20)
    ]


@given(st.lists(st.builds(warning, st.text(max_size=120), st.text(max_size=20), st.just(["5.2"])), max_size=6))
def test_any_statements_keep_the_bounds(statements: list[Highlight]) -> None:
    found = highlight_candidates(
        make_label(statements), [*BODY, passage(12, "5.3", " ".join(s.text for s in statements))]
    )
    assert len({one.question for one in found}) == len(found)
    for one in found:
        assert 10 <= len(one.question) <= 200 and 5 <= len(one.answer) <= 600 and "Zelvarin" in one.question
        assert (
            1 <= len(one.gold_passages) <= 5
            and len(one.gold_passages) == len(one.gold_has_answer)
            and any(one.gold_has_answer)
        )


def real_labels(count: int) -> list[bytes]:
    """Every n-th label of the bulk release, so that drugs vary."""
    archive = Path(os.environ.get("FDARX_DATA", "../shared/data")) / "spl" / "dm_spl_release_human_rx.zip"
    if not archive.exists():
        pytest.skip(f"no real labels at {archive}: set FDARX_DATA")
    with zipfile.ZipFile(archive) as release:
        members = sorted(name for name in release.namelist() if name.endswith(".zip"))
        inner = [zipfile.ZipFile(io.BytesIO(release.read(name))) for name in members[:: len(members) // count]]
        return [one.read(next(name for name in one.namelist() if name.endswith(".xml"))) for one in inner]


def test_real_labels_numbers_stand_in_the_gold_passages() -> None:
    asked = 0
    for data in real_labels(25):
        label, passages = parse_document(data, "bulk release")
        texts = {one.doc_chunk_index: one.text for one in passages}
        for one in highlight_candidates(label, passages):
            asked += 1
            assert number_strings(one.answer) <= number_strings(" ".join(texts[index] for index in one.gold_passages))
    assert asked > 50
