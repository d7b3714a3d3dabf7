"""What embedding.py and reranking.py share: their options, and a line for each batch size and dtype."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.gpu.shapes import Shape, ceiling, device_name, encoder, seconds

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def measure(about: str, shape: Shape, unit: str, tokens: int, arguments: Sequence[str] | None, *, pooled: bool) -> int:
    """Print `unit` and tokens a second, operations, and their share of the ceiling; `tokens` a text unless given."""
    options = _options(about, tokens).parse_args(arguments)
    print(f"{shape.name}: {device_name(options.device)}, {options.tokens} tokens a text")
    with torch.inference_mode():
        for name in options.dtypes:
            most = ceiling(DTYPES[name], options.device)
            print(f"{name}: ceiling {most / 1e12:.2f} TFLOPS")
            model = encoder(shape, DTYPES[name], options.device, pooled=pooled)
            for batch in options.batches:
                _line(model, shape, unit, batch, most, options)
    return 0


def _line(model: Any, shape: Shape, unit: str, batch: int, most: float, options: Any) -> None:
    ids = torch.randint(shape.vocabulary, (batch, options.tokens), device=options.device)
    try:
        texts = batch / seconds(lambda: model(ids), options.device)
    except torch.OutOfMemoryError:
        print(f"  batch {batch:>5}: more than the card's memory")
        return
    reached = texts * shape.operations(options.tokens)
    rates = f"{texts:>10,.1f} {unit}/s {texts * options.tokens:>13,.0f} tokens/s"
    print(
        f"  batch {batch:>5}: {rates} {reached / 1e12:>8.2f} TFLOPS {reached / most:>6.0%} of the ceiling", flush=True
    )


def _options(about: str, tokens: int) -> argparse.ArgumentParser:
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if cuda else "cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128, 512] if cuda else [1, 8, 32])
    kinds = ["float32", "float16", "bfloat16"] if cuda else ["float32", "bfloat16"]
    parser.add_argument("--dtypes", choices=DTYPES, nargs="+", default=kinds)
    parser.add_argument("--tokens", type=int, default=tokens, help="of each text; none is padded")
    return parser
