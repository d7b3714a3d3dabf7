"""NLI models by name, each with a pinned revision, and the choice of an engine that needs no download."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fdarx_core.baseline.tokens import vocabulary
from fdarx_core.retrieval.models import ModelMissing

DIRECTORY_VARIABLE = "FDARX_VERIFIER"
"""The environment variable with the directory of the cross-encoder that `auto` takes."""


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model on the hub.

    Attributes:
        hub_name, revision: the model and the commit that is loaded.
        labels: the order of its outputs, where its configuration may not name them; None where it does.
        licence: as the model card states it.
        scores: accuracies that the model card publishes.
    """

    hub_name: str
    revision: str
    labels: Sequence[str] | None
    licence: str
    scores: str


NAMED_MODELS = {name: NamedModel(**fields) for name, fields in vocabulary(__package__, "named_models.yaml").items()}
"""The models that `cross-encoder:NAME` loads; `cross-encoder` alone is the general one."""


def resolve(model: str) -> tuple[str, str | None, Sequence[str] | None]:
    """Return the directory or hub name of a model, its revision (None for the newest), and the order of its outputs.

    Args:
        model: a name of `NAMED_MODELS`, "" for the general one, a directory, or HUB_NAME, HUB_NAME@REVISION.
    """
    if Path(model).is_dir() and model:
        return model, None, None
    if known := NAMED_MODELS.get(model or "general"):
        return known.hub_name, known.revision, known.labels
    name, _, revision = model.partition("@")
    return name, revision or None, None


def default_engine() -> str:
    """Return the name of the engine that needs no download, as `open_engine` takes it.

    The cross-encoder in the directory that FDARX_VERIFIER names; else a named model that is in the local cache of the
    hub; else, and where transformers or torch is not installed, `exact`.

    Raises:
        ModelMissing: FDARX_VERIFIER does not name a directory.
    """
    directory = os.environ.get(DIRECTORY_VARIABLE, "")
    if directory and not Path(directory).is_dir():
        raise ModelMissing(f"{DIRECTORY_VARIABLE}={directory} is not a directory; give that of an NLI cross-encoder")
    if find_spec("transformers") is None or find_spec("torch") is None:
        return "exact"
    if directory:
        return f"cross-encoder:{directory}"
    return next((f"cross-encoder:{name}" for name, one in NAMED_MODELS.items() if _is_cached(one)), "exact")


def _is_cached(model: NamedModel) -> bool:
    from huggingface_hub import try_to_load_from_cache

    def is_cached(file: str) -> bool:
        return isinstance(try_to_load_from_cache(model.hub_name, file, revision=model.revision), str)

    tokenizers = ("tokenizer.json", "vocab.txt", "spm.model")
    weights = ("model.safetensors", "pytorch_model.bin")
    return is_cached("config.json") and any(map(is_cached, weights)) and any(map(is_cached, tokenizers))
