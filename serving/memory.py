"""Estimates the memory of a served model, and how many labels its cache holds: `python -m serving.memory FILE…`.

The estimate needs only the file; the engine's own measurement is in its log.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from fdarx_core.llm import ModelsError
from serving.served_model import ServedModel, load_served

GIB = 2**30
RESERVE_GIB = 3.0
"""GiB of a GPU for activations, CUDA graphs and libraries. vLLM measures 1 to 3 GiB at 2,048 to 8,192 tokens a step."""
DEFAULT_BLOCK_TOKENS = 16
"""Tokens per block of vLLM's cache, where `engine` has no block_size."""
LABEL_TOKENS = 15_000
"""Tokens of a full label in prompts: over 699 labels, at 4 characters a token, the median is 14,600, the mean 14,700,
the 95th percentile 24,400 and the maximum 164,600."""
QUESTIONS = 24
"""Questions per label in the published benchmark, which has 17,000 questions on 700 labels."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory in GiB of one GPU, or on cpu of a replica.

    Attributes:
        total: what the engine takes: weights, reserve and cache.
        weights: the model's weights.
        reserve: activations, CUDA graphs and libraries.
        cache: the key-value cache.
        token_bytes: bytes of a cached token on one GPU.
        tokens: tokens that the cache of a replica holds.
    """

    total: float
    weights: float
    reserve: float
    cache: float
    token_bytes: float
    tokens: int


def estimate_memory(model: ServedModel) -> MemoryEstimate:
    """Estimate the memory of a model. Raises ModelsError if a field is missing, or if the model does not fit."""
    where, size, gpus = f"model {model.name}", model.size, model.tensor_parallel
    if size is None:
        raise ModelsError(f"{where}: size: the estimate needs it; give parameters, layers ...")
    weights = size.parameters * 1e9 * size.weight_bytes / gpus / GIB
    # a key and a value for each layer and head; a GPU has at least one head
    token_bytes = 2 * size.layers * max(1.0, size.kv_heads / gpus) * size.head_dim * size.kv_bytes
    if model.device == "cpu":
        if model.cache_gib is None:
            raise ModelsError(f"{where}: cache_gib: give the size of the cache; memory on cpu is shared")
        total, reserve, cache = weights + model.cache_gib, 0.0, model.cache_gib
    elif model.card_gib is None:
        raise ModelsError(f"{where}: card_gib: the estimate needs the memory of a GPU; give it")
    else:
        total, reserve = model.card_gib * model.gpu_memory, RESERVE_GIB
        left = total - weights - reserve
        cache = left if model.cache_gib is None else model.cache_gib
        if cache > model.card_gib - weights - reserve or left <= 0:
            raise ModelsError(_too_large(model, model.card_gib, weights))
    block = int(model.engine.get("block_size", DEFAULT_BLOCK_TOKENS))
    tokens = int(cache * GIB / token_bytes) // block * block
    if tokens < model.context_length:
        raise ModelsError(
            f"{where}: context_length: the cache of {cache:.1f} GiB per GPU holds {tokens:,} tokens, fewer than "
            f"{model.context_length:,}; raise tensor_parallel or gpu_memory, or lower context_length"
        )
    return MemoryEstimate(total, weights, reserve, cache, token_bytes, tokens)


def _too_large(model: ServedModel, card_gib: float, weights: float) -> str:
    cache = "" if model.cache_gib is None else f", and {model.cache_gib:.1f} GiB of cache,"
    gpus = "1 GPU" if model.tensor_parallel == 1 else f"{model.tensor_parallel} GPUs"
    return (
        f"model {model.name}: tensor_parallel: {weights:.1f} GiB of weights per GPU, with {RESERVE_GIB:.1f} GiB for "
        f"activations and libraries{cache} do not fit into {card_gib * model.gpu_memory:.1f} GiB "
        f"({model.gpu_memory:.0%} of {card_gib:g}); use more than {gpus}, or a quantized model"
    )


def describe_memory(model: ServedModel, label_tokens: int = LABEL_TOKENS) -> list[str]:
    """Return the estimate as lines of text, as in the comments of `serving/models/`. Raises as `estimate_memory`."""
    memory = estimate_memory(model)
    where = f"of a GPU ({model.gpu_memory:.0%} of {model.card_gib:g} GiB)" if memory.reserve else "of memory"
    reserve = f" + {memory.reserve:.1f} activations and libraries" if memory.reserve else ""
    labels, contexts = memory.tokens / label_tokens, memory.tokens / model.context_length
    concurrent_labels = min(model.concurrent, ceil(model.concurrent / QUESTIONS) + 1)
    return [
        f"{memory.total:.1f} GiB {where}: {memory.weights:.1f} weights{reserve} + {memory.cache:.1f} cache",
        f"cache of a replica: {memory.tokens:,} tokens, {memory.token_bytes / 1024:g} KiB per token and GPU",
        f"the cache holds {labels:.1f} labels of {label_tokens:,} tokens, or {contexts:.1f} contexts of "
        f"{model.context_length:,} tokens",
        f"{model.concurrent} concurrent sequences, ordered by label: {concurrent_labels} labels at a time",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the estimate of each file; return 2 if a model does not fit."""
    parser = argparse.ArgumentParser(prog="python -m serving.memory", description="Does a served model fit its GPUs?")
    parser.add_argument("files", nargs="+", metavar="FILE", help="served models, as in serving/models/")
    parser.add_argument("--label-tokens", type=int, default=LABEL_TOKENS, help="tokens of one full label")
    options = parser.parse_args(arguments)
    status = 0
    for file in options.files:
        try:
            model = load_served(file)
            print(f"{model.name}\n  " + "\n  ".join(describe_memory(model, options.label_tokens)))
        except ModelsError as error:
            print(error, file=sys.stderr)
            status = 2
    return status


if __name__ == "__main__":
    sys.exit(main())
