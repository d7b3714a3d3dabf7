"""What stands in place of an answer without a model: quotations of the passages that were found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.rag.quotes import MOST_QUOTES, quote_statements
from tests.rag.found import found

DOSE = found(
    "dose",
    text="2.1 Recommended Dose of VELORA\nThe maximum daily dose is 40 mg [see Warnings (5.1)]. Take it with food.",
    set_id="s1",
    section="DOSAGE",
)
USE = found(
    "use",
    text="Do not use VELORA in:\n- patients with anuria (4.1)\n- patients with gout.",
    set_id="s1",
    section="CONTRAINDICATIONS",
)
TABLE = found("table", text="Adults | Dose: 40 mg | Days: 7\nChildren | Dose: 5 mg | Days: 3", set_id="s1")
GUIDE = found(
    "guide", text="Reserve Samples\nKeep all reserve samples for one year.\n\nHow long are records kept? Two years."
)


def test_the_statement_with_most_words_of_the_question_is_quoted_and_located() -> None:
    text, statements, [citation] = quote_statements("What is the maximum daily dose?", [USE, DOSE])
    assert text == "“The maximum daily dose is 40 mg” [2]"
    assert (citation.n, citation.quote) == (2, "The maximum daily dose is 40 mg [see Warnings (5.1)].")
    assert [(one.start, one.end, one.verdict, one.citations) for one in statements] == [
        (0, len(text), "supported", [2])
    ]


def test_a_list_is_quoted_with_its_items() -> None:
    text, _, [citation] = quote_statements("When is it contraindicated, in gout?", [DOSE, USE])
    assert text == "“Do not use VELORA in: patients with anuria; patients with gout” [2]"
    assert citation.hit.text[citation.start : citation.end] == citation.hit.text


def test_only_marks_before_an_item_are_left_out() -> None:
    """What looks like one inside a statement would take digits of a number with it."""
    row = found("row", text="Second- or third-degree block | VELORA (N = 602) n (%): 104 (17)", set_id="s1")
    assert (
        quote_statements("block", [row])[0] == "“Second- or third-degree block | VELORA (N = 602) n (%): 104 (17)” [1]"
    )


def test_rows_of_a_table_are_statements_each() -> None:
    text, _, citations = quote_statements("Which dose do children take, in mg?", [TABLE])
    assert text.split("\n")[0] == "“Children | Dose: 5 mg | Days: 3” [1]"
    assert citations[0].quote == "Children | Dose: 5 mg | Days: 3"


def test_headings_and_questions_of_documents_are_not_quoted() -> None:
    text, *_ = quote_statements("How long are reserve samples and records kept?", [GUIDE])
    assert text == "“Keep all reserve samples for one year” [1]"


def test_sentences_of_documents_go_on_over_line_ends() -> None:
    text = "Reports\nA serious and unexpected adverse event is reported within 15 calendar days of the day on which\n"
    guide = found("guide", text=text + "Holders first learn\nof it. The day of receipt counts as day 0.")
    quotes, _, [citation] = quote_statements("How soon is a serious adverse event reported?", [guide])
    assert quotes == (
        "“A serious and unexpected adverse event is reported within 15 calendar days of the day on which Holders "
        "first learn of it” [1]"
    )
    assert citation.quote.endswith("which\nHolders first learn\nof it.")


def test_uploaded_passages_are_quoted_like_the_others() -> None:
    upload = found(
        "upload", text="The maximum daily dose is 90 mg.", document_id="uploads/eve/s2", set_id="uploads/eve/s2"
    )
    quotes, *_ = quote_statements("What is the maximum daily dose?", [upload, DOSE])
    assert quotes.split("\n") == ["“The maximum daily dose is 90 mg” [1]", "“The maximum daily dose is 40 mg” [2]"]
    assert quote_statements("What is the maximum daily dose?", [upload])[0] == "“The maximum daily dose is 90 mg” [1]"


def test_an_uploaded_label_is_quoted_after_the_label_of_its_drug() -> None:
    upload = found(
        "upload", text="The maximum daily dose is 90 mg.", document_id="uploads/eve/s2", set_id="s2", drug="V"
    )
    own = found("own", text="The maximum daily dose is 40 mg, in patients with gout.", set_id="s1", drug="V")
    quotes, *_ = quote_statements("What is the maximum daily dose?", [upload, own])
    assert quotes.split("\n")[0].endswith("[2]")


def test_nothing_is_quoted_where_no_word_is_shared() -> None:
    assert quote_statements("zebra", [DOSE, GUIDE]) == ("", [], [])
    assert quote_statements("What is the?", [DOSE, GUIDE])[0] == ""
    assert quote_statements("dose", []) == ("", [], [])


@given(st.text(max_size=60), st.lists(st.text(max_size=200), max_size=4), st.booleans())
def test_each_quotation_has_its_place(question: str, texts: list[str], of_label: bool) -> None:
    hits = [found(str(at), text=text or "x", set_id="s" * of_label) for at, text in enumerate(texts)]
    text, statements, citations = quote_statements(question, hits)
    assert len(statements) == len(citations) <= MOST_QUOTES
    for statement, citation in zip(statements, citations, strict=True):
        assert 0 <= citation.start < citation.end <= len(hits[citation.n - 1].text)
        assert text[statement.start : statement.end].endswith(f"” [{citation.n}]")
