"""Prefill and decode throughput of a replica, computed from the GPU's data and compared with published measurements.

    python -m benchmarks.throughput [FILE ...]

The time of prefill is the time of its arithmetic: two operations per weight and token, and attention over the preceding
tokens. The time of decode is that of the arithmetic and the memory accesses: the weights are read once per step for all
sequences, and the cache of a sequence is read once per token. A served model reaches the shares of peak and bandwidth
below, which were fitted to measurements on A100 GPUs with long prompts and short replies, as in an evaluation. The
script prints the deviation from each measurement, and the throughput of a replica of each FILE
(serving/models/*.yaml). Exits 1 if a deviation exceeds one third.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks import run
from serving.served_model import ModelSize, load_served

PEAK = 312e12
"""Dense bfloat16 operations per second of an A100. Source: NVIDIA A100 data sheet."""
BANDWIDTH = 2.039e12
"""Memory bandwidth of an A100 SXM 80GB in bytes per second. Source: NVIDIA A100 data sheet."""
MEMORY = 80e9
"""Memory of an A100 in bytes."""
PEAK_SHARE, BANDWIDTH_SHARE = 0.60, 0.75
LABEL_TOKENS = 15_000
"""Mean prompt tokens of a full-label question, for which the prefill throughput is given."""
SWEEP_TOKENS = 4_000
"""Mean prompt tokens of an evaluation in four settings, for which the decode throughput is given."""
MAX_DEVIATION = 1 / 3

HEADS = {
    "meta-llama/Llama-3.1-8B-Instruct": 32,
    "meta-llama/Llama-3.3-70B-Instruct": 64,
    "mistralai/Ministral-3-14B-Instruct-2512": 32,
    "Qwen/Qwen3-14B": 40,
    "Qwen/Qwen3-32B": 64,
}
"""num_attention_heads, from each model's config.json."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A model on one or more GPUs; `heads` is its number of attention heads, `cards` the number of GPUs."""

    size: ModelSize
    heads: int
    cards: int = 1

    def prefill(self, prompt: float) -> float:
        """Return the prompt tokens per second, for prompts of `prompt` tokens."""
        return self.cards / self._arithmetic(prompt / 2)

    def decode(self, context: float, sequences: float) -> float:
        """Return the reply tokens per second of `sequences` parallel sequences, each after `context` tokens."""
        size = self.size
        weights = size.parameters * 1e9 * size.weight_bytes
        cache = 2 * size.layers * size.kv_heads * size.head_dim * size.kv_bytes * context
        cache_memory = 0.9 * MEMORY * self.cards - weights
        at_once = max(1.0, min(sequences, cache_memory / cache))
        seconds = (weights / at_once + cache) / (BANDWIDTH * BANDWIDTH_SHARE) + self._arithmetic(context)
        return self.cards / seconds

    def total(self, prompt: int, reply: int, sequences: int) -> float:
        """Return the tokens per second of prompts and replies together."""
        seconds = prompt / self.prefill(prompt) + reply / self.decode(prompt + reply / 2, sequences)
        return (prompt + reply) / seconds

    def _arithmetic(self, before: float) -> float:
        """Return the seconds of arithmetic on one GPU for a token that follows `before` others."""
        attention = 4 * self.size.layers * self.heads * self.size.head_dim * before
        return (2 * self.size.parameters * 1e9 + attention) / (PEAK * PEAK_SHARE)


_QWEN_14B = Replica(ModelSize(parameters=14.8, layers=40, kv_heads=8, head_dim=128), 40)
_QWEN_32B = Replica(ModelSize(parameters=32.8, layers=64, kv_heads=8, head_dim=128), 64)
_LLAMA_7B = Replica(ModelSize(parameters=6.74, layers=32, kv_heads=32, head_dim=128), 32)
_LLAMA_70B = Replica(ModelSize(parameters=69.0, layers=80, kv_heads=8, head_dim=128), 64, 4)
_GPUSTACK = "docs.gpustack.ai/latest/performance-lab, vLLM 0.11.0 with default settings, one A100 SXM 80GB"
_NVIDIA = "TensorRT-LLM 0.6.1, docs/source/performance.md, A100, FP16"


Published = tuple[str, Replica, tuple[int, int, int], float, str]
"""A measurement: a replica; tokens of prompt and reply, and parallel sequences; tokens per second; the source."""


def deviation(published: Published) -> float:
    """Return the deviation of the computed throughput as a share of the measured one."""
    _, replica, load, measured, _ = published
    return replica.total(*load) / measured - 1


PUBLISHED: list[Published] = [
    ("Qwen3-14B", _QWEN_14B, (2000, 100, 256), 5967.13, _GPUSTACK),
    ("Qwen3-14B", _QWEN_14B, (4000, 200, 256), 5153.42, _GPUSTACK),
    ("Qwen3-14B", _QWEN_14B, (32000, 100, 256), 4430.14, _GPUSTACK),
    ("Qwen3-32B", _QWEN_32B, (2000, 100, 256), 2521.38, _GPUSTACK),
    ("Qwen3-32B", _QWEN_32B, (4000, 200, 256), 1837.08, _GPUSTACK),
    ("Qwen3-32B", _QWEN_32B, (32000, 100, 256), 1798.45, _GPUSTACK),
    ("Llama-2-7B", _LLAMA_7B, (2048, 128, 52), 591 * (2048 + 128) / 128, _NVIDIA),
    ("Llama-2-70B on 4", _LLAMA_70B, (2048, 128, 120), 4 * 79 * (2048 + 128) / 128, _NVIDIA),
]


def derived(path: Path) -> tuple[str, float, float]:
    """Return the model of a file, and the prefill and decode tokens per second of its replica."""
    served = load_served(path)
    if served.size is None or served.model not in HEADS:
        raise SystemExit(f"{path}: add the model's size to the file, and its attention heads to {__name__}")
    replica = Replica(served.size, HEADS[served.model], served.tensor_parallel)
    return served.model, replica.prefill(LABEL_TOKENS), replica.decode(SWEEP_TOKENS, served.concurrent)


def main(*files: Path) -> int:
    """Print the deviations, and the throughput of each file."""
    for published in PUBLISHED:
        name, replica, load, measured, source = published
        figures = (
            f"measured {measured:6.0f} tokens/s, computed {replica.total(*load):6.0f} ({deviation(published):+.0%})"
        )
        print(f"{name:<17} {load[0]:>6}/{load[1]} {figures}  {source}")
    for file in files:
        model, prefill, decode = derived(file)
        print(f"{model}: prefill {prefill:.0f} at {LABEL_TOKENS} tokens, decode {decode:.0f} at {SWEEP_TOKENS}")
    return int(any(abs(deviation(published)) > MAX_DEVIATION for published in PUBLISHED))


if __name__ == "__main__":
    run(main)
