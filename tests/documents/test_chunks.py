"""Chunks of documents and labels."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fdarx_core.documents.chunks import chunk_document, find_documents, read_documents, split_text
from fdarx_core.documents.labels import chunk_label, is_benchmark, read_label_chunks
from fdarx_core.records import Chunk, Document, Label, Passage
from fdarx_core.storage import RunDirectory, StorageError, write_records


def document(text: str, breaks: list[int] | None = None) -> Document:
    return Document("d1", "A title", "a.txt", text, breaks or [])


def passage(set_id: str, index: int) -> Passage:
    return Passage(set_id, index, 0, "34067-9", "34067-9", "1", "USES", "USES > Adults", f"Text {index} of {set_id}.")


def label(set_id: str, drug: str) -> Label:
    lists: list[list[str]] = [[] for _ in range(8)]
    aliases, substances, uniis, routes, forms, ndcs, marketing, applications = lists
    return Label(
        set_id, 1, "2024-01-01", "34391-3", "HUMAN PRESCRIPTION DRUG LABEL", drug, drug, aliases, substances, uniis,
        routes, forms, "Maker", ndcs, marketing, applications, "", [], [], f"labels.zip!{set_id}.xml",
    )  # fmt: skip


def build(root: Path, drugs: dict[str, str]) -> RunDirectory:
    run = RunDirectory.begin(str(root), job="build_benchmark", config={}, versions={})
    write_records(run.part("labels", 0), [label(set_id, drug) for set_id, drug in drugs.items()], Label)
    write_records(run.part("passages", 0), [passage(set_id, index) for set_id in drugs for index in (0, 1)], Passage)
    return run


def test_a_chunk_says_where_it_stands() -> None:
    text = "\n\n".join(f"Paragraph {number} says something." for number in range(30))
    chunks = chunk_document(document(text), 200, 40)
    assert len(chunks) > 4
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert all(text[chunk.start : chunk.start + len(chunk.text)] == chunk.text for chunk in chunks)
    assert {(c.document_id, c.title, c.source, c.section, c.set_id, c.drug) for c in chunks} == {
        ("d1", "A title", "a.txt", "", "", "")
    }
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    assert chunk_document(document(text), 200, 40) == chunks


@given(st.lists(st.text("ab \n", min_size=1, max_size=80).map(lambda text: f"x{text}x"), min_size=1, max_size=6))
def test_no_chunk_crosses_a_break(pieces: list[str]) -> None:
    starts = [sum(len(piece) + 2 for piece in pieces[:number]) for number in range(len(pieces))]
    chunks = chunk_document(document("\n\n".join(pieces), starts[1:]), 30, 10)
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    ends = [start + len(piece) for start, piece in zip(starts, pieces, strict=True)]
    spans = list(zip(starts, ends, strict=True))
    for chunk in chunks:
        assert any(start <= chunk.start and chunk.start + len(chunk.text) <= end for start, end in spans)
    assert set(starts) <= {chunk.start for chunk in chunks}


def test_passages_of_a_label() -> None:
    (first, _) = chunk_label([passage("s1", 3), passage("s1", 4)], drug="NOVOTAB", source="a.xml")
    assert first == Chunk(
        first.id,
        "s1",
        "NOVOTAB",
        "a.xml",
        "USES > Adults",
        "Text 3 of s1.",
        3,
        set_id="s1",
        drug="NOVOTAB",
        section_code="34067-9",
        section_number="1",
    )
    assert chunk_label([passage("s1", 3)], drug="")[0].title == "s1"


def test_labels_of_a_finished_build(tmp_path: Path) -> None:
    run = build(tmp_path / "run", {"s1": "NOVOTAB", "s2": "ZELUVA"})
    run.finish({})
    labels = list(read_label_chunks(str(run.root)))
    assert [[(chunk.drug, chunk.position) for chunk in chunks] for chunks in labels] == [
        [("NOVOTAB", 0), ("NOVOTAB", 1)],
        [("ZELUVA", 0), ("ZELUVA", 1)],
    ]
    assert (labels[0][0].source, labels[0][0].section) == ("labels.zip!s1.xml", "USES > Adults")
    assert is_benchmark(str(run.root))


def test_labels_as_others_publish_them(tmp_path: Path) -> None:
    chunks = [{"doc_chunk_index": index, "section_title": "USES", "text": f"Text {index}."} for index in (0, 1)]
    named = {"set_id": "s1", "drug_name": "NOVOTAB"}
    (tmp_path / "labels.jsonl").write_bytes(orjson.dumps({**named, "chunks": chunks}))
    asked = {"task": "refusal", "question": "What is it?", "answer": "Information not found!", "qid": "q1"}
    (tmp_path / "qa.jsonl").write_bytes(orjson.dumps({**named, **asked}))
    ((first, second),) = read_label_chunks(str(tmp_path))
    assert (first.drug, first.section, first.text, first.set_id) == ("NOVOTAB", "USES", "Text 0.", "s1")
    assert (second.position, second.source) == (1, str(tmp_path))
    assert is_benchmark(str(tmp_path))
    assert not is_benchmark(str(tmp_path.parent))


def test_runs_that_cannot_be_read(tmp_path: Path) -> None:
    build(tmp_path / "half", {"s1": "NOVOTAB"})
    RunDirectory.begin(str(tmp_path / "other"), job="evaluate", config={}, versions={}).finish({})
    for name, said in {"half": "unfinished build", "other": "run of evaluate", "gone": "nothing at"}.items():
        with pytest.raises(StorageError, match=said):
            read_label_chunks(str(tmp_path / name))


def test_the_real_guidelines_keep_their_chunks() -> None:
    real_guidelines = Path(os.environ.get("FDARX_DATA", "../shared/data")) / "guidelines" / "chunks.jsonl"
    if not real_guidelines.exists():
        pytest.skip("the real guidelines are not here; FDARX_DATA says where")
    rows = [orjson.loads(line) for line in real_guidelines.read_bytes().splitlines()]
    documents = list(read_documents(find_documents([str(real_guidelines)])))
    chunks = [chunk for one in documents if isinstance(one, Document) for chunk in chunk_document(one)]
    assert [(chunk.title, chunk.text) for chunk in chunks] == [(row["title"], row["text"]) for row in rows]
    assert (len(documents), len(chunks), len({chunk.id for chunk in chunks})) == (447, 940, 940)
    assert len({chunk.document_id for chunk in chunks}) == len({chunk.title for chunk in chunks}) == 447
    assert max(chunk.position for chunk in chunks) > 5


WORDS = st.lists(
    st.tuples(
        st.text("abcé中.!?)\"'", min_size=1, max_size=12),
        st.sampled_from([" ", " ", "\n", "\n\n", " \n \n", "\t", "\xa0"]),
    ),
    max_size=120,
)
TEXTS = WORDS.map(lambda words: "".join(word + space for word, space in words))
SIZES = st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@given(TEXTS | st.text(max_size=300), SIZES)
@example("a" * 50, (10, 9))
@example("a " + "b" * 30 + " c", (10, 5))
@example("\u3000", (1, 0))
def test_every_word_stands_in_a_piece_whole_and_in_order(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    pieces = split_text(text, size, overlap)
    covered: set[int] = set()
    for start, piece in pieces:
        assert piece == text[start : start + len(piece)] == piece.strip()
        assert 0 < len(piece) <= size
        covered.update(range(start, start + len(piece)))
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)
    for (start, piece), (following, after) in pairwise(pieces):
        assert start < following
        assert start + len(piece) < following + len(after)
        assert start + len(piece) - following <= overlap
    for found in re.finditer(r"(?<!\S)[a-z]+(?!\S)", text):
        if len(found[0]) <= size:
            inside = [place for start, piece in pieces for place in (start, start + len(piece))]
            assert not any(found.start() < place < found.end() for place in inside)


@given(TEXTS, SIZES)
def test_neighbours_share_about_the_overlap(text: str, sizes: tuple[int, int]) -> None:
    """Less only by the leeway, by the word that would be broken, and by room that the next word needs."""
    size, overlap = sizes
    longest = max(map(len, text.split()), default=0)
    pieces = split_text(text, size, overlap)
    for (start, piece), (following, _) in pairwise(pieces):
        end = start + len(piece)
        room = size - longest - _widest(text)
        assert end - following >= min(overlap, room, len(piece)) - overlap // 10 - longest - _widest(text)


def _widest(text: str) -> int:
    return max((len(found) for found in re.findall(r"\s+", text)), default=0)


def test_a_text_that_fits_is_one_piece() -> None:
    assert split_text("  all of it\n", 9, 2) == [(2, "all of it")]
    assert split_text(" \n ", 9, 2) == []
    assert split_text("", 9, 2) == []


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("word " * 18 + "end\n\nmore.\nlast. So on " + "word " * 30, "end"),
        ("word " * 18 + "end\nmore last. So on " + "word " * 30, "end"),
        ("word " * 18 + "end. So on it goes " + "word " * 30, "end."),
        ("word " * 18 + 'end.") So on it goes ' + "word " * 30, 'end.")'),
    ],
    ids=["paragraph", "line", "sentence", "closing marks"],
)
def test_ends_where_it_reads_best_if_that_costs_little(text: str, ending: str) -> None:
    assert split_text(text, 100, 20)[0][1].split()[-1] == ending


def test_goes_on_from_a_line_that_begins_within_the_overlap() -> None:
    text = "\n".join(f"line {number:03d} of the text" for number in range(400))
    pieces = split_text(text, 1000, 300)
    assert all(re.match(r"line \d{3} of the text", piece) for _, piece in pieces)
    assert all(piece.endswith("the text") for _, piece in pieces)


def test_text_without_spaces_is_cut_with_the_whole_overlap() -> None:
    assert split_text("abcdefghij", 4, 2) == [(0, "abcd"), (2, "cdef"), (4, "efgh"), (6, "ghij")]


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (-1, 0), (10, 10), (10, -1), (10, 11)])
def test_sizes_that_cannot_be(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=f"size {size} with overlap {overlap}: .* less than"):
        split_text("any text", size, overlap)


def test_a_chunk_knows_the_pages_of_its_text() -> None:
    text = "first page\n\nsecond page\n\nthird"
    document = Document("d1", "A title", "a.pdf", text, pages=[0, 12, 25, 25])
    [whole] = chunk_document(document)
    assert [whole.page_at(text.index(word)) for word in ("first", "second", "third")] == [1, 2, 4]
    pieces = chunk_document(document, size=13, overlap=0)
    assert [(one.text, one.page) for one in pieces] == [("first page", 1), ("second page", 2), ("third", 4)]
    assert chunk_document(Document("d2", "A title", "a.txt", text))[0].page_at(20) == 0


@pytest.mark.parametrize(
    ("above", "header"),
    [
        ("Table 1. Doses\n| Age | Dose |\n|---|:--|\n", "Table 1. Doses\n| Age | Dose |"),
        ("Text.\n\n| Age | Dose |\n| --- | --- |\n", "| Age | Dose |"),
        ("Text.\nTable 2\n", "Table 2"),
        ("Text.\n\n", ""),
    ],
)
def test_chunks_of_a_long_table_have_its_header(above: str, header: str) -> None:
    rows = "\n".join(f"| {age} years | {age * 5} mg |" for age in range(60))
    text = f"{above}{rows}\n\nWhat follows is no table. {'More text. ' * 40}"
    first, *others = chunk_document(Document("d", "Doses", "a.md", text, [], []), 200, 40)
    inner = [chunk for chunk in others if chunk.text.startswith("|") and chunk.start > len(above)]
    assert len(inner) > 3
    assert {chunk.table_header for chunk in inner} == {header}
    assert first.table_header == "" and others[-1].table_header == ""
