"""Local models on a GPU: encoders, rerankers, verifiers, FAISS and steps of fine-tuning, in shares of a ceiling.

    python -m benchmarks.gpu [--tiny] [--parts encoders ...]    # make bench-gpu

The ceiling is the rate of a large matrix product in the same precision, measured on the same device in the same run. A
share counts the operations that tokens of texts need; padding, tokenizing, launches and memory traffic lower it. Models
have random weights, in the shapes of MiniLM-L6, BGE large, Llama 3.2 1B and Llama 3.1 8B. A part that cannot run says
why, and the others go on. With --tiny, small shapes run on any machine, so that the script itself can be tested: those
figures say nothing about a GPU. Exits 1 where FAISS on the GPU finds something else than on the CPU.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from benchmarks import run
from fdarx_core.retrieval.encoders import Vectors, bge_reranker
from fdarx_core.retrieval.index.vectors import load_faiss
from fdarx_core.retrieval.models import device
from fdarx_core.tuning.answerer_training import TuningSpec, load_model, lora_config
from fdarx_core.tuning.trainer import load_library
from fdarx_core.verify import TextPair
from fdarx_core.verify.cross_encoder import CrossEncoder
from tests.retrieval import tiny_rerankers
from tests.verify import tiny_nli

Precision = Literal["float32", "float16", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "bfloat16")
Shape = Mapping[str, Any]

MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
BGE_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
LLAMA_1B = {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 8192, "vocab_size": 128_256, "tie_word_embeddings": True,
}  # fmt: skip
LLAMA_8B = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14_336, "vocab_size": 128_256,
}  # fmt: skip
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
SMALL_LLAMA = {**SMALL, "num_key_value_heads": 1, "vocab_size": 300}

ROUNDS = 3
TOP, DIMENSIONS = 10, 384
RERANK_BATCH, VERIFY_BATCH = 32, 16
SAME_SCORES = 1e-3
"""The most by which the k-th scores of CPU and GPU may differ: both sum in single precision, in another order."""
GIB = 2**30


@dataclass(frozen=True)
class WorkloadSize:
    """The sizes of all parts."""

    matrix: int
    texts: int
    sentences: int
    batches: tuple[int, ...]
    pairs: int
    vectors: int
    queries: int
    encoders: Mapping[str, Shape]
    cross_encoder: Shape
    decoders: Mapping[str, Shape]
    sequences: int
    tokens: int


FULL = WorkloadSize(
    8192, 2048, 12, (16, 64, 256, 1024), 2048, 1_000_000, 1024,
    {"MiniLM-L6": MINILM, "BGE large": BGE_LARGE}, BGE_LARGE, {"1B": LLAMA_1B, "8B": LLAMA_8B}, 4, 2048,
)  # fmt: skip
TINY = WorkloadSize(128, 24, 3, (4, 8), 24, 2000, 16, {"small": SMALL}, SMALL, {"small": SMALL_LLAMA}, 2, 64)


class Skipped(Exception):
    """A part can't run here; the message says why."""


def _torch() -> Any:
    import torch
    from transformers.utils import logging

    logging.set_verbosity_error()  # it would report that encoders have no classifier
    return torch


def seconds(call: Callable[[], Any]) -> float:
    """Return the median time of a call after one to warm up, until the device has finished."""
    taken = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        call()
        if device() == "cuda":
            _torch().cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return median(taken[1:])


@cache
def ceiling(precision: Precision, size: int) -> float:
    """Return the operations a second of the product of two square matrices."""
    torch = _torch()
    left, other = (torch.randn(size, size, device=device()).to(getattr(torch, precision)) for _ in range(2))
    return 2 * size**3 / seconds(lambda: left @ other)


def encoder_operations(shape: Shape, lengths: Sequence[int]) -> float:
    """Return the operations of an encoder on texts of so many tokens, without padding.

    A token passes the matrices of each layer (2 operations a weight), and is compared with each token of its text.
    """
    width, layers = shape["hidden_size"], shape["num_hidden_layers"]
    weights = layers * (4 * width**2 + 2 * width * shape["intermediate_size"])
    return float(sum(2 * weights * length + 4 * layers * width * length**2 for length in lengths))


def decoder_weights(shape: Shape) -> int:
    """Return the weights of a Llama that a token passes: those of its layers, and the output."""
    width, group = shape["hidden_size"], shape["num_key_value_heads"] / shape["num_attention_heads"]
    layer = (2 + 2 * group) * width**2 + 3 * width * shape["intermediate_size"]
    return int(shape["num_hidden_layers"] * layer + width * shape["vocab_size"])


def tuning_operations(shape: Shape, sequences: int, tokens: int) -> float:
    """Return the operations of a step of LoRA on full sequences, without activations that are computed again.

    The base model's weights need no gradient: 2 operations a weight forwards and 2 backwards. Attention, of which the
    causal mask leaves half, needs twice as many backwards as forwards. The adapter's own weights are left out.
    """
    attention = 2 * shape["num_hidden_layers"] * shape["hidden_size"] * tokens**2
    return float(sequences * (4 * decoder_weights(shape) * tokens + 3 * attention))


def token_counts(directory: str, *texts: Sequence[str]) -> list[int]:
    """Return the tokens that a model reads of each text, or of each pair of two lists, at most 512."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    return [len(ids) for ids in tokenizer(*map(list, texts), truncation=True, max_length=512)["input_ids"]]


def measure_ceiling(scale: WorkloadSize, folder: Path) -> Iterator[str]:
    """Yield the rate of matrix products in each precision."""
    for precision in PRECISIONS:
        rate = ceiling(precision, scale.matrix)
        yield f"{precision}: {rate / 1e12:.3g} TFLOP/s, matrices of {scale.matrix} × {scale.matrix}"


def measure_encoders(scale: WorkloadSize, folder: Path) -> Iterator[str]:
    """Yield the throughput of encoders by precision and batch, tokenizing included."""
    from sentence_transformers import SentenceTransformer

    texts = tiny_rerankers.passages(scale.texts, scale.sentences)
    for name, shape in scale.encoders.items():
        directory = tiny_rerankers.cross_encoder("bert", folder / name, shape)
        lengths = token_counts(directory, texts)
        for precision in PRECISIONS:
            kind = {"dtype": getattr(_torch(), precision)}
            model = SentenceTransformer(directory, device=device(), model_kwargs=kind)
            model.max_seq_length = 512
            for batch in scale.batches:
                taken = seconds(partial(model.encode, texts, batch_size=batch, show_progress_bar=False))
                share = encoder_operations(shape, lengths) / taken / ceiling(precision, scale.matrix)
                rates = f"{len(texts) / taken:,.0f} texts/s, {sum(lengths) / taken:,.0f} tokens/s"
                yield f"{name}, {precision}, batch {batch}: {rates}, {share:.1%} of the ceiling"


def measure_cross_encoders(scale: WorkloadSize, folder: Path) -> Iterator[str]:
    """Yield pairs a second of reranker and verifier: all in one call, sorted by length, or in order of arrival."""
    sentences, texts = tiny_rerankers.sentences(), tiny_rerankers.passages(scale.pairs, scale.sentences)
    questions = [sentences[number % len(sentences)] for number in range(len(texts))]
    reranker = tiny_rerankers.cross_encoder("bert", folder / "reranker", scale.cross_encoder)
    verifier = tiny_nli.cross_encoder("bert", folder / "verifier", sizes=dict(scale.cross_encoder))
    engine = CrossEncoder(verifier, batch=VERIFY_BATCH)
    operations = encoder_operations(scale.cross_encoder, token_counts(reranker, questions, texts))
    limit = ceiling("float16" if device() == "cuda" else "float32", scale.matrix)
    calls: list[tuple[str, Callable[[Any], Any], list[Any], int]] = [
        ("reranker", bge_reranker(reranker), list(zip(questions, texts, strict=True)), RERANK_BATCH),
        ("verifier", engine.infer, list(map(TextPair, texts, questions)), VERIFY_BATCH),
    ]
    for name, call, pairs, batch in calls:
        parts = [pairs[start : start + batch] for start in range(0, len(pairs), batch)]
        for order, batches in (("sorted by length", [pairs]), ("in order of arrival", parts)):
            taken = seconds(lambda call=call, batches=batches: [call(part) for part in batches])  # type: ignore[misc]
            share = operations / taken / limit
            yield f"{name}, batch {batch}, {order}: {len(pairs) / taken:,.0f} pairs/s, {share:.1%} of the ceiling"


def measure_faiss(scale: WorkloadSize, folder: Path) -> Iterator[str]:
    """Yield queries a second on CPU and GPU. Raises ValueError where the GPU finds something else."""
    faiss = load_faiss()
    if faiss is None:
        raise Skipped("FAISS is not installed")
    vectors, queries = unit_vectors(scale.vectors), unit_vectors(scale.queries, seed=1)
    index = faiss.IndexFlatIP(DIMENSIONS)
    index.add(vectors)
    taken = seconds(partial(index.search, queries, TOP))
    yield f"CPU: {len(queries) / taken:,.0f} queries/s over {len(vectors):,} vectors of {DIMENSIONS}"
    if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        raise Skipped("this FAISS has no GPU (faiss-cpu is installed, or there is no card)")
    resources = faiss.StandardGpuResources()
    on_gpu = faiss.index_cpu_to_gpu(resources, 0, index)
    taken = seconds(partial(on_gpu.search, queries, TOP))
    worst = float(np.abs(on_gpu.search(queries, TOP)[0] - index.search(queries, TOP)[0]).max())
    yield f"GPU: {len(queries) / taken:,.0f} queries/s; scores within {worst:.1e} of the CPU's"
    if worst > SAME_SCORES:
        raise ValueError(f"the scores of CPU and GPU differ by {worst:.1e}, more than {SAME_SCORES:.0e}")


def unit_vectors(count: int, seed: int = 0) -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSIONS), dtype=np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def measure_tuning(scale: WorkloadSize, folder: Path) -> Iterator[str]:
    """Yield tokens a second, memory, and the share of the ceiling (MFU) of a step of `fdarx finetune`'s model."""
    for name, shape in scale.decoders.items():
        needed = 2 * decoder_weights(shape)
        try:
            check_room(needed, folder)
            yield f"{name}: {tuning_line(shape, scale, random_llama(shape, folder / name))}"
        except Skipped as reason:
            yield f"{name}: skipped: {reason}"
        finally:
            shutil.rmtree(folder / name, ignore_errors=True)
            gc.collect()
            if device() == "cuda":
                _torch().cuda.empty_cache()


def check_room(needed: int, folder: Path) -> None:
    """Raise Skipped where disk or GPU do not hold a model of so many bytes, with its activations."""
    free = {"disk": shutil.disk_usage(folder).free}
    if device() == "cuda":
        free["GPU"] = _torch().cuda.mem_get_info()[0]
    for place, room in free.items():
        if room < 1.5 * needed + GIB:
            raise Skipped(f"{room / GIB:.0f} GiB of the {place} are free, {(1.5 * needed + GIB) / GIB:.0f} are needed")


def random_llama(shape: Shape, folder: Path) -> str:
    """Write a Llama with random weights in bfloat16, on a CPU in single precision; return its directory."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch = _torch()
    torch.manual_seed(0)
    precision = torch.bfloat16 if device() == "cuda" else torch.float32
    with torch.device(device()):
        model = LlamaForCausalLM(LlamaConfig(**shape, max_position_embeddings=8192)).to(precision)
    model.save_pretrained(folder)
    return str(folder)


def tuning_line(shape: Shape, scale: WorkloadSize, directory: str) -> str:
    """Return what a step takes, with gradient checkpointing as on a GPU of `fdarx finetune`."""
    torch = _torch()
    spec = TuningSpec(model=directory)
    model = load_library("peft").get_peft_model(load_model(spec), lora_config(spec)).to(device())
    model.enable_input_require_grads()  # else the checkpoints of a frozen model keep no gradients
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=1e-4)
    drawn = np.random.default_rng(0).integers(shape["vocab_size"], size=(scale.sequences, scale.tokens)).tolist()
    sequences = [torch.tensor([tokens], device=device()) for tokens in drawn]

    if device() == "cuda":
        torch.cuda.reset_peak_memory_stats()

    def step() -> None:
        for sequence in sequences:
            (model(input_ids=sequence, labels=sequence).loss / len(sequences)).backward()
        optimizer.step()
        optimizer.zero_grad()

    taken = seconds(step)
    limit = ceiling("bfloat16" if device() == "cuda" else "float32", scale.matrix)
    share = tuning_operations(shape, scale.sequences, scale.tokens) / taken / limit
    memory = f"{torch.cuda.max_memory_allocated() / GIB:.1f} GiB" if device() == "cuda" else "not measured on a CPU"
    size = f"{scale.sequences} × {scale.tokens} tokens"
    rate = scale.sequences * scale.tokens / taken
    return f"{rate:,.0f} tokens/s, {share:.1%} of the ceiling (MFU), memory {memory}; steps of {size}"


PARTS: dict[str, Callable[[WorkloadSize, Path], Iterator[str]]] = {
    "ceiling": measure_ceiling,
    "encoders": measure_encoders,
    "cross-encoders": measure_cross_encoders,
    "faiss": measure_faiss,
    "tuning": measure_tuning,
}


def main(*, tiny: bool = False, parts: list[str] | None = None) -> int:
    """Run the parts, all by default; return 1 where one of them fails."""
    if device() == "cpu" and not tiny:
        print("all parts: skipped: there is no GPU here; --tiny runs small shapes on a CPU")
        return 0
    if tiny:
        _torch().set_num_threads(1)
    name = _torch().cuda.get_device_name() if device() == "cuda" else "CPU"
    print(f"{name}, torch {_torch().__version__}{', small shapes: the figures mean nothing' if tiny else ''}")
    failed = 0
    for part in parts or PARTS:
        print(f"\n{part}")
        with tempfile.TemporaryDirectory() as folder:
            try:
                for line in PARTS[part](TINY if tiny else FULL, Path(folder)):
                    print(f"  {line}", flush=True)
            except (Skipped, ImportError) as reason:
                print(f"  skipped: {reason}")
            except (ValueError, RuntimeError) as error:
                failed += 1
                print(f"  failed: {error}")
    return int(failed > 0)


if __name__ == "__main__":
    run(main)
