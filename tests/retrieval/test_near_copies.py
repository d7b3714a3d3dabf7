"""Near copies among the labels of a drug, and the sections that questions ask for, through a search."""

from __future__ import annotations

from pathlib import Path

import pytest

from fdarx_core.rag.search import SearchQuery, search_index
from fdarx_core.records import Chunk, LabelVersion, Product, SearchHit
from fdarx_core.retrieval.index import ChunkFilter, IndexReader, IndexStore
from fdarx_core.retrieval.index.near_copies import number_differences

SECTIONS = {
    "34068-7": ("DOSAGE AND ADMINISTRATION", "The recommended dose of {0} is {1} mg by mouth twice daily with food."),
    "34070-3": ("CONTRAINDICATIONS", "{0} is contraindicated in patients with known hypersensitivity to the drug."),
    "34069-5": ("HOW SUPPLIED", "{0} tablets are supplied in bottles of 30 tablets and kept dry, away from light."),
    "43682-4": (
        "PHARMACOKINETICS",
        "Taken by fasted adults {0} is absorbed and has an elimination half-life of 9 hours.",
    ),
}
LABELS = [
    ("old", "VELORA", "veloran", "NDA", "2010-01-01", 5),
    ("new", "VELORA", "veloran", "NDA", "2024-01-01", 10),
    ("generic", "Veloran", "veloran", "ANDA", "2025-01-01", 10),
    *((f"d{at}", f"Other{name}", f"other{name}", "NDA", "2020-01-01", 20) for at, name in enumerate("abcdef")),
]


def index_of(folder: Path, extra: tuple[str, str] = ("", "")) -> IndexReader:
    store = IndexStore(str(folder))
    chunks: list[Chunk] = []
    for set_id, drug, moiety, category, date, dose in LABELS:
        product = Product([drug, moiety], [moiety], [""], [moiety], [""])
        label = LabelVersion(1, date, "", "", [moiety], [""], [product], [category])
        rows = [(code, title, text.format(drug, dose)) for code, (title, text) in SECTIONS.items()]
        rows += [("34068-7", "DOSAGE AND ADMINISTRATION > Data", "Data")]
        rows += [("34068-7", "DOSAGE AND ADMINISTRATION", extra[1])] if set_id == extra[0] else []
        for at, (code, title, text) in enumerate(rows):
            own = None if at else label
            chunks.append(Chunk(f"{set_id}-{at}", set_id, drug, "", title, text, at, -1, set_id, drug, code, own))
    store.commit([store.write_segment(chunks)])
    return IndexReader.open(str(folder))


@pytest.fixture
def index(tmp_path: Path) -> IndexReader:
    return index_of(tmp_path)


def search(index: IndexReader, question: str, only: ChunkFilter | None = None) -> list[SearchHit]:
    return search_index(index, [SearchQuery(question, 6, True)], only or ChunkFilter(), 6, "bm25", None)[0]


def test_labels_of_a_drug_give_each_passage_once_from_the_reference_label(index: IndexReader) -> None:
    hits = search(index, "What is the recommended dose of VELORA, and how is VELORA supplied?")
    assert [hit.set_id for hit in hits] == ["new"] * 4
    assert len({hit.section for hit in hits}) == 4
    dose = hits[0]
    assert dose.text.endswith("is 10 mg by mouth twice daily with food.")
    assert dose.copies == 2
    assert [(one.set_id, one.drug, one.effective_date) for one in dose.copied_by] == [
        ("generic", "Veloran", "2025-01-01"),
        ("old", "VELORA", "2010-01-01"),
    ]


def test_a_hit_lists_the_labels_that_have_another_number(index: IndexReader) -> None:
    dose, *others = search(index, "What is the recommended dose of VELORA?")
    [difference] = dose.differences
    assert "10 mg" in difference.sentence
    assert [(one.set_id, one.effective_date) for one in difference.others] == [("old", "2010-01-01")]
    assert "5 mg" in difference.others[0].sentence
    assert not any(hit.differences for hit in others)


def test_a_filter_chooses_among_the_labels_that_pass_it(index: IndexReader) -> None:
    assert {hit.set_id for hit in search(index, "dose of veloran", ChunkFilter(set_id="old"))} == {"old"}
    assert {hit.set_id for hit in search(index, "dose of veloran", ChunkFilter(exclude=("new",)))} == {"old"}


def test_both_passages_of_one_label_stay(tmp_path: Path) -> None:
    text = SECTIONS["34068-7"][1].format("VELORA", 7)
    hits = search(index_of(tmp_path, ("new", text)), "recommended dose of veloran")
    assert [hit.text for hit in hits if hit.section.startswith("DOSAGE")] == [text.replace("7 mg", "10 mg"), text]


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("When is veloran contraindicated?", "34070-3"),
        ("What is the dose of veloran?", "34068-7"),
        ("How is veloran supplied?", "34069-5"),
        ("What is the half-life of veloran?", "43682-4"),
        ("Which contraindications does veloran have?", "34070-3"),
    ],
)
def test_a_question_finds_the_section_that_it_asks_for(index: IndexReader, question: str, code: str) -> None:
    assert search(index, question)[0].section_code == code


def test_the_best_passage_of_each_drug_comes_first_where_that_is_asked_for(index: IndexReader) -> None:
    hits = search(index, "Which labels are contraindicated in known hypersensitivity?", ChunkFilter(each_drug=True))
    assert len({hit.moieties[0] for hit in hits}) == 6
    assert {hit.section_code for hit in hits} == {"34070-3"}
    only = ChunkFilter(set_id="old")
    assert {hit.set_id for hit in search(index, "Which are contraindicated in hypersensitivity?", only)} == {"old"}


def test_a_heading_is_no_passage(index: IndexReader) -> None:
    assert "Data" not in [hit.text for hit in search(index, "What data are there on veloran?")]


@pytest.mark.parametrize(
    ("text", "other", "found"),
    [
        ("Take no more than 1,200 mg a day.", "Take no more than 1200 mg a day.", []),
        (
            "The dose for most adults is 5 mg.",
            "The dose for most adults is 10 mg.",
            ["The dose for most adults is 10 mg."],
        ),
        ("The dose for most adults is 5 mg (2.1).", "The dose for most adults is 5 mg [see Dosage (2.3)].", []),
        ("Table 3 shows the mean of 5 adults.", "Table 4 shows the mean of 5 adults.", []),
        ("The dose for most adults is 5 mg.", "The dose for most infants is 10 mg.", []),
        ("No more.", "No more than 3.", []),
    ],
)
def test_numbers_are_compared_within_the_same_sentence(text: str, other: str, found: list[str]) -> None:
    assert [also for _, also in number_differences(text, other)] == found
