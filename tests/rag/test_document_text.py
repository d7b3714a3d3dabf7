"""Guidelines as they were scanned and cut, and the sentences that are read in them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdarx_core.rag.baseline.document_text import told_by_document


def said(text: str) -> list[str]:
    return [one.spoken for one in told_by_document(text).statements]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Keep records.\n\n[MISSING_PAGE_EMPTY:2]\n\nRetain samples.", ["Keep records.", "Retain samples."]),
        (
            "Keep records.\n\n4.2.2 Contains Nonbinding Recommendations\n\nRetain samples.",
            ["Keep records.", "Retain samples."],
        ),
        ("## **Storage** conditions\n\nKeep it cool.", ["Storage conditions.", "Keep it cool."]),
        ("Footnote 14: Reserve samples are exempt.", ["Reserve samples are exempt."]),
        (
            "Validate the process.14 Conformance follows in 30 calendar days14 after.",
            ["Validate the process.", "Conformance follows in 30 calendar days after."],
        ),
        ("II. Scope........ 4\nIt applies to tablets.", ["It applies to tablets."]),
        (
            "Records must be kept (SS 211.180 and SSSS 211.188, 211.194).",
            ["Records must be kept (§ 211.180 and §§ 211.188, 211.194)."],
        ),
        (r"Test at \(25^{\circ}\mathrm{C}\pm 2^{\circ}\mathrm{C}\) only.", ["Test at 25°C ± 2°C only."]),
        (
            "May it be waived?Yes. The U.S. Agency may waive it.",
            ["May it be waived?", "Yes. The U.S. Agency may waive it."],
        ),
        (
            "A record is kept\n\n[MISSING_PAGE_FAIL:3]\n\nfor one year by the firm.",
            ["A record is kept for one year by the firm."],
        ),
        ("the end of a cut sentence. The whole one follows.", ["The whole one follows."]),
        ("12. An IRB reviews research.", ["An IRB reviews research."]),
        (
            "The file should include:\n\n- the protocol,\n\n- all amendments; and\n\n- the report.\n\nSubmit it early.",
            ["The file should include: the protocol; all amendments; the report.", "Submit it early."],
        ),
        (
            "It states:\n\nthe name;\n\nthe lot\n\nAn Office Reviews It. Then it ends.",
            ["It states: the name; the lot.", "An Office Reviews It.", "Then it ends."],
        ),
    ],
)
def test_what_is_read(text: str, expected: list[str]) -> None:
    assert said(text) == expected


@given(st.text(st.sampled_from("abc Yes.No?:;-\n#*_[]\\(){}^&|§SS12"), max_size=120))
@settings(deadline=None)
def test_any_text_can_be_read(text: str) -> None:
    for one in told_by_document(text).statements:
        assert one.text.strip()
        assert "\n" not in one.text
