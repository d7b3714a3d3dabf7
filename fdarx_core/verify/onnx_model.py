"""Classifiers of transformers on a CPU by onnxruntime, which takes less CPU time for a pair than torch."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fdarx_core.retrieval.models import load_module

_LOG = logging.getLogger(__name__)
_PURPOSE = "an NLI model"
_TOLERANCE = 1e-4
"""The largest difference of logits between the exported and the original model, which rounding alone may cause."""


class OnnxClassifier:
    """A model that was exported to a file; it is called as the original, and returns the same `logits`.

    Each call uses one thread, and `threads` calls may run at once: threads that share a batch wait for each other.
    """

    def __init__(self, file: Path) -> None:
        self._torch, runtime = (load_module(name, _PURPOSE) for name in ("torch", "onnxruntime"))
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        self.threads: int = self._torch.get_num_threads()
        self._session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self._names = [one.name for one in self._session.get_inputs()]
        self.device, self.dtype = self._torch.device("cpu"), self._torch.float32

    def __call__(self, **inputs: Any) -> SimpleNamespace:
        [logits] = self._session.run(None, {name: inputs[name].numpy() for name in self._names})
        return SimpleNamespace(logits=self._torch.from_numpy(logits))


def on_onnxruntime(network: Any, inputs: Sequence[str]) -> Any:
    """Return an `OnnxClassifier` of a model, or the model itself where that fails or onnxruntime is not installed.

    The export is kept in the user's cache folder (XDG_CACHE_HOME, else ~/.cache), under a hash of the weights, the
    configuration and the versions of the libraries, and made once.

    Args:
        network: a sequence classifier of transformers on a CPU, in single precision.
        inputs: the names of its inputs.
    """
    if not (find_spec("onnxruntime") and find_spec("onnx")):
        _LOG.info("onnxruntime or onnx is not installed; the model runs on torch: pip install 'fdarx[models]'")
        return network
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fdarx" / "onnx"
    file = folder / f"{_digest(network, inputs)}.onnx"
    attention = network.config._attn_implementation
    try:
        if not file.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            # onnxruntime optimizes plain attention, and not the operations that the other kinds are exported as
            network.set_attn_implementation("eager")
            _export(network, inputs, file)
        return OnnxClassifier(file)
    except Exception as error:  # torch and onnxruntime raise many kinds
        network.set_attn_implementation(attention)
        _LOG.warning("%s runs on torch, its export to ONNX failed: %s", type(network).__name__, error)
        return network


def _digest(network: Any, inputs: Sequence[str]) -> str:
    """Return a hash of what an export depends on."""
    versions = [version(name) for name in ("torch", "transformers", "onnx")]
    found = hashlib.sha256(repr((network.config.to_json_string(), versions, inputs)).encode())
    for weight in network.state_dict().values():
        found.update(weight.contiguous().numpy())
    return found.hexdigest()[:32]


def _export(network: Any, inputs: Sequence[str], file: Path) -> None:
    """Export a model to a file, which appears whole or not at all. Raises ValueError where the logits differ."""
    torch = load_module("torch", _PURPOSE)
    axes = {name: {0: "pairs", 1: "tokens"} for name in inputs}
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / file.name
        with warnings.catch_warnings(), _first_token(network):
            warnings.simplefilter("ignore")  # of what a trace fixes: the comparison below would show it
            torch.onnx.export(
                network, (), made, kwargs=_sample(torch, inputs, 2, 16), input_names=[*inputs],
                output_names=["logits"], dynamic_axes=axes, dynamo=False,
            )  # fmt: skip
        sample = _sample(torch, inputs, 3, 40)
        with torch.inference_mode():
            off = (OnnxClassifier(made)(**sample).logits - network(**sample).logits).abs().max().item()
        if not off <= _TOLERANCE:
            raise ValueError(f"the logits differ by {off:.2g}")
        made.replace(file)


def _sample(torch: Any, inputs: Sequence[str], rows: int, tokens: int) -> dict[str, Any]:
    ids = torch.arange(rows * tokens).reshape(rows, tokens)
    return {name: ids if name == "input_ids" else torch.full_like(ids, name == "attention_mask") for name in inputs}


def _first_token(network: Any) -> AbstractContextManager[Any]:
    """Let the last layer of a model in BERT's form compute the first token alone, the only one that its head reads."""
    try:
        output = network.base_model.encoder.layer[-1].attention.output
    except AttributeError:
        return nullcontext()
    handle: AbstractContextManager[Any] = output.register_forward_pre_hook(
        lambda _, given: tuple(one[:, :1] for one in given)
    )
    return handle
