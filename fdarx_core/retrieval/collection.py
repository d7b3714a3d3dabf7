"""What is searched, and what is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fdarx_core.records import Passage
from fdarx_core.retrieval.bm25 import Bm25Index
from fdarx_core.retrieval.postings import Postings
from fdarx_core.retrieval.tfidf import TfidfIndex

Vectors = npt.NDArray[np.float32]
"""Shape (texts, dimensions)."""


@dataclass
class Collection:
    """The passages to search, of one label or of many; `vectors` by encoder's name, row by row those of `texts`."""

    texts: Sequence[str]
    vectors: Mapping[str, Vectors] = field(default_factory=dict)

    @cached_property
    def postings(self) -> Postings:
        """Made when first asked for, once, as all that follows."""
        return Postings(self.texts)

    @cached_property
    def bm25(self) -> Bm25Index:
        return Bm25Index(self.postings)

    @cached_property
    def tfidf(self) -> TfidfIndex:
        return TfidfIndex(self.postings)


@dataclass
class Queries:
    """The questions to one collection; `vectors` as in `Collection`."""

    texts: Sequence[str]
    vectors: Mapping[str, Vectors] = field(default_factory=dict)


def searchable(passage: Passage) -> str:
    """The passage's section path and text: many a passage names its subject in the heading alone.

    On 7,829 questions of 233 real labels BM25's recall@1, 5, 10 is 0.557, 0.820, 0.879 factual and 0.227, 0.545, 0.697
    multi-hop; by the text alone 0.509, 0.761, 0.819 and 0.221, 0.526, 0.686.
    """
    return f"{passage.section_path}\n{passage.text}"
