"""The GPU benchmark: its small shapes on any machine, what it says of what it skips, and its counts of operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
for library in ("sentence_transformers", "peft", "faiss"):
    pytest.importorskip(library)

from benchmarks import gpu  # noqa: E402

pytestmark = pytest.mark.models


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The benchmark sets the number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def by_part(output: str) -> dict[str, list[str]]:
    """The lines under the name of each part."""
    parts: dict[str, list[str]] = {}
    for line in filter(None, output.splitlines()[1:]):  # training a tokenizer prints empty lines
        if line in gpu.PARTS:
            parts[line] = []
        else:
            parts[list(parts)[-1]].append(line)
    return parts


def test_all_parts_run_with_small_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(tiny=True) == 0
    parts = by_part(capsys.readouterr().out)
    assert list(parts) == list(gpu.PARTS)
    assert not [line for lines in parts.values() for line in lines if "failed" in line]
    for precision in gpu.PRECISIONS:
        assert sum(f", {precision}, batch" in line for line in parts["encoders"]) == len(gpu.TINY.batches)
    assert [line.split(",")[0].strip() for line in parts["cross-encoders"]] == ["reranker"] * 2 + ["verifier"] * 2
    assert "tokens/s" in parts["tuning"][0] and "MFU" in parts["tuning"][0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_what_it_skips(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert gpu.main() == 0
    assert "all parts: skipped: there is no GPU here" in capsys.readouterr().out
    lines = gpu.measure_faiss(gpu.TINY, tmp_path)
    assert next(lines).startswith("CPU: ")
    with pytest.raises(gpu.Skipped, match="this FAISS has no GPU"):
        next(lines)


def counted(call: Callable[[], Any]) -> float:
    """The operations that PyTorch counts in a call."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call()
    return float(counter.get_total_flops())


def test_operations_of_an_encoder_are_those_that_pytorch_counts() -> None:
    from transformers import BertConfig, BertModel

    shape = {**gpu.SMALL, "hidden_size": 64, "intermediate_size": 256}
    model = BertModel(BertConfig(**shape, vocab_size=50, attn_implementation="eager"), add_pooling_layer=False).eval()
    tokens = torch.zeros(3, 40, dtype=torch.long)
    assert counted(lambda: model(tokens)) == pytest.approx(gpu.encoder_operations(shape, [40] * 3), rel=0.001)


def test_operations_of_a_step_are_those_that_pytorch_counts() -> None:
    """Backwards, the first layer needs no gradient of its input, which the formula counts: of 16 layers hardly any."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {**gpu.SMALL_LLAMA, "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 16}
    model = LlamaForCausalLM(LlamaConfig(**shape, attn_implementation="eager"))
    embedded = torch.randn(2, 48, 64, requires_grad=True)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    found = counted(lambda: model(inputs_embeds=embedded, use_cache=False).logits.sum().backward())
    masked_half = 3 * 2 * 16 * 64 * 48**2 * 2  # eager attention computes what the mask then removes
    assert found == pytest.approx(gpu.tuning_operations(shape, 2, 48) + masked_half, rel=0.01)
