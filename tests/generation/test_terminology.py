"""The names of things that labels speak of, and how they are found in texts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.generation.terminology import TERM_KINDS, SearchableText, fold, names_that_begin, terms, terms_of
from fdarx_core.llm import source_digest

FILES = {
    "partners": ["name", "synonyms", "members", "broader"],
    "conditions": ["name", "uses", "synonyms", "broader"],
    "reactions": ["name", "uses", "synonyms", "broader"],
    "aspects": ["name", "kind", "synonyms", "broader", "value", "trace"],
}
KINDS_OF = {
    "conditions": {"risk", "reaction", "indication"},
    "reactions": {"reaction"},
    "aspects": {"population", "quantity", "subsection"},
}


def rows(file: str) -> list[list[str]]:
    text = files("fdarx_core.generation.terminology").joinpath(f"{file}.tsv").read_text("utf-8")
    return [line.split("\t") for line in text.splitlines()]


@pytest.mark.parametrize("file", FILES)
def test_a_file_has_its_columns_in_every_row_and_no_name_twice(file: str) -> None:
    header, *held = rows(file)
    assert header == FILES[file]
    assert held and all(len(row) == len(header) for row in held)
    names = Counter(row[0] for row in held)
    assert [name for name, count in names.items() if count > 1] == []
    for row in held:
        assert all(cell == cell.strip() for cell in row) and row[0], row[0]
        listed = [names.split("|") for names in row[1 : header.index("broader") + 1] if names]
        assert all(one and one == one.strip() for names in listed for one in names), row[0]


@pytest.mark.parametrize("file", KINDS_OF)
def test_the_kinds_of_a_term_are_those_of_its_file(file: str) -> None:
    for row in rows(file)[1:]:
        uses = set(row[1].replace(" ", "").split(","))
        assert uses and uses <= KINDS_OF[file], row[0]


def test_quantities_alone_have_values_and_all_are_patterns_of_numbers() -> None:
    for term in terms().values():
        assert bool(term.value) == ("quantity" in term.kinds), term.name
        if term.value:
            assert re.compile(term.value) and r"\d" in term.value, term.name


def test_traces_are_patterns_that_no_text_has_without_words() -> None:
    traces = {term.name: re.compile(term.trace) for term in terms().values() if term.trace}
    assert traces and not any(trace.search("") for trace in traces.values())


def test_no_name_stands_for_two_terms_of_one_kind() -> None:
    """A question in which it stood would be about both."""
    for kind in TERM_KINDS:
        of: dict[str, list[str]] = defaultdict(list)
        for term in terms_of(kind):
            for name in term.names:
                of[name].append(term.name)
        assert {name: found for name, found in of.items() if len(found) > 1} == {}, kind


def test_terms_of_a_kind_are_in_order_and_there_are_many() -> None:
    assert {kind for term in terms().values() for kind in term.kinds} == set(TERM_KINDS)
    for kind, least in (("partner", 500), ("risk", 200), ("indication", 200), ("reaction", 300)):
        names = [term.name for term in terms_of(kind)]
        assert names == sorted(names) and len(names) >= least


def test_a_term_of_two_files_has_the_names_and_kinds_of_both() -> None:
    hypertension = terms()["hypertension"]
    assert hypertension.kinds == {"risk", "indication", "reaction"}
    assert not set(hypertension.names) & set(hypertension.wider)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Crohn's  Disease", " crohn disease "),
        ("Crohn’s disease", " crohn disease "),
        ("Sjögren-Syndrom", " sjogren syndrom "),
        ("QT\u2011prolongation (TdP)", " qt prolongation tdp "),
        ("t1/2", " t1 2 "),
        ("(Take 5 mg.)", " take 5 mg "),
        ("", "  "),
    ],
)
def test_folding_leaves_words_in_lower_case(text: str, folded: str) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hypersensitivity reactions", "A Hypersensitivity Reaction was seen."),
        ("beta blockers", "with a beta-blocker"),
        ("lipid-lowering drugs", "a lipid lowering drug"),
        ("lipid-lowering drugs", "a LIPID\u2010LOWERING DRUG"),
        ("hand-foot syndrome", "hand foot syndrome"),
        ("QT prolongation", "QT-prolongation"),
        ("elimination half-life", "The half-lives differ."),
        ("elimination half-life", "a halflife of 3 hours"),
        ("Crohn's disease", "patients with Crohn’s disease"),
        ("Crohn's disease", "patients with Cröhn disease"),
        ("digoxin", "Lanoxin"),
        ("warfarin", "warfarin,"),
        ("warfarin", "(WARFARIN SODIUM)"),
        ("methotrexate", "MTX"),
        ("pancreatitis", "pancreatitis\nwas seen"),
    ],
)
def test_a_term_is_found_in_any_spelling(name: str, text: str) -> None:
    assert SearchableText(text).names_any(terms()[name].names)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("heart failure", "CHFX-12 is a code"),
        ("methotrexate", "the mtxa gene"),
        ("tuberculosis", "stable disease"),
        ("myocardial infarction", "mild and minor cases"),
        ("digoxin", "antidigoxinate"),
        ("NSAIDs", "anti-inflammation nonsteroidal"),
    ],
)
def test_acronyms_are_words_and_names_begin_words(name: str, text: str) -> None:
    assert not SearchableText(text).names_any(terms()[name].names)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rash", "Rashes were seen."),
        ("food", "Some foods delay it."),
        ("pruritus", "Itching was seen."),
        ("dizziness", "Patients felt dizzy."),
        ("hearing loss", "Deafness was seen."),
    ],
)
def test_a_text_that_has_a_short_name_in_another_form_is_not_silent_on_it(name: str, text: str) -> None:
    found, term = SearchableText(text), terms()[name]
    assert found.names_any(term.names) or found.names_any(term.wider)


@given(st.sampled_from(sorted(terms())), st.sampled_from(["", "Take with ", "(", "anti-X, "]), st.text(max_size=20))
def test_every_term_is_found_where_its_name_stands(name: str, before: str, after: str) -> None:
    assert SearchableText(f"{before}{name} {after}").names_any(terms()[name].names)
    assert SearchableText(f"{before}{name.upper()}; {after}").names_any(terms()[name].names)


@given(st.text(max_size=200))
def test_no_text_has_a_name_that_its_folded_form_has_not(text: str) -> None:
    joined = fold(re.sub(r"[\u00ad\u200b\u2010-\u2015\u2212-]", "", text))
    for name in SearchableText(text).names:
        assert name in fold(text) or name in joined


def test_names_are_found_by_their_first_word() -> None:
    assert " warfarin" in names_that_begin("warfarins")
    assert not any("warfarin" in name for name in names_that_begin("war"))


def test_the_terms_are_part_of_the_digest_of_the_rules() -> None:
    """A build of other terms asks its questions anew."""
    assert source_digest("fdarx_core.generation") != source_digest("fdarx_core.generation.topics")
    package = files("fdarx_core.generation.terminology")
    assert all(package.joinpath(f"{file}.tsv").is_file() for file in FILES)
