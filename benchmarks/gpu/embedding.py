"""Embedding passages: MiniLM's shape with random weights, by batch size and dtype, against the card's ceiling.

    python -m benchmarks.gpu.embedding [--batches 1 8 32] [--dtypes float32 bfloat16] [--tokens 256]

A passage of a label has some 150 tokens; sentence-transformers cuts what this model is given at 256.
"""

from __future__ import annotations

import sys

from benchmarks.gpu.encoding import measure
from benchmarks.gpu.shapes import MINILM

if __name__ == "__main__":
    sys.exit(measure(__doc__ or "", MINILM, "passages", 256, None, pooled=True))
