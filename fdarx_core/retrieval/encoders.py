"""Embedding models and rerankers from local directories."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fdarx_core.retrieval.models import device, load_module

Vectors = npt.NDArray[np.float32]
"""Shape (texts, dimensions)."""

BATCH = 32
RERANK_BATCH = 32
_PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""Names that models give to their prompt for passages."""
_CONTRIEVER_TOKENS = 512
"""Tokens of a text that ReContriever reads. Source: Lei et al. 2023, as Contriever."""
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


class Encoder(Protocol):
    """Turns texts into vectors whose inner product says how similar two texts are."""

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode passages."""

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """Encode questions, which some models want with an instruction."""


class SentenceEncoder:
    """A sentence-transformers model from a local directory; it gives unit vectors, whose inner product is the cosine.

    `max_tokens` is how many tokens of a text it reads; `instruction` is the text in front of questions: the given one,
    else the model's own prompt for queries, if any.
    """

    def __init__(
        self, directory: str, *, name: str = "cosine", batch: int = BATCH, instruction: str | None = None
    ) -> None:
        library = load_module("sentence_transformers", f"the encoder {name}")
        self.name = name
        self._directory = directory
        self._batch = batch
        self._model = library.SentenceTransformer(directory, device=device(), local_files_only=True)
        self.dimensions = int(self._model.get_embedding_dimension())
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
        return EncoderInfo(name, fingerprint(self._directory), self.dimensions, self.instruction)

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
            list(texts), prompt=prompt, batch_size=self._batch, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, np.float32)


class ContrieverEncoder:
    """A Contriever model from a transformers directory: the mean of the last layer over the tokens, not normalised.

    Source: Izacard et al. 2022; Lei et al. 2023 (ReContriever is used the same way).
    """

    def __init__(self, directory: str, *, name: str = "recontriever", batch: int = BATCH) -> None:
        library = load_module("transformers", f"the encoder {name}")
        self.name = name
        self._batch = batch
        self._device = device()
        self._tokenizer = library.AutoTokenizer.from_pretrained(directory, local_files_only=True)
        self._model = library.AutoModel.from_pretrained(directory, local_files_only=True).to(self._device).eval()
        self._max_tokens = min(_CONTRIEVER_TOKENS, int(self._model.config.max_position_embeddings))
        self.dimensions = int(self._model.config.hidden_size)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode passages; texts of similar length share a batch, so that little is padded."""
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        order = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        for start in range(0, len(order), self._batch):
            positions = order[start : start + self._batch]
            vectors[positions] = self._means([texts[position] for position in positions])
        return vectors

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """Encode questions in the same way as passages."""
        return self.encode(texts)

    def _means(self, texts: list[str]) -> Any:
        torch = load_module("torch", f"the encoder {self.name}")
        with torch.inference_mode():
            inputs = self._tokenizer(
                texts, padding=True, truncation=True, max_length=self._max_tokens, return_tensors="pt"
            ).to(self._device)
            mask = inputs["attention_mask"].unsqueeze(-1)
            states = self._model(**inputs).last_hidden_state.masked_fill(mask == 0, 0.0)
            return (states.sum(dim=1) / mask.sum(dim=1)).float().cpu().numpy()


Reranker = Callable[[Sequence[tuple[str, str]]], list[float]]
"""Scores how well passages answer their questions, from pairs (question, passage); higher is better."""


def bge_reranker(directory: str, *, batch: int = RERANK_BATCH, max_tokens: int = 512) -> Reranker:
    """Load a BGE cross-encoder from a local directory, by FlagEmbedding.

    Its scores are logits, computed in half precision on a GPU. Passages are cut so that a pair has `max_tokens` tokens
    at most.
    """
    library = load_module("FlagEmbedding", "the reranker")
    where = device()
    model = library.FlagReranker(
        directory, use_fp16=where != "cpu", devices=where, batch_size=batch, max_length=max_tokens
    )

    def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [float(one) for one in model.compute_score(list(pairs))] if pairs else []

    return score
