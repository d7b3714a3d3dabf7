"""Embedding models and rerankers from local directories."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fdarx_core.retrieval.models import device, load_module

Vectors = npt.NDArray[np.float32]
"""Shape (texts, dimensions)."""

_RERANK_BATCH = 32
_RERANK_TOKENS = 512
_PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""Names that models give to their prompt for passages."""
_WEIGHTS = {".safetensors", ".bin", ".pt", ".onnx", ".msgpack", ".h5"}
_HASHED_BYTES = 1 << 20
"""Bytes of a weights file that are hashed at each end: its header, and numbers that training nearly always changes."""


@dataclass(frozen=True, slots=True)
class EncoderInfo:
    """An embedding model, as an index records it.

    Attributes:
        name: the name of its directory.
        fingerprint: a hash of its files, as `fingerprint` gives it.
        dimensions: the length of its vectors.
        instruction: the text in front of every question, "" where the model has none.
        normalised: whether vectors have length 1.
    """

    name: str
    fingerprint: str
    dimensions: int
    instruction: str = ""
    normalised: bool = True

    def is_compatible(self, other: EncoderInfo) -> bool:
        """Return whether vectors of both can be compared; only questions carry the instruction, which may differ."""
        own = (self.fingerprint, self.dimensions, self.normalised)
        return own == (other.fingerprint, other.dimensions, other.normalised)


def fingerprint(directory: str) -> str:
    """Return a hash of 16 hexadecimal digits over a model's directory.

    It covers the content of text files, and of each weights file the size and the first and last MiB, so that it takes
    milliseconds for a model of any size. Weights that differ only in the middle of a file get the same hash.
    """
    root = Path(directory)
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(path for path in root.rglob("*") if path.is_file() and _is_model_file(path.relative_to(root))):
        digest.update(f"{file.relative_to(root).as_posix()}\0{file.stat().st_size}\0".encode())
        digest.update(_ends(file) if file.suffix in _WEIGHTS else file.read_bytes())
    return digest.hexdigest()


def _is_model_file(path: Path) -> bool:
    """Return whether a file can change the vectors: model cards and traces of a download cannot."""
    hidden = any(part.startswith(".") for part in path.parts)
    return not hidden and (path.suffix in _WEIGHTS or path.suffix in {".json", ".txt", ".model"})


def _ends(file: Path) -> bytes:
    with file.open("rb") as stream:
        head = stream.read(_HASHED_BYTES)
        stream.seek(max(0, file.stat().st_size - _HASHED_BYTES))
        return head + stream.read(_HASHED_BYTES)


class SentenceEncoder:
    """A sentence-transformers or transformers model from a local directory, for texts to search and questions.

    The inner product of two vectors says how similar the texts are. A directory of transformers gives the mean of the
    last layer over the tokens.

    Args:
        directory: the directory.
        name: the name by which retrievers know it.
        instruction: the text in front of questions, by default the model's own prompt for queries, if any.
        normalised: whether vectors get length 1, so that the inner product is the cosine.
        max_tokens: the most tokens of a text that are read, by default those that the model reads.
    """

    def __init__(
        self,
        directory: str,
        *,
        name: str = "cosine",
        instruction: str | None = None,
        normalised: bool = True,
        max_tokens: int | None = None,
    ) -> None:
        library = load_module("sentence_transformers", f"the encoder {name}")
        self.name = name
        self._directory = directory
        self._normalised = normalised
        self._model = library.SentenceTransformer(directory, device=device(), local_files_only=True)
        self.dimensions = int(self._model.get_embedding_dimension())
        if max_tokens is not None:
            self._model.max_seq_length = min(max_tokens, self._model.max_seq_length or max_tokens)
        self.max_tokens = int(self._model.max_seq_length or 0)
        prompts = self._model.prompts
        self.instruction = str(prompts.get("query", "") if instruction is None else instruction)
        # "" would switch the prompt off; None leaves the model's default
        self._passage_prompt = next((prompts[kind] for kind in _PASSAGE_PROMPTS if prompts.get(kind)), None)

    @property
    def info(self) -> EncoderInfo:
        """The model as an index records it; a directory `model` has the name of its parent."""
        path = Path(self._directory).resolve()
        name = path.parent.name if path.name == "model" else path.name
        return EncoderInfo(name, fingerprint(self._directory), self.dimensions, self.instruction, self._normalised)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode passages; a text is cut at the model's longest input (256 tokens for MiniLM)."""
        return self._encode(texts, self._passage_prompt)

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """Encode questions, each with the instruction in front of it."""
        return self._encode(texts, self.instruction)

    def _encode(self, texts: Sequence[str], prompt: str | None) -> Vectors:
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        vectors = self._model.encode(
            list(texts),
            prompt=prompt,
            normalize_embeddings=self._normalised,
            show_progress_bar=False,
        )
        return np.asarray(vectors, np.float32)


Reranker = Callable[[Sequence[tuple[str, str]]], list[float]]
"""Scores how well passages answer their questions, from pairs (question, passage); higher is better."""


def bge_reranker(directory: str) -> Reranker:
    """Load a BGE cross-encoder from a local directory, by FlagEmbedding.

    Its scores are logits, computed in half precision on a GPU. Passages are cut so that a pair has 512 tokens at most.
    """
    library = load_module("FlagEmbedding", "the reranker")
    where = device()
    model = library.FlagReranker(
        directory, use_fp16=where != "cpu", devices=where, batch_size=_RERANK_BATCH, max_length=_RERANK_TOKENS
    )

    def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [float(one) for one in model.compute_score(list(pairs))] if pairs else []

    return score
