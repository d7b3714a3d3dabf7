"""Texts as vectors, by models in local directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fdarx_core.retrieval.collection import Vectors
from fdarx_core.retrieval.encoder_info import EncoderInfo, fingerprint
from fdarx_core.retrieval.models import device, load_module

BATCH = 32
_FOR_PASSAGES = ("document", "passage", "corpus")
"""Names that models give to their prompt for what is searched."""
_LONGEST = 512
"""Tokens of a text that ReContriever reads. Source: Lei et al. 2023, as Contriever."""


class Encoder(Protocol):
    """Turns texts into vectors whose dot product says how near two texts are."""

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    def encode(self, texts: Sequence[str]) -> Vectors:
        """What is searched."""

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """What is asked: some models want an instruction in front of it."""


class SentenceEncoder:
    """A sentence-transformers directory; unit vectors, so that the dot product is the cosine.

    `longest` is how many tokens of a text it reads. `instruction` stands in front of questions: the one given, else the
    model's own prompt for queries, mostly none.
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
        self.longest = int(self._model.max_seq_length or 0)
        prompts = self._model.prompts
        self.instruction = str(prompts.get("query", "") if instruction is None else instruction)
        # an empty prompt is none at all, where None would be the model's default one
        self._before_passages = next((prompts[kind] for kind in _FOR_PASSAGES if prompts.get(kind)), None)

    @property
    def info(self) -> EncoderInfo:
        """As an index keeps it; `name` is the directory's, or of one named model its parent's."""
        path = Path(self._directory).resolve()
        name = path.parent.name if path.name == "model" else path.name
        return EncoderInfo(name, fingerprint(self._directory), self.dimensions, self.instruction)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Shape (texts, dimensions). Texts beyond the model's longest are cut; MiniLM reads 256 tokens."""
        return self._encoded(texts, self._before_passages)

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """As `encode`, each text with the instruction before it."""
        return self._encoded(texts, self.instruction)

    def _encoded(self, texts: Sequence[str], prompt: str | None) -> Vectors:
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        vectors = self._model.encode(
            list(texts), prompt=prompt, batch_size=self._batch, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, np.float32)


class ContrieverEncoder:
    """A transformers directory of Contriever's kind: the mean of the last layer over the text's tokens, not normalised.

    Source: Izacard et al. 2022; Lei et al. 2023 (ReContriever is used the same way).
    """

    def __init__(self, directory: str, *, name: str = "recontriever", batch: int = BATCH) -> None:
        library = load_module("transformers", f"the encoder {name}")
        self.name = name
        self._batch = batch
        self._device = device()
        self._tokenizer = library.AutoTokenizer.from_pretrained(directory, local_files_only=True)
        self._model = library.AutoModel.from_pretrained(directory, local_files_only=True).to(self._device).eval()
        self._longest = min(_LONGEST, int(self._model.config.max_position_embeddings))
        self.dimensions = int(self._model.config.hidden_size)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Shape (texts, dimensions). Texts of like length go together, so that little is padded."""
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        order = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        for start in range(0, len(order), self._batch):
            positions = order[start : start + self._batch]
            vectors[positions] = self._means([texts[position] for position in positions])
        return vectors

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """As `encode`: the model knows no difference."""
        return self.encode(texts)

    def _means(self, texts: list[str]) -> Any:
        torch = load_module("torch", f"the encoder {self.name}")
        with torch.inference_mode():
            inputs = self._tokenizer(
                texts, padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
            ).to(self._device)
            mask = inputs["attention_mask"].unsqueeze(-1)
            states = self._model(**inputs).last_hidden_state.masked_fill(mask == 0, 0.0)
            return (states.sum(dim=1) / mask.sum(dim=1)).float().cpu().numpy()
