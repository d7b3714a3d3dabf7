"""Reranking: the large BGE rerankers' shape with random weights, by batch size and dtype, against the card's ceiling.

    python -m benchmarks.gpu.reranking [--batches 1 8 32] [--dtypes float16 bfloat16] [--tokens 512]

A pair is a question with one candidate; QA-RAG scores 24 pairs a question. An XLM-R of 24 layers, 1024 wide.
"""

from __future__ import annotations

import sys

from benchmarks.gpu.encoding import measure
from benchmarks.gpu.shapes import RERANKER

if __name__ == "__main__":
    sys.exit(measure(__doc__ or "", RERANKER, "pairs", 512, None, pooled=False))
