"""Embedding models and rerankers from local directories."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fdarx_core.retrieval.models import device, has_bfloat16, load_module
from fdarx_core.retrieval.windows import Span, windows

Vectors = npt.NDArray[np.float32]
"""Shape (texts, dimensions)."""

_RERANK_BATCH = 32
_RERANK_TOKENS = 512
_QUESTION_TOKENS = _RERANK_TOKENS * 3 // 4
"""Tokens of a question that are read, as in FlagEmbedding, with which BGE's rerankers were published."""
_HEADING_SHARE = 4
"""A heading takes at most one token in 4 of the longest input."""
_REMEMBERED = 1 << 16
"""Windows whose vectors are kept, since labels repeat each other: 100 MB for vectors of 384 numbers. Of the 73,393
passages of 822 labels 44,227 are different, with title and section.
"""
_LEAST_LENGTH = 1e-12
_TOKENIZED_AT_ONCE = 64
"""Texts, so that the offsets of their tokens take little memory."""
_PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""Names that models give to their prompt for passages."""
_WEIGHTS = {".safetensors", ".bin", ".pt", ".onnx", ".msgpack", ".h5"}
_HASHED = _WEIGHTS | {".json", ".txt", ".model"}
"""Suffixes of files that can change the vectors, as model cards cannot."""
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


def fingerprint(directory: str) -> str:
    """Return a hash of 16 hexadecimal digits over a model's directory.

    It covers the content of text files, and of each weights file the size and the first and last MiB, so that it takes
    milliseconds for a model of any size. Weights that differ only in the middle of a file get the same hash.
    """
    root = Path(directory)
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix in _HASHED):
        name, size = file.relative_to(root), file.stat().st_size
        if any(part.startswith(".") for part in name.parts):
            continue  # traces of a download
        digest.update(f"{name.as_posix()}\0{size}\0".encode())
        with file.open("rb") as stream:
            if file.suffix in _WEIGHTS:
                digest.update(stream.read(_HASHED_BYTES))
                stream.seek(max(0, size - _HASHED_BYTES))
            digest.update(stream.read())
    return digest.hexdigest()


class HeadedText(NamedTuple):
    """A passage to encode.

    Attributes:
        heading: what each of its windows begins with: the title and the section, say; may be "".
        text: the text, of any length.
    """

    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class WindowVectors:
    """The vectors of passages, one for each window of each passage, in order.

    A passage scores as its best window does.

    Attributes:
        rows: shape (windows, dimensions).
        counts: shape (passages,): the number of windows of each passage, 1 or more.
    """

    rows: Vectors
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self.counts)

    @classmethod
    def concatenate(cls, parts: Sequence[WindowVectors]) -> WindowVectors:
        """Return the vectors of all passages of the parts, at least one, in order."""
        return cls(np.concatenate([part.rows for part in parts]), np.concatenate([part.counts for part in parts]))

    def select(self, passages: slice | npt.NDArray[np.bool_]) -> WindowVectors:
        """Return the vectors of some passages, given as a slice or as a mask of shape (passages,)."""
        kept = np.zeros(len(self), np.bool_)
        kept[passages] = True
        return WindowVectors(self.rows[np.repeat(kept, self.counts)], self.counts[kept])

    def scores(self, queries: Vectors) -> Vectors:
        """Return the highest inner product of a passage's windows with each query, shape (queries, passages)."""
        products: Vectors = queries @ self.rows.T
        if len(self.rows) == len(self):
            return products
        best: Vectors = np.maximum.reduceat(products, np.cumsum(self.counts) - self.counts, axis=1)
        return best


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
        fast: whether a CPU computes with numbers of 16 bits, too, as a GPU always does, if it has instructions for them
            (`has_bfloat16`). The cosine of a vector of MiniLM with the one by 32 bits is 0.998 or more.
    """

    def __init__(
        self,
        directory: str,
        *,
        name: str = "cosine",
        instruction: str | None = None,
        normalised: bool = True,
        max_tokens: int | None = None,
        fast: bool = False,
    ) -> None:
        library = load_module("sentence_transformers", f"the encoder {name}")
        self.name = name
        self._directory = directory
        self._normalised = normalised
        where = device()
        self._model = library.SentenceTransformer(directory, device=where, local_files_only=True)
        self._halved = (fast or where == "cuda") and has_bfloat16()
        if self._halved:
            self._model.bfloat16()
        self.dimensions = int(self._model.get_embedding_dimension())
        if max_tokens is not None:
            self._model.max_seq_length = min(max_tokens, self._model.max_seq_length or max_tokens)
        self.max_tokens = int(self._model.max_seq_length or 0)
        prompts = self._model.prompts
        self.instruction = str(prompts.get("query", "") if instruction is None else instruction)
        # "" would switch the prompt off; None leaves the model's default
        self._passage_prompt = next((prompts[kind] for kind in _PASSAGE_PROMPTS if prompts.get(kind)), None)
        self._remembered: dict[str, Vectors] = {}

    @property
    def info(self) -> EncoderInfo:
        """The model as an index records it; a directory `model` has the name of its parent."""
        path = Path(self._directory).resolve()
        name = path.parent.name if path.name == "model" else path.name
        return EncoderInfo(name, fingerprint(self._directory), self.dimensions, self.instruction, self._normalised)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts as passages, a vector for each; a text is cut at `max_tokens` (256 for MiniLM)."""
        return self._encode(texts, self._passage_prompt)

    def encode_passages(self, passages: Sequence[HeadedText]) -> WindowVectors:
        """Encode passages of any length: a vector for each window of at most `max_tokens`, its heading included.

        Windows overlap by a quarter, and end between sentences or words (see `windows`). A window that was encoded
        before, also in an earlier call, is not encoded again.
        """
        found = [
            texts
            for start in range(0, len(passages), _TOKENIZED_AT_ONCE)
            for texts in self._windows(passages[start : start + _TOKENIZED_AT_ONCE])
        ]
        flat = [text for texts in found for text in texts]
        known = {text: self._remembered[text] for text in flat if text in self._remembered}
        new = [text for text in dict.fromkeys(flat) if text not in known]
        known |= zip(new, self.encode(new), strict=True)
        self._remembered |= known
        for text in list(self._remembered)[: max(0, len(self._remembered) - _REMEMBERED)]:
            del self._remembered[text]
        vectors = np.array([known[text] for text in flat], np.float32).reshape(-1, self.dimensions)
        return WindowVectors(vectors, np.array([len(texts) for texts in found], np.int64))

    def _windows(self, passages: Sequence[HeadedText]) -> Iterator[list[str]]:
        """Yield the windows of each passage."""
        if not self.max_tokens:  # the model reads texts of any length
            yield from (["\n".join(filter(None, heading_text))] for heading_text in passages)
            return
        tokenizer = self._model.tokenizer
        headings = _token_spans(tokenizer, [passage.heading for passage in passages])
        texts = _token_spans(tokenizer, [passage.text for passage in passages])
        [prompt] = _token_spans(tokenizer, [self._passage_prompt or ""])
        room = self.max_tokens - tokenizer.num_special_tokens_to_add() - len(prompt)
        for (heading, text), in_heading, in_text in zip(passages, headings, texts, strict=True):
            if len(in_heading) > room // _HEADING_SHARE and len(in_heading) + len(in_text) > room:
                in_heading = in_heading[: room // _HEADING_SHARE]
                heading = heading[: in_heading[-1][1]] if in_heading else ""
            cut = windows(text, in_text, max(1, room - len(in_heading)))
            yield ["\n".join(filter(None, (heading, text[window.start : window.end]))) for window in cut]

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """Encode questions, each with the instruction in front of it."""
        return self._encode(texts, self.instruction)

    def _encode(self, texts: Sequence[str], prompt: str | None) -> Vectors:
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        vectors = self._model.encode(
            list(texts),
            prompt=prompt,
            normalize_embeddings=self._normalised and not self._halved,
            show_progress_bar=False,
        )
        found = np.asarray(vectors, np.float32)
        if self._normalised and self._halved:  # 16 bits do not give length 1
            found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), _LEAST_LENGTH)
        return found


def _token_spans(tokenizer: Any, texts: Sequence[str]) -> list[list[Span]]:
    """Return the characters of each token of each text."""
    return [encoding.offsets for encoding in tokenizer(list(texts), add_special_tokens=False, verbose=False).encodings]


Reranker = Callable[[Sequence[tuple[str, str]]], list[float]]
"""Scores how well passages answer their questions, from pairs (question, passage); higher is better."""


def bge_reranker(directory: str) -> Reranker:
    """Load a BGE cross-encoder from a local directory, by sentence-transformers.

    Its scores are logits, computed in half precision (float16, whose logits are finer than bfloat16's) on a GPU. A pair
    of more than 512 tokens is read in windows of the passage, and scores as the best of them; of a question, the first
    384 tokens are read.
    """
    library = load_module("sentence_transformers", "the reranker")
    torch, where = load_module("torch", "the reranker"), device()
    model = library.CrossEncoder(
        directory,
        device=where,
        local_files_only=True,
        max_length=_RERANK_TOKENS,
        activation_fn=torch.nn.Identity(),
        model_kwargs={"dtype": torch.float32 if where == "cpu" else torch.float16},
    )
    tokenizer = model.tokenizer
    room = _RERANK_TOKENS - tokenizer.num_special_tokens_to_add(pair=True)

    def cut(question: str, asked: list[Span], passage: str, read: list[Span]) -> list[tuple[str, str]]:
        """Return the pairs that the model reads, from a pair and the tokens of both."""
        asked = asked[:_QUESTION_TOKENS]
        if asked:
            question = question[: asked[-1][1]]
        return [(question, passage[window.start : window.end]) for window in windows(passage, read, room - len(asked))]

    def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
        if not pairs:
            return []
        questions, passages = (dict.fromkeys(texts) for texts in zip(*pairs, strict=True))
        asked, read = (
            dict(zip(texts, _token_spans(tokenizer, list(texts)), strict=True)) for texts in (questions, passages)
        )
        shown = [cut(question, asked[question], text, read[text]) for question, text in pairs]
        flat = [score for windowed in shown for score in windowed]
        scores = iter(model.predict(flat, batch_size=_RERANK_BATCH, show_progress_bar=False))
        return [float(max(islice(scores, len(windowed)))) for windowed in shown]

    return score
