from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from fdarx_core.records import Passage
from fdarx_core.retrieval import Collection, ModelDirectories, ModelMissing, Queries, encoder, retriever, searchable
from fdarx_core.retrieval.registry import RETRIEVERS, load_reranker, needs_reranker


@pytest.mark.parametrize("name", sorted(RETRIEVERS))
def test_every_retriever_has_its_name(name: str) -> None:
    assert retriever(name).name == name
    assert not needs_reranker(name)
    assert needs_reranker(f"{name}+rerank")


@pytest.mark.parametrize("name", ["bm26", "", "+rerank", "bm25+rerank+rerank", "bm26+rerank"])
def test_an_unknown_name_is_answered_with_the_known(name: str) -> None:
    with pytest.raises(ValueError, match=r"bm25, tfidf, cosine, recontriever, hybrid, each also as NAME\+rerank"):
        retriever(name)


def test_an_unknown_encoder_is_answered_with_the_known() -> None:
    with pytest.raises(ValueError, match="cosine, recontriever"):
        encoder("minilm", ModelDirectories())


def test_vectors_rank_by_dot_product_ties_by_position() -> None:
    passages = np.array([[1, 0], [0, 1], [1, 0], [2, 2]], np.float32)
    collection = Collection(["a", "b", "c", "d"], {"cosine": passages})
    found = retriever("cosine").rank(Queries(["x"], {"cosine": np.array([[1, -1]], np.float32)}), collection, 9)
    assert found == [[(0, 1.0), (2, 1.0), (3, 0.0), (1, -1.0)]]


@pytest.mark.parametrize("vectors", [{}, {"recontriever": np.zeros((2, 3), np.float32)}])
def test_missing_vectors_are_named(vectors: dict[str, np.ndarray]) -> None:
    queries = Queries(["x"], {"recontriever": np.zeros((1, 3), np.float32)})
    with pytest.raises(ValueError, match=r"recontriever: 3 passages have (none|2) of its vectors"):
        retriever("recontriever").rank(queries, Collection(["a", "b", "c"], vectors), 5)


def test_a_missing_directory_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="give --recontriever-model DIRECTORY"):
        encoder("recontriever", ModelDirectories())
    with pytest.raises(ModelMissing, match="give --reranker-model DIRECTORY"):
        load_reranker(ModelDirectories())
    with pytest.raises(ModelMissing, match=f"--cosine-model: {tmp_path} is no model directory"):
        encoder("cosine", ModelDirectories(cosine=str(tmp_path)))


@pytest.mark.parametrize(("name", "library"), [("cosine", "sentence_transformers"), ("recontriever", "transformers")])
def test_a_missing_extra_is_named(name: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModelMissing, match=rf"encoder {name} needs {library} .*pip install 'fdarx\[models\]'"):
        encoder(name, ModelDirectories(cosine=str(tmp_path), recontriever=str(tmp_path)))


def test_section_headings_are_searched_and_the_index_is_made_once() -> None:
    passage = Passage("set-1", 4, 0, "42229-5", "34068-7", "2.3", "Renal", "2 Dosage > 2.3 Renal", "Take 5 mg.")
    assert searchable(passage) == "2 Dosage > 2.3 Renal\nTake 5 mg."
    collection = Collection([searchable(passage)])
    assert collection.bm25 is collection.bm25
