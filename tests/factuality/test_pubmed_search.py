"""PubMed: queries for a claim and parsing of articles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.evidence.pubmed import parse_articles, pubmed_queries
from fdarx_core.factuality.evidence.subjects import ClaimQuery
from tests.factuality.entrez_server import Paper, articles

STRUCTURED = (
    '<AbstractText Label="BACKGROUND" NlmCategory="BACKGROUND">Hypertension is common.</AbstractText>'
    '<AbstractText Label="UNLABELLED">It is treated.</AbstractText>'
    '<AbstractText Label="RESULTS" NlmCategory="RESULTS">Platelets were 150&#xd7;10<sup>9</sup>/L at 70 kg/m'
    "<sup>2</sup>; CO<sub>2</sub> <i>and <b>sodium</b></i> rose (P&lt;0.05).</AbstractText>"
)


def citation(inner: str, date: str = "<Year>2019</Year>") -> bytes:
    journal = f"<Journal><JournalIssue><PubDate>{date}</PubDate></JournalIssue></Journal>"
    article = f"<PMID>7</PMID><Article>{journal}{inner}</Article>"
    return articles(f"<PubmedArticle><MedlineCitation>{article}</MedlineCitation></PubmedArticle>").encode()


def test_a_structured_abstract_and_inline_markup() -> None:
    [one] = parse_articles(
        articles(Paper("1", "Effect of <i>BRCA1</i> on CO<sub>2</sub>.", STRUCTURED, 2021).xml).encode()
    )
    assert (one.place, one.title, one.year) == ("1", "Effect of BRCA1 on CO2.", 2021)
    assert one.text.split("\n") == [
        "BACKGROUND: Hypertension is common.",
        "It is treated.",
        "RESULTS: Platelets were 150×10^9/L at 70 kg/m2; CO2 and sodium rose (P<0.05).",
    ]


@pytest.mark.parametrize(
    ("date", "year"),
    [
        ("<Year>2019</Year><Month>Feb</Month>", 2019),
        ("<MedlineDate>2019 Jan-Feb</MedlineDate>", 2019),
        ("<MedlineDate>Winter 2018-2019</MedlineDate>", 2018),
        ("<Season>Spring</Season>", 0),
    ],
)
def test_years(date: str, year: int) -> None:
    [one] = parse_articles(citation("<ArticleTitle>T</ArticleTitle>", date))
    assert one.year == year


def test_the_online_date_stands_in() -> None:
    online = "<ArticleTitle>T</ArticleTitle><ArticleDate><Year>2017</Year></ArticleDate>"
    [one] = parse_articles(citation(online, "<Season>Spring</Season>"))
    assert one.year == 2017


def test_other_languages_and_titles() -> None:
    inner = "<ArticleTitle>[Not Available].</ArticleTitle><VernacularTitle>Le sel.</VernacularTitle>"
    other = "<OtherAbstract><AbstractText>Autre.</AbstractText></OtherAbstract></MedlineCitation>"
    [one] = parse_articles(citation(inner).replace(b"</MedlineCitation>", other.encode()))
    assert (one.title, one.text) == ("Le sel.", "")


def test_a_book_chapter() -> None:
    book = (
        "<PubmedBookArticle><BookDocument><PMID>5</PMID><Book><BookTitle>Handbook</BookTitle><PubDate><Year>2024</Year>"
        "</PubDate></Book><ArticleTitle>Scabies</ArticleTitle><Abstract><AbstractText>Mites.</AbstractText></Abstract>"
        "</BookDocument></PubmedBookArticle>"
    )
    [one] = parse_articles(articles(book).encode())
    assert (one.place, one.title, one.text, one.year) == ("5", "Scabies", "Mites.", 2024)


def test_pmids_of_references_are_not_read() -> None:
    assert [
        one.place for one in parse_articles(articles(Paper("1", "A", "b").xml, Paper("2", "B", "").xml).encode())
    ] == ["1", "2"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html><body>502 Bad Gateway</body>",
        b"<eFetchResult><ERROR>Unable to obtain query</ERROR></eFetchResult>",
        b"<html></html>",
        b'{"error":"API rate limit exceeded"}',
        b'<!DOCTYPE PubmedArticleSet [<!ENTITY a "aaa">]><PubmedArticleSet>&a;</PubmedArticleSet>',
    ],
)
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="the reply"):
        parse_articles(data)


def test_no_file_is_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("do not tell")
    declared = f'<!DOCTYPE PubmedArticleSet [<!ENTITY s SYSTEM "{secret.as_uri()}">]>'
    with pytest.raises(ValueError, match="entities"):
        parse_articles(f"{declared}<PubmedArticleSet>&s;</PubmedArticleSet>".encode())


@given(st.integers(min_value=1, max_value=2000))
def test_a_reply_that_is_cut_is_never_taken_for_whole(missing: int) -> None:
    whole = articles(Paper("1", "One", STRUCTURED).xml, Paper("2", "Two", "b").xml).encode().rstrip()
    with pytest.raises(ValueError, match="the reply"):
        parse_articles(whole[: max(0, len(whole) - missing)])


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Co", "Cf")), min_size=1))
def test_texts_survive(text: str) -> None:
    [one] = parse_articles(articles(Paper("1", "T", text.replace("<AbstractText", "")).xml).encode())
    assert one.text.split() == text.replace("<AbstractText", "").split()


KEPT = " AND hasabstract NOT retracted publication[pt]"


def rungs(claim: str, question: str = "", drug: str = "") -> list[str]:
    found = pubmed_queries(ClaimQuery(claim, question, drug))
    assert all(one.endswith(KEPT) for one in found)
    return [one.removesuffix(KEPT).removeprefix("(").removesuffix(")") for one in found]


def test_from_all_words_to_any() -> None:
    claim, question = "Oral ivermectin kills mites.", "Which drugs kill scabies mites?"
    narrow, middle, wide = rungs(claim, question)
    assert set(narrow.split()) == {"oral", "ivermectin", "kills", "mites"}
    assert middle == "(kills OR mites) AND (oral OR ivermectin)"
    assert set(wide.split(" OR ")) == {"oral", "ivermectin", "kills", "mites"}


def test_a_claim_that_leaves_its_subject_open_is_asked_with_the_question_s() -> None:
    narrow, middle, wide = rungs("Severe cases need intravenous glucose.", "What causes hypoglycemia in newborns?")
    assert {"hypoglycemia", "newborns", "intravenous", "glucose"} <= set(narrow.split())
    assert "hypoglycemia" in middle.partition(" AND ")[0]
    assert "hypoglycemia" in wide


def test_names_of_one_letter_and_acronyms_are_kept() -> None:
    narrow, *_ = rungs("Hepatitis C and vitamin D don't affect the UTI.")
    assert "hepatitis c" in narrow
    assert "vitamin d" in narrow
    assert "UTI" in narrow


def test_the_drug_is_always_wanted() -> None:
    narrow, middle, _ = rungs("Headache was seen in 12 % of patients.", "", "Zalvorin")
    assert narrow.startswith("zalvorin")
    assert middle.startswith("(zalvorin) AND (")


def test_numbers_units_and_operators_are_left_out() -> None:
    narrow, *_ = rungs("Amoxicillin 500 mg OR 2.5 mL daily cures otitis AND NOT sinusitis.")
    assert set(narrow.split()) >= {"amoxicillin", "otitis"}
    assert not {"500", "mg", "2.5", "ml", "OR", "AND", "NOT"} & set(narrow.split())


def test_no_abstract_has_to_have_more_than_six_words() -> None:
    long = "Noonan syndrome causes webbing, hypertelorism, stenosis, lentigines, cryptorchidism, deafness, bleeding."
    assert len(rungs(long)[0].split()) == 6
    assert len(rungs(long, "Does Noonan syndrome cause webbing?", "Zalvorin")[0].split()) == 6


def test_a_claim_without_words_of_its_own_takes_the_question_s() -> None:
    assert "scabies" in rungs("It may.", "Is scabies contagious?")[0]
    assert pubmed_queries(ClaimQuery("12 %.", "")) == []


@given(st.text(max_size=200), st.text(max_size=80), st.text(max_size=30))
def test_nothing_that_entrez_reads_as_its_own_language(claim: str, question: str, drug: str) -> None:
    for one in rungs(claim, question, drug):
        assert one.count("(") == one.count(")")
        assert not re.search(r'[\[\]":*?/{}<>~^]', one)
        assert not re.search(r"\(\)|AND \)|OR \)|^ ?(AND|OR)", one)
