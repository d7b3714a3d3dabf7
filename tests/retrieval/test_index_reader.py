"""Searching an index against plain numpy and rank-bm25, with and without filters, and the drugs that queries name."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from fdarx_core.rag.search import SearchQuery, search_index
from fdarx_core.records import Chunk, LabelVersion, Product
from fdarx_core.retrieval.encoders import EncoderInfo, WindowVectors
from fdarx_core.retrieval.index import ChunkFilter, IndexReader, IndexStore
from fdarx_core.retrieval.index.label_drugs import NameCompleter, NameCompletion
from fdarx_core.retrieval.lexical import RankedList, tokenize
from fdarx_core.retrieval.retrievers import DENSE_WEIGHT, FUSION_DEPTH, Collection, Queries, fuse, get_retriever
from fdarx_core.storage import StorageError
from tests.retrieval.index_chunks import ENCODER, document, embed, label

WORDS = ["dose", "mg", "renal", "the", "of", "5"]
few_words = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
coordinates = st.integers(-3, 3).map(float)

LABELS = [
    *label("s1", "Aspirin", [("1 USES", "pain relief"), ("2 DOSE", "one tablet"), ("1 USES", "fever")]),
    *label("s2", "IBUPROFEN  Tablets", [("1 USES", "pain and fever"), ("2 DOSE", "two tablets")]),
    *document("g", ["stability testing", "of tablets", "in clinical trials", "and pain"], title="Stability of Tablets"),
    *document("h", ["a trial"], title="Adaptive designs"),
]


def opened(folder: Path | str, chunks: list[Chunk]) -> IndexReader:
    store = IndexStore(str(folder))
    store.commit([store.write_segment(chunks, embed(chunks), ENCODER)])
    return IndexReader.open(str(folder))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> IndexReader:
    return opened(tmp_path_factory.mktemp("labels"), LABELS)


def nearest(vectors: WindowVectors, question: np.ndarray, k: int, allowed: np.ndarray) -> RankedList:
    """The chunks by the inner product of their best windows."""
    of_windows = (vectors.rows.astype(np.float64) @ question.astype(np.float64)).astype(np.float32)
    scores = [max(own) for own in np.split(of_windows, np.cumsum(vectors.counts)[:-1])]
    order = sorted(np.flatnonzero(allowed).tolist(), key=lambda position: (-scores[position], position))
    return [(position, float(scores[position])) for position in order[:k]]


@given(st.data())
def test_cosine_is_the_exact_top_k_of_the_inner_product(data: st.DataObject) -> None:
    """Whole numbers, so that ties are many."""
    counts = np.array(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=40)))
    row, windows = st.lists(coordinates, min_size=3, max_size=3), int(counts.sum())
    rows = np.array(data.draw(st.lists(row, min_size=windows, max_size=windows)), np.float32)
    vectors = WindowVectors(rows, counts)
    asked = np.array(data.draw(st.lists(st.lists(coordinates, min_size=3, max_size=3), min_size=1, max_size=30)))
    dropped = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=30))
    k = data.draw(st.integers(1, 50))
    chunks = [chunk for at in range(len(counts)) for chunk in document(f"d{at}", [f"{at}"])]
    with tempfile.TemporaryDirectory() as folder:
        store = IndexStore(folder)
        encoder = EncoderInfo("whole", "1", 3, normalised=False)
        store.commit([store.write_segment(chunks, vectors, encoder)])
        index = IndexReader.open(folder)
    only = ChunkFilter(exclude=tuple(f"d{at}" for at in dropped))
    allowed = np.ones(len(counts), bool)
    allowed[dropped] = False
    assert np.array_equal(index.matching(only), allowed)
    found = index.search(
        [""] * len(asked), k, retriever="cosine", vectors=asked.astype(np.float32), within=index.matching(only)
    )
    assert found == [nearest(vectors, question, k, allowed) for question in asked]


@given(
    st.lists(few_words, min_size=1, max_size=12).filter(any),
    st.lists(few_words, min_size=1, max_size=4),
    st.integers(1, 14),
    st.data(),
)
def test_bm25_finds_what_shares_a_word_with_the_scores_of_rank_bm25(
    texts: list[str], queries: list[str], k: int, data: st.DataObject
) -> None:
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
    reference = BM25Okapi([tokenize(text) for text in texts])
    expected = []
    for query in queries:
        scores = reference.get_scores(tokenize(query)).tolist()
        shares = [bool(set(tokenize(query)) & set(tokenize(text))) for text in texts]
        among = [position for position in range(len(texts)) if shares[position] and allowed[position]]
        ranked = sorted(among, key=lambda position: (-scores[position], position))[:k]
        expected.append([(position, scores[position]) for position in ranked])
    collection = Collection(texts, matching_only=True)
    assert get_retriever("bm25").rank(Queries(queries), collection, k, allowed) == expected


def test_title_and_section_are_searched_as_the_text_is(index: IndexReader) -> None:
    [aspirin, dose] = index.search(["ASPIRIN!", "dose"], 10)
    assert sorted(position for position, _ in aspirin) == [0, 1, 2]
    assert sorted(position for position, _ in dose) == [1, 4]
    assert index.search(["unheard", ""], 10) == [[], []]


def test_hybrid_fuses_both_rankings_under_the_filter(index: IndexReader) -> None:
    only = ChunkFilter(exclude=("s1",))
    vectors = embed(LABELS[3:5]).rows
    words = index.search(["tablets", "fever"], FUSION_DEPTH, within=index.matching(only))
    near = index.search(["", ""], FUSION_DEPTH, retriever="cosine", vectors=vectors, within=index.matching(only))
    found = index.search(["tablets", "fever"], 4, retriever="hybrid", vectors=vectors, within=index.matching(only))
    assert found == [fuse(pair, 4, (1.0, DENSE_WEIGHT)) for pair in zip(words, near, strict=True)]
    assert all(position > 2 for ranked in found for position, _ in ranked)


@pytest.mark.parametrize(
    ("only", "positions"),
    [
        (ChunkFilter(), range(10)),
        (ChunkFilter(drug=" ibuprofen tablets "), [3, 4]),
        (ChunkFilter(drug="ibuprofen"), []),
        (ChunkFilter(set_id="s1"), [0, 1, 2]),
        (ChunkFilter(set_id="S1"), []),
        (ChunkFilter(title="STABILITY of\ttablets"), [5, 6, 7, 8]),
        (ChunkFilter(drug="aspirin", set_id="s2"), []),
        (ChunkFilter(exclude=("s1", "stability of tablets")), [3, 4, 9]),
        (ChunkFilter(exclude=("labels.zip",)), [5, 6, 7, 8, 9]),
        (ChunkFilter(exclude=("h.txt", "unknown", "")), range(9)),
        (ChunkFilter(drug="aspirin", exclude=("aspirin",)), []),
    ],
)
def test_filters(index: IndexReader, only: ChunkFilter, positions: list[int]) -> None:
    assert np.flatnonzero(index.matching(only)).tolist() == list(positions)
    [near] = index.search([""], 20, retriever="cosine", vectors=embed(LABELS[:1]).rows, within=index.matching(only))
    assert sorted(position for position, _ in near) == list(positions)
    [words] = index.search(["pain"], 20, within=index.matching(only))
    assert sorted(position for position, _ in words) == sorted({0, 3, 8} & set(positions))


def test_chunks_and_what_they_stand_in(index: IndexReader) -> None:
    assert [index.chunk(position) for position in range(len(index))] == LABELS
    assert index.find("s2-1") == 4
    assert index.find("none") is None
    assert index.around(1) == LABELS[0:3]
    assert index.around(2) == [LABELS[0], LABELS[2]]
    assert index.around(5) == LABELS[5:7]
    assert index.around(7) == LABELS[6:9]
    assert index.around(9) == [LABELS[9]]
    with pytest.raises(IndexError):
        index.chunk(len(LABELS))


def test_names_that_begin_so_come_before_those_that_hold_it(index: IndexReader) -> None:
    def names(prefix: str, limit: int) -> list[str]:
        return [one.name for one in index.names(prefix, limit)]

    assert names("", 10) == ["Adaptive designs", "Aspirin", "IBUPROFEN  Tablets", "Stability of Tablets"]
    assert names("A", 10) == ["Adaptive designs", "Aspirin", "IBUPROFEN  Tablets", "Stability of Tablets"]
    assert names("as", 10) == ["Aspirin"]
    assert names("tab", 10) == ["IBUPROFEN  Tablets", "Stability of Tablets"]
    assert names("s", 1) == ["Stability of Tablets"]
    assert names("zz", 10) == []
    assert names("a", 0) == []


def test_drugs_are_completed_by_any_of_their_names() -> None:
    eliquis = LabelVersion(moieties=["APIXABAN"], products=[Product(["Eliquis"], ["APIXABAN"], [""], ["APIXABAN"])])
    glucophage = LabelVersion(
        moieties=["METFORMIN"], products=[Product(["Glucophage XR"], ["METFORMIN HYDROCHLORIDE"], [""], ["METFORMIN"])]
    )
    rows = [
        ("Eliquis", eliquis),
        ("ELIQUIS", eliquis),
        ("Metformin  Hydrochloride", glucophage),
        ("Apixaban guide", None),
    ]
    found = NameCompleter(rows).complete
    assert found("apix", 5) == [NameCompletion("Apixaban guide"), NameCompletion("Eliquis", "apixaban", True)]
    assert (
        found("xr", 5)
        == found("met", 5)
        == found("hydro", 5)
        == [NameCompletion("Metformin  Hydrochloride", of_drug=True)]
    )
    assert found("guide", 5) == [NameCompletion("Apixaban guide")] and found("none", 5) == []


def test_threads_share_an_index(index: IndexReader) -> None:
    vectors = embed(LABELS).rows

    def ask(at: int) -> list[RankedList]:
        return index.search(
            ["pain"],
            5,
            retriever="hybrid",
            vectors=vectors[at : at + 1],
            within=index.matching(ChunkFilter(exclude=("h",))),
        )

    alone = [ask(at) for at in range(10)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, list(range(10)) * 20)) == alone * 20


def test_what_can_not_be_asked(index: IndexReader) -> None:
    with pytest.raises(ValueError, match="no retriever 'dense' here; there are bm25, tfidf, cosine, hybrid"):
        index.search(["a"], 3, retriever="dense")
    with pytest.raises(ValueError, match="k is 0"):
        index.search(["a"], 0)
    with pytest.raises(ValueError, match=r"1 texts need vectors of shape \(1, 8\), and have none"):
        index.search(["a"], 3, retriever="cosine")
    with pytest.raises(ValueError, match=r"have vectors of shape \(2, 8\).*hashing"):
        index.search(["a"], 3, retriever="hybrid", vectors=embed(LABELS[:2]).rows)
    with pytest.raises(ValueError, match="not numbers"):
        index.search(["a"], 3, retriever="cosine", vectors=np.full((1, 8), np.nan, np.float32))


def test_the_encoder_must_be_the_one_that_made_the_index(index: IndexReader) -> None:
    index.check_encoder(EncoderInfo("moved elsewhere", "f00d", 8, "query: "))
    with pytest.raises(StorageError, match=r"made with hashing \(8 dimensions, fingerprint f00d\), not with hashing"):
        index.check_encoder(EncoderInfo("hashing", "f00e", 8))


def test_without_vectors_words_alone_are_searched(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    store.commit([store.write_segment(LABELS)])
    index = IndexReader.open(str(tmp_path))
    assert index.retrievers == ("bm25", "tfidf")
    assert "built without an embedding model" in index.notice
    with pytest.raises(ValueError, match=r"there are bm25, tfidf .*built without an embedding model"):
        index.search(["a"], 3, retriever="cosine")
    with pytest.raises(StorageError, match="made with no embedding model"):
        index.check_encoder(ENCODER)


def test_without_faiss_words_alone_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(tmp_path, LABELS).notice == ""
    monkeypatch.setitem(sys.modules, "faiss", None)
    index = IndexReader.open(str(tmp_path))
    assert index.retrievers == ("bm25", "tfidf")
    assert "FAISS is not installed" in index.notice
    assert "pip install 'fdarx[models,faiss]'" in index.notice
    assert sorted(position for position, _ in index.search(["aspirin"], 3)[0]) == [0, 1, 2]


@pytest.fixture
def two_drugs(tmp_path: Path) -> IndexReader:
    store = IndexStore(str(tmp_path))
    told = {"Velora": "Take it once daily.", "Mirapan": "The maximum dose is 50 mg. The dose of Velora is halved."}
    chunks = [Chunk(name, name, name, "", "DOSAGE", text, 0, set_id=name, drug=name) for name, text in told.items()]
    store.commit([store.write_segment(chunks)])
    return IndexReader.open(str(tmp_path))


def drugs(two_drugs: IndexReader, question: str, only: ChunkFilter) -> list[str]:
    [found] = search_index(two_drugs, [SearchQuery(question, 5, True)], only, 5, "bm25", None)
    return [one.chunk.drug for one in found]


def test_a_search_is_kept_to_the_drugs_it_names(two_drugs: IndexReader) -> None:
    question = "What is the maximum dose of Velora?"
    assert drugs(two_drugs, question, ChunkFilter()) == ["Velora"]
    assert drugs(two_drugs, question, ChunkFilter(any_drug=True)) == ["Mirapan", "Velora"]
    assert drugs(two_drugs, question, ChunkFilter(drug="Mirapan")) == ["Mirapan"]
    assert drugs(two_drugs, question, ChunkFilter(exclude=("Velora",))) == ["Mirapan"]
    assert set(drugs(two_drugs, "Is the dose of Velora that of mirapan?", ChunkFilter())) == {"Velora", "Mirapan"}
    assert drugs(two_drugs, "What is the maximum dose?", ChunkFilter())[0] == "Mirapan"


@pytest.mark.parametrize(
    ("question", "found"),
    [("What is the maximum dose?", {"Mirapan", "Velora"}), ("What is the maximum dose of Mirapan?", {"Mirapan"})],
)
def test_drugs_that_only_another_text_than_the_question_names_are_no_filter(
    two_drugs: IndexReader, question: str, found: set[str]
) -> None:
    query = SearchQuery("The maximum dose of Velora is 20 mg once daily.", 5, False, question)
    [hits] = search_index(two_drugs, [query], ChunkFilter(), 5, "bm25", None)
    assert {hit.drug for hit in hits} == found


@pytest.fixture
def real_names(tmp_path: Path) -> IndexReader:
    """An index of labels of apixaban, of two combinations of ibuprofen, and of its sodium salt."""

    def label(set_id: str, name: str, *ingredients: tuple[str, str]) -> Chunk:
        substances, moieties = [one for one, _ in ingredients], [one for _, one in ingredients]
        blank = [""] * len(ingredients)
        products = [Product([name], substances, blank, moieties, blank)]
        version = LabelVersion(7, "2026-04-24", "34391-3", "Maker", moieties, blank, products)
        labeler = {"3": "a company of pharmacies"}.get(set_id, "its maker")
        text = f"The dose of {name} stands in label {set_id}, which {labeler} made."
        return Chunk(set_id, set_id, name, "", "DOSAGE", text, 0, -1, set_id, name, "34068-7", label=version)

    labels = [
        label("1", "ELIQUIS", ("APIXABAN", "APIXABAN")),
        label("2", "DUEXIS", ("IBUPROFEN", "IBUPROFEN"), ("FAMOTIDINE", "FAMOTIDINE")),
        label("3", "Aleve", ("NAPROXEN SODIUM", "NAPROXEN")),
        label("4", "Naproxen Sodium", ("NAPROXEN SODIUM", "NAPROXEN")),
    ]
    store = IndexStore(str(tmp_path))
    more = [Chunk("1b", "1", "ELIQUIS", "", "DOSAGE", "More on the dose.", 1, -1, "1", "ELIQUIS", "34068-7")]
    store.commit([store.write_segment([labels[0], *more, *labels[1:]])])
    return IndexReader.open(str(tmp_path))


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What is the dose of apixaban?", ["ELIQUIS"]),
        ("What is the dose of apixban?", ["ELIQUIS"]),
        ("What is the dose of ibuprofen?", ["DUEXIS"]),
        ("What is the dose of naproxen?", ["Aleve", "Naproxen Sodium"]),
        ("What is the dose of Aleve?", ["Aleve"]),
        ("What is the dose of Aleve (naproxen)?", ["Aleve"]),
        ("What is the dose of ibuprofen and famotidine?", ["DUEXIS"]),
        ("What is the dose of ibuprofen/famotidine and of naproxen?", ["Aleve", "DUEXIS", "Naproxen Sodium"]),
        ("Is the dose of Aleve that of ibuprofen / extended-release famotidine?", ["Aleve", "DUEXIS"]),
        ("What is the dose of naproxen/apixaban?", ["Aleve", "ELIQUIS", "Naproxen Sodium"]),
        ("Is the dose of Eliquis that of naproxen sodium?", ["Aleve", "ELIQUIS", "Naproxen Sodium"]),
    ],
)
def test_a_drug_is_found_by_any_of_its_names(real_names: IndexReader, question: str, found: list[str]) -> None:
    assert sorted({*drugs(real_names, question, ChunkFilter())}) == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Cortrophin gel", {"Purified Cortrophin Gel"}),
        ("cortrophin", {"Purified Cortrophin Gel"}),
        ("Gel, Cortrophin (purified)", {"Purified Cortrophin Gel"}),
        ("Acthar", {"Acthar Gel"}),
        ("corticotropin gel", {"Acthar Gel", "Purified Cortrophin Gel"}),
        ("new Velora tablets", {"New Velora XR"}),
        ("gel", {"Acthar Gel", "New Velora XR", "Purified Cortrophin Gel", "Voltaren Gel"}),
        ("purified", {"Acthar Gel", "New Velora XR", "Purified Cortrophin Gel", "Voltaren Gel"}),
    ],
)
def test_a_part_of_a_products_name_finds_the_product_where_it_is_of_one_drug(
    tmp_path: Path, name: str, found: set[str]
) -> None:
    def label(set_id: str, name: str, substance: str) -> Chunk:
        version = LabelVersion(1, "2026-04-24", "34391-3", "Maker", [substance], [""], [_product(name, substance)])
        own_words = " ".join("abcdef"[int(set_id)] * length for length in range(3, 30))
        text = f"{name} is a dose of a purified gel. {name.upper()} is given once. {own_words}"
        return Chunk(set_id, set_id, name, "", "DOSAGE", text, 0, -1, set_id, name, "34068-7", label=version)

    def _product(name: str, substance: str) -> Product:
        return Product([name], [substance], [""], [substance], [""])

    store = IndexStore(str(tmp_path))
    names = {"Purified Cortrophin Gel": "CORTICOTROPIN", "Acthar Gel": "CORTICOTROPIN", "Voltaren Gel": "DICLOFENAC"}
    names["New Velora XR"] = "VELORASTAT"
    store.commit([store.write_segment([label(str(at), *one) for at, one in enumerate(names.items())])])
    index = IndexReader.open(str(tmp_path))
    assert {*drugs(index, f"What is the dose of {name}?", ChunkFilter())} == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("naproxen", ["Aleve", "Naproxen Sodium"]),
        ("aleve", ["Aleve"]),
        ("Naproxen  sodium", ["Naproxen Sodium"]),
        ("apixaban", ["ELIQUIS"]),
        ("ibuprofen", ["DUEXIS"]),
        ("eliqiuS", ["ELIQUIS"]),
        ("warfarin", []),
        ("apixaban naproxen", []),
    ],
)
def test_a_filter_takes_any_name_of_a_drug(real_names: IndexReader, name: str, found: list[str]) -> None:
    assert sorted({*drugs(real_names, "What is the dose?", ChunkFilter(drug=name))}) == found


def test_a_misspelt_name_finds_what_the_name_finds(real_names: IndexReader) -> None:
    found = [
        [
            hit.chunk.id
            for hit in search_index(real_names, [SearchQuery(text, 5, True)], ChunkFilter(), 5, "bm25", None)[0]
        ]
        for text in ("ELIQUIS", "ELIQIUS")
    ]
    assert found[0] == found[1] == ["1", "1b"]


def test_each_of_several_drugs_has_its_share(real_names: IndexReader) -> None:
    [found] = search_index(
        real_names, [SearchQuery("dose of Eliquis and Aleve", 2, True)], ChunkFilter(), 2, "bm25", None
    )
    assert [hit.drug for hit in found] in (["ELIQUIS", "Aleve"], ["ELIQUIS", "Naproxen Sodium"])


def test_each_hit_says_what_spl_says_of_its_label(real_names: IndexReader) -> None:
    [found] = search_index(real_names, [SearchQuery("dose of Eliquis", 5, True)], ChunkFilter(), 5, "bm25", None)
    assert len(found) == 2
    for hit in found:
        assert (hit.moieties, hit.label.version, hit.effective_date) == (["APIXABAN"], 7, "2026-04-24")
        assert (hit.section_code, hit.label.labeler, hit.url[-8:]) == ("34068-7", "Maker", "?setid=1")
