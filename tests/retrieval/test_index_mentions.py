"""Drugs that a question names, and the labels that a search for it is kept to."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.rag.searching import hits
from fdarx_core.rag.tools import Search
from fdarx_core.records import Chunk
from fdarx_core.retrieval.index import Index, IndexStore, Only
from fdarx_core.retrieval.index.mentions import Mentions

NAMES = ("Velora", "Velora XR", "Ice", "Alpha-Zide 2.5", "VELORA")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What is the dose of velora?", ("Velora", "VELORA")),
        ("Is Velora XR, or alpha zide 2.5, safe?", ("Velora XR", "Alpha-Zide 2.5")),
        ("Is VELORAX safe on ice?", ()),
        ("", ()),
    ],
)
def test_whole_names_are_found(text: str, named: tuple[str, ...]) -> None:
    assert Mentions(NAMES).of(text) == named


@given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=60))
def test_what_is_found_is_a_name_once(names: list[str], text: str) -> None:
    found = Mentions(names).of(text)
    assert set(found) <= set(names) and len(found) == len(set(found))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    store = IndexStore(str(tmp_path))
    told = {"Velora": "Take it once daily.", "Mirapan": "The maximum dose is 50 mg. The dose of Velora is halved."}
    chunks = [Chunk(name, name, name, "", "DOSAGE", text, 0, set_id=name, drug=name) for name, text in told.items()]
    store.commit([store.write_segment(chunks)])
    return Index.open(str(tmp_path))


def drugs(index: Index, question: str, only: Only) -> list[str]:
    [found] = hits(index, [Search(question, 5, True)], only, 5, "bm25", None)
    return [one.chunk.drug for one in found]


def test_a_search_is_kept_to_the_drugs_it_names(index: Index) -> None:
    question = "What is the maximum dose of Velora?"
    assert drugs(index, question, Only()) == ["Velora"]
    assert drugs(index, question, Only(any_drug=True)) == ["Mirapan", "Velora"]
    assert drugs(index, question, Only(drug="Mirapan")) == ["Mirapan"]
    assert drugs(index, question, Only(exclude=("Velora",))) == ["Mirapan"]
    assert set(drugs(index, "Is the dose of Velora that of mirapan?", Only())) == {"Velora", "Mirapan"}
    assert drugs(index, "What is the maximum dose?", Only())[0] == "Mirapan"
