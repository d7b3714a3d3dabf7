"""Speed of embedding and reranking by batch size and dtype, with random weights, against the ceiling of the device.

    python -m benchmarks.gpu_encoders embedding [--batches 1 8 32] [--dtypes float32 bfloat16] [--tokens 256]
    python -m benchmarks.gpu_encoders reranking [--batches 1 8 32] [--dtypes float16 bfloat16] [--tokens 512]

Embedding has the shape of MiniLM: sentence-transformers truncates its texts at 256 tokens; a passage of a label has
about 150. Reranking has the shape of the large BGE rerankers, an XLM-R of 24 layers; a pair is a question with one
candidate, and QA-RAG scores 24 pairs a question. Only shapes matter for speed: the texts are random token ids of one
length, without padding. The ceiling is a large matrix product in the same dtype, measured in the same run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import command_line

MATRIX = {"cuda": 8192, "cpu": 2048}
"""The side of the matrices for the ceiling."""
LEAST_S = 1.0
"""The shortest time over which a figure is averaged, in seconds."""
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of an encoder: layers, width, heads, width of the feed-forward layer, vocabulary, longest text.

    `unit` is the name of a text, `tokens` its length, and `pooled` says whether the output is a mean vector.
    """

    name: str
    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int
    longest: int
    unit: str
    tokens: int
    pooled: bool

    def operations(self, tokens: int) -> float:
        """Return the operations for one text: two a weight and token, and attention over all pairs of tokens."""
        weights = self.layers * (4 * self.width**2 + 2 * self.width * self.inner)
        return tokens * (2.0 * weights + 4.0 * self.layers * self.width * tokens)


SHAPES = {
    "embedding": Shape("all-MiniLM-L6-v2", 6, 384, 12, 1536, 30_522, 512, "passages", 256, True),
    "reranking": Shape(
        "bge-reranker-large, bge-reranker-v2-m3", 24, 1024, 16, 4096, 250_002, 8192, "pairs", 512, False
    ),
}


class Layer(nn.Module):  # type: ignore[misc]  # torch is Any to mypy
    """A layer of BERT: attention, then feed-forward, each added to its input and normalized."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.mixed = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.inner = nn.Linear(shape.width, shape.inner)
        self.outer = nn.Linear(shape.inner, shape.width)
        self.norms = nn.ModuleList([nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)])

    def forward(self, states: Any) -> Any:
        texts, tokens, width = states.shape
        mixed = self.mixed(states).view(texts, tokens, 3, self.heads, width // self.heads)
        attended = scaled_dot_product_attention(*mixed.permute(2, 0, 3, 1, 4).unbind(0))
        states = self.norms[0](states + self.out(attended.transpose(1, 2).reshape(texts, tokens, width)))
        return self.norms[1](states + self.outer(nn.functional.gelu(self.inner(states))))


class TextEncoder(nn.Module):  # type: ignore[misc]
    """From token ids (texts × tokens) to a mean vector a text (`pooled`), or to a score from its first token."""

    def __init__(self, shape: Shape, *, pooled: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.longest, shape.width)
        self.layers = nn.Sequential(*(Layer(shape) for _ in range(shape.layers)))
        self.score = None if pooled else nn.Linear(shape.width, 1)

    def forward(self, ids: Any) -> Any:
        states = self.layers(self.words(ids) + self.places.weight[: ids.shape[1]])
        return nn.functional.normalize(states.mean(1)) if self.score is None else self.score(states[:, 0])


def encoder(shape: Shape, dtype: Any, device: str) -> Any:
    """Return an encoder with random weights, ready to be called."""
    torch.manual_seed(0)
    with torch.device(device):
        return TextEncoder(shape, pooled=shape.pooled).to(dtype).eval()


def seconds(call: Callable[[], Any], device: str) -> float:
    """Return the mean time of a call over at least `LEAST_S`, after one call to warm up, with the device idle."""

    def finish() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    call()
    finish()
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < LEAST_S:
        call()
        calls += 1
        finish()
    return (time.perf_counter() - start) / calls


def ceiling(dtype: Any, device: str) -> float:
    """Return the operations a second of a product of large matrices."""
    side = MATRIX[device]
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return 2.0 * side**3 / seconds(lambda: left @ right, device)


def measure(shape: Shape, options: argparse.Namespace) -> None:
    """Print texts and tokens a second, operations, and their share of the ceiling, for each dtype and batch size."""
    tokens = options.tokens or shape.tokens
    if options.device == "cuda":
        device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    else:
        device = f"CPU, {torch.get_num_threads()} threads, torch {torch.__version__}"
    print(f"{shape.name}: {device}, {tokens} tokens a text")
    for name in options.dtypes:
        most = ceiling(DTYPES[name], options.device)
        print(f"{name}: ceiling {most / 1e12:.2f} TFLOPS")
        model = encoder(shape, DTYPES[name], options.device)
        for batch in options.batches:
            print(f"  batch {batch:>5}: {_rates(model, shape, tokens, batch, most, options.device)}", flush=True)


def _rates(model: Any, shape: Shape, tokens: int, batch: int, most: float, device: str) -> str:
    ids = torch.randint(shape.vocabulary, (batch, tokens), device=device)
    try:
        texts = batch / seconds(lambda: model(ids), device)
    except torch.OutOfMemoryError:
        return "out of memory"
    reached = texts * shape.operations(tokens)
    rates = f"{texts:>10,.1f} {shape.unit}/s {texts * tokens:>13,.0f} tokens/s"
    return f"{rates} {reached / 1e12:>8.2f} TFLOPS {reached / most:>6.0%} of the ceiling"


def main() -> int:
    """Measure what the command line names."""
    cuda = torch.cuda.is_available()
    parser = command_line(__doc__)
    parser.add_argument("work", choices=SHAPES)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if cuda else "cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128, 512] if cuda else [1, 8, 32])
    dtypes = ["float32", "float16", "bfloat16"] if cuda else ["float32", "bfloat16"]
    parser.add_argument("--dtypes", choices=DTYPES, nargs="+", default=dtypes)
    parser.add_argument("--tokens", type=int, help="tokens of each text")
    options = parser.parse_args()
    with torch.inference_mode():
        measure(SHAPES[options.work], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
