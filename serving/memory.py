"""Whether a served model fits its cards, and how many labels its cache holds: `python -m serving.memory FILE…`.

Worked out from what the file states, before a card is paid for; the engine's own figure stands in its log.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from fdarx_core.llm import ModelsError
from serving.served_model import ModelSize, ServedModel, load_served

GIB = 2**30
RESERVE_GIB = 3.0
"""Of a card, for activations, CUDA graphs and libraries. vLLM measures it at start: 1 to 3 GiB at 2,048 to 8,192 tokens
a step."""
DEFAULT_BLOCK_TOKENS = 16
"""Tokens that vLLM allots cache for at once, where `engine` has no block_size."""
LABEL_TOKENS = 15_000
"""Of a full label as models are shown it: 14,600 in the median and 14,700 on average over 699 labels at 4 characters a
token; 24,400 at the 95th percentile, 164,600 at most."""
QUESTIONS = 24
"""On one label, in the published benchmark: 17,000 on 700."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Of one card in GiB, or on cpu of a replica: `card` is what the engine takes, the next three are its parts.

    `token_bytes` is a token's share of the cache on one card; `tokens` is what the cache of a replica holds.
    """

    card: float
    weights: float
    reserve: float
    cache: float
    token_bytes: float
    tokens: int


def estimate_memory(model: ServedModel) -> MemoryEstimate:
    """Raises ModelsError, which says what is missing or by how much the model does not fit."""
    where, size = f"model {model.name}", model.size
    if size is None:
        raise ModelsError(f"{where}: size: nothing can be worked out without it; give parameters, layers ...")
    weights = size.parameters * 1e9 * size.weight_bytes / model.tensor_parallel / GIB
    token_bytes = _token_bytes(size, model.tensor_parallel)
    if model.device == "cpu":
        if model.cache_gib is None:
            raise ModelsError(f"{where}: cache_gib: say how much the cache may take; memory on cpu is shared")
        card, reserve, cache = weights + model.cache_gib, 0.0, model.cache_gib
    elif model.card_gib is None:
        raise ModelsError(f"{where}: card_gib: nothing can be worked out without the memory of a card; give it")
    else:
        card, reserve = model.card_gib * model.gpu_memory, RESERVE_GIB
        left = card - weights - reserve
        cache = left if model.cache_gib is None else model.cache_gib
        if cache > model.card_gib - weights - reserve or left <= 0:
            raise ModelsError(_too_large(model, weights))
    block = int(model.engine.get("block_size", DEFAULT_BLOCK_TOKENS))
    tokens = int(cache * GIB / token_bytes) // block * block
    if tokens < model.context_length:
        raise ModelsError(
            f"{where}: context_length: the cache of {cache:.1f} GiB a card holds {tokens:,} tokens, fewer than "
            f"{model.context_length:,}; raise tensor_parallel or gpu_memory, or shorten it"
        )
    return MemoryEstimate(card, weights, reserve, cache, token_bytes, tokens)


def _token_bytes(size: ModelSize, cards: int) -> float:
    """Of one cached token on one card: a key and a value a layer and head; a card holds one head at least."""
    return 2 * size.layers * max(1.0, size.kv_heads / cards) * size.head_dim * size.kv_bytes


def _too_large(model: ServedModel, weights: float) -> str:
    assert model.card_gib
    cache = "" if model.cache_gib is None else f" and {model.cache_gib:.1f} of cache"
    room = f"{model.card_gib * model.gpu_memory:.1f} ({model.gpu_memory:.0%} of {model.card_gib:g})"
    return (
        f"model {model.name}: tensor_parallel: {weights:.1f} GiB of weights a card, {RESERVE_GIB:.1f} beside them"
        f"{cache} do not fit into {room}; spread it over more than {_cards(model.tensor_parallel)}, or quantize it"
    )


def _cards(number: int) -> str:
    return "1 card" if number == 1 else f"{number} cards"


def describe_memory(model: ServedModel, label_tokens: int = LABEL_TOKENS) -> list[str]:
    """The sums in words, as they stand in the comments of `serving/models/`. Raises ModelsError as `work_out` does."""
    memory = estimate_memory(model)
    where = f"a card ({model.gpu_memory:.0%} of {model.card_gib:g} GiB)" if memory.reserve else "of memory"
    reserve = f" + {memory.reserve:.1f} beside them" if memory.reserve else ""
    labels, contexts = memory.tokens / label_tokens, memory.tokens / model.context_length
    at_work = min(model.concurrent, ceil(model.concurrent / QUESTIONS) + 1)
    return [
        f"{memory.card:.1f} GiB {where}: {memory.weights:.1f} weights{reserve} + {memory.cache:.1f} cache",
        f"cache of a replica: {memory.tokens:,} tokens, at {memory.token_bytes / 1024:g} KiB a token and card",
        f"it holds {labels:.1f} labels of {label_tokens:,} tokens, {contexts:.1f} contexts of {model.context_length:,}",
        f"{model.concurrent} sequences at once, label by label: {at_work} labels",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the sums of each file; 2 where one does not fit."""
    parser = argparse.ArgumentParser(prog="python -m serving.memory", description="Does a served model fit its cards?")
    parser.add_argument("files", nargs="+", metavar="FILE", help="served models, as in serving/models/")
    parser.add_argument("--label-tokens", type=int, default=LABEL_TOKENS, help="tokens of one full label")
    options = parser.parse_args(arguments)
    worst = 0
    for file in options.files:
        try:
            model = load_served(file)
            print(f"{model.name}\n  " + "\n  ".join(describe_memory(model, options.label_tokens)))
        except ModelsError as error:
            print(error, file=sys.stderr)
            worst = 2
    return worst


if __name__ == "__main__":
    sys.exit(main())
