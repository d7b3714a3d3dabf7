"""Encoders of random weights in the shapes of those that we use, and how long they take against what the card can do.

Only shapes matter for speed: the texts are random token ids of one length, so that nothing is padded. The ceiling is
measured in the same run: a large product of matrices in the same dtype, which is nearly all that an encoder computes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

MATRIX = {"cuda": 8192, "cpu": 2048}
"""Side of the ceiling's matrices."""
LEAST_S = 1.0
"""A figure is a mean over so long."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Layers, width, heads and feed-forward width of an encoder; its vocabulary and longest text in tokens."""

    name: str
    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int
    longest: int

    def operations(self, tokens: int) -> float:
        """Of one text of that many tokens: two a weight and token, and attention over all pairs of tokens."""
        weights = self.layers * (4 * self.width**2 + 2 * self.width * self.inner)
        return tokens * (2.0 * weights + 4.0 * self.layers * self.width * tokens)


MINILM = Shape("all-MiniLM-L6-v2", 6, 384, 12, 1536, 30_522, 512)
RERANKER = Shape("bge-reranker-large, bge-reranker-v2-m3", 24, 1024, 16, 4096, 250_002, 8192)


class _Layer(nn.Module):  # type: ignore[misc]  # torch is Any to mypy
    """One layer as BERT has it: attention, then feed-forward, each added to what came in and then normalized."""

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
        seen = scaled_dot_product_attention(*mixed.permute(2, 0, 3, 1, 4).unbind(0))
        states = self.norms[0](states + self.out(seen.transpose(1, 2).reshape(texts, tokens, width)))
        return self.norms[1](states + self.outer(nn.functional.gelu(self.inner(states))))


class Encoder(nn.Module):  # type: ignore[misc]
    """Token ids (texts × tokens) → a vector a text: the mean of its tokens' (`pooled`), or a score from its first."""

    def __init__(self, shape: Shape, *, pooled: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.longest, shape.width)
        self.layers = nn.Sequential(*(_Layer(shape) for _ in range(shape.layers)))
        self.score = None if pooled else nn.Linear(shape.width, 1)

    def forward(self, ids: Any) -> Any:
        states = self.layers(self.words(ids) + self.places.weight[: ids.shape[1]])
        return nn.functional.normalize(states.mean(1)) if self.score is None else self.score(states[:, 0])


def encoder(shape: Shape, dtype: Any, device: str, *, pooled: bool) -> Any:
    """The encoder with random weights, ready to be called."""
    torch.manual_seed(0)
    with torch.device(device):
        return Encoder(shape, pooled=pooled).to(dtype).eval()


def seconds(work: Callable[[], Any], device: str) -> float:
    """Of one call: a mean over at least `LEAST_S`, after one call to warm up, until the card has finished."""
    work()
    _finish(device)
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < LEAST_S:
        work()
        calls += 1
        _finish(device)
    return (time.perf_counter() - start) / calls


def ceiling(dtype: Any, device: str) -> float:
    """Operations a second of a product of large matrices."""
    side = MATRIX[device]
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return 2.0 * side**3 / seconds(lambda: left @ right, device)


def device_name(device: str) -> str:
    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"CPU, {torch.get_num_threads()} threads, torch {torch.__version__}"


def _finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
