"""Looking up sections of labels by code, number and title."""

from __future__ import annotations

import pytest

from fdarx_core.records import Chunk, LabelVersion, Product
from fdarx_core.retrieval.index import IndexReader, IndexStore, find_section

SECTIONS = (
    ("34066-1", "", ""),
    ("34068-7", "2.1", "DOSAGE AND ADMINISTRATION > Adults"),
    ("34068-7", "2.10", "DOSAGE AND ADMINISTRATION > Children"),
    ("42228-7", "8.1", "USE IN SPECIFIC POPULATIONS > Pregnancy"),
    ("34081-0", "8.4", "USE IN SPECIFIC POPULATIONS > Pediatric Use"),
)


def label(
    set_id: str, drug: str, moiety: str, date: str, sections: tuple[tuple[str, str, str], ...] = SECTIONS
) -> list[Chunk]:
    version = LabelVersion(
        3, date, moieties=[moiety], uniis=[moiety.upper()], products=[Product([drug], [moiety], ["S"], [moiety], ["U"])]
    )
    return [
        Chunk(
            f"{set_id}{n}",
            set_id,
            drug,
            "z",
            path,
            f"text {n}",
            n,
            -1,
            set_id,
            drug,
            code,
            version,
            section_number=number,
        )
        for n, (code, number, path) in enumerate(sections)
    ]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> IndexReader:
    store = IndexStore(str(tmp_path_factory.mktemp("index")))
    labels = [
        *label("brand", "Velocimab", "zentrotide", "2020-01-01"),
        *label("old", "Zentrotide", "zentrotide", "2019-01-01"),
        *label("new", "Zentrotide tablets", "zentrotide", "2024-01-01"),
        *label("newest", "Zentrotide", "zentrotide", "2025-01-01", SECTIONS[:1]),
    ]
    store.commit([store.write_segment(labels)])
    return IndexReader.open(store.place)


@pytest.mark.parametrize(
    ("section", "chunks"),
    [
        ("34066-1", [0]),
        ("Boxed warning", [0]),
        ("34068-7", [1, 2]),
        ("Dosage and  Administration", [1, 2]),
        ("children", [2]),
        ("43684-0", [3, 4]),
        ("Use in specific populations", [3, 4]),
        ("PREGNANCY", [3]),
        ("42228-7", [3]),
        ("2", [1, 2]),
        ("2.1", [1]),
        ("2.10", [2]),
        ("8.4.", [4]),
        ("1", []),
        ("Dosage", []),
        ("", []),
    ],
)
def test_section_by_code_number_or_whole_title(table: IndexReader, section: str, chunks: list[int]) -> None:
    assert [chunk.position for chunk in find_section(table, "brand", section).chunks] == chunks


@pytest.mark.parametrize(
    ("name", "set_id", "labels"),
    [
        ("Velocimab", "brand", 1),
        ("velocimab", "brand", 1),
        ("zentrotide", "new", 4),
        ("Zentrotid", "new", 4),
        ("Zentrotide tablets", "new", 1),
        ("old", "old", 1),
    ],
)
def test_newest_label_with_the_section(table: IndexReader, name: str, set_id: str, labels: int) -> None:
    found = find_section(table, name, "Pregnancy")
    assert ({chunk.set_id for chunk in found.chunks}, found.labels) == ({set_id}, labels)


def test_what_there_is_where_nothing_is_found(table: IndexReader) -> None:
    unknown = find_section(table, "nothing", "Pregnancy")
    assert (unknown.chunks, unknown.labels, unknown.sections) == ([], 0, [])
    found = find_section(table, "brand", "Overdosage")
    assert found.labels == 1 and not found.chunks
    assert found.sections == ["Boxed warning", "DOSAGE AND ADMINISTRATION", "USE IN SPECIFIC POPULATIONS"]
