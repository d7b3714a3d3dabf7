"""NLI cross-encoders: their names, their files on a disk or on the hub, their output classes, and loading them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from fdarx_core.retrieval.models import ModelMissing, load_module
from fdarx_core.wording import did_you_mean

DIRECTORY_VARIABLE = "FDARX_VERIFIER"
"""The environment variable with the directory of the cross-encoder that `auto` takes."""


class NamedModel(NamedTuple):
    """A model on the hub, the commit that is loaded, and the order of its outputs where its configuration lacks it."""

    hub_name: str
    revision: str
    labels: Sequence[str] | None = None


NAMED_MODELS = {
    "general": NamedModel(  # licence MIT; MultiNLI matched 0.903
        "MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli", revision="6f5cf0a2b59cabb106aca4c287eed12e357e90eb"
    ),
    "biomedical": NamedModel(  # no licence stated; MultiNLI and MedNLI 0.867
        "pritamdeka/PubMedBERT-MNLI-MedNLI",
        revision="f1b6ce2e0d49f295b4cbcdc56c01b5fab6d068ab",
        labels=("contradiction", "entailment", "neutral"),
    ),
}
"""The models that `cross-encoder:NAME` loads; `cross-encoder` alone is the general one. Source: their model cards."""


def resolve(model: str) -> tuple[str, str | None, Sequence[str] | None]:
    """Return the directory or hub name of a model, its revision (None for the newest), and the order of its outputs.

    Args:
        model: a name of `NAMED_MODELS`, "" for the general one, a directory, or HUB_NAME, HUB_NAME@REVISION.
    """
    if Path(model).is_dir() and model:
        return model, None, None
    if known := NAMED_MODELS.get(model or "general"):
        return known
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
    return next((f"cross-encoder:{name}" for name, model in NAMED_MODELS.items() if _is_cached(model)), "exact")


def _is_cached(model: NamedModel) -> bool:
    from huggingface_hub import try_to_load_from_cache

    def is_cached(file: str) -> bool:
        return isinstance(try_to_load_from_cache(model.hub_name, file, revision=model.revision), str)

    return is_cached("config.json") and any(map(is_cached, _WEIGHTS)) and any(map(is_cached, _TOKENIZERS))


OPTION = "--nli-labels"
_EXAMPLE = f"{OPTION} contradiction,entailment,neutral"

_NOT_LETTER = re.compile(r"[^a-z]+")
_KINDS = {
    "entailment": re.compile(r"entail|support"),
    "not_entailment": re.compile(r"(not?|non)entail"),
    "neutral": re.compile(r"neutral|notenoughinfo|nei$"),
    "contradiction": re.compile(r"contradict|refute"),
}


@dataclass(frozen=True, slots=True)
class OutputClasses:
    """The place of each class among a model's outputs.

    A model of two classes, entailment and not_entailment, can't contradict: `contradiction` is None, and what is not
    entailed counts as neutral.
    """

    entailment: int
    neutral: int
    contradiction: int | None


def classes_of(model: str, outputs: Sequence[str], given: Sequence[str] | None = None) -> OutputClasses:
    """Return the classes of a model from the names of its `outputs`, or from the names in `given`.

    Names are recognized in any case and form (CONTRADICTION, contradictory), and so are those of FEVER (SUPPORTS,
    REFUTES, NOT ENOUGH INFO). Raises `ModelMissing`, with the names and the option to give, if they are not recognized.
    """
    if given is not None and len(given) != len(outputs):
        raise ModelMissing(f"{OPTION} {','.join(given)}: {model} has {len(outputs)} outputs ({', '.join(outputs)})")
    names = outputs if given is None else given
    letters = [_NOT_LETTER.sub("", name.lower()) for name in names]
    kinds = [next((kind for kind, written in _KINDS.items() if written.match(name)), "") for name in letters]
    if sorted(kinds) == ["contradiction", "entailment", "neutral"]:
        return OutputClasses(kinds.index("entailment"), kinds.index("neutral"), kinds.index("contradiction"))
    if sorted(kinds) == ["entailment", "not_entailment"]:
        return OutputClasses(kinds.index("entailment"), kinds.index("not_entailment"), None)
    expected = "entailment, neutral and contradiction, or entailment and not_entailment"
    if given is not None:
        raise ModelMissing(f"{OPTION} {','.join(names)}: expected {expected}, in the order of the outputs of {model}")
    remedy = f"give their order as its model card has it, say {_EXAMPLE}" if len(names) in (2, 3) else "take another"
    raise ModelMissing(f"{model} names its outputs {', '.join(names) or '(none)'}, not {expected}; {remedy}")


PURPOSE = "an NLI model"
_USUAL_LONGEST = 512
"""The tokens that a model reads where neither its configuration nor its tokenizer says it. Source: FAS §4."""
_UNBOUNDED = 10**6
"""Tokenizers whose directory gives no maximum length report 10^30."""
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "sentencepiece.bpe.model", "spiece.model")


def check_nli(model: str, labels: Sequence[str] | None = None, others: Collection[str] = ("auto",)) -> OutputClasses:
    """Return the class of each output of a model without loading its weights; a hub name is looked up.

    `model` is as `resolve` takes it. `labels` names the outputs in order, if the model's configuration
    does not. Raises `ModelMissing` if it is no NLI cross-encoder, or misspelt of `others`, and without the extra.
    """
    near = did_you_mean(model, ("exact", *NAMED_MODELS, *others), cutoff=0.75)
    if near and not {"/", "@"} & {*model} and not Path(model).is_dir():
        raise ModelMissing(f"there is no engine {model}{near}")
    if find_spec("transformers") is None or find_spec("torch") is None:
        raise ModelMissing(f"{PURPOSE} needs transformers and torch: pip install 'fdarx[models]'")
    model, revision, known = resolve(model)
    config = _config(model, revision)
    kinds = config.get("architectures") or []
    if kinds and not any(kind.endswith("ForSequenceClassification") for kind in kinds):
        raise ModelMissing(f"{model} is a {kinds[0]}, no NLI model: its class ends in ForSequenceClassification")
    # a configuration may omit the names of outputs that are only numbered
    named = config.get("id2label") or {number: f"LABEL_{number}" for number in range(2)}
    outputs = [str(name) for _, name in sorted(named.items(), key=lambda item: int(item[0]))]
    return classes_of(model, outputs, known if labels is None else labels)


def name_of(model: str) -> str:
    """Return the last part of the model's path, or of its name on the hub."""
    place, _, _ = resolve(model)
    return Path(place).resolve().name if Path(place).is_dir() else place.rsplit("/", 1)[-1]


def load(model: str, device: str) -> tuple[Any, Any, int]:
    """Load a model in half precision on a GPU, in single precision on a CPU.

    Returns the model on its device, its tokenizer, and the most tokens that it reads, marks included. Raises
    `ModelMissing` if files are missing.
    """
    transformers, torch = (load_module(name, PURPOSE) for name in ("transformers", "torch"))
    model, revision, _ = resolve(model)
    known = {"local_files_only": Path(model).is_dir(), "revision": revision or "main"}
    precision = torch.float16 if device.startswith("cuda") else torch.float32
    tokenizer = transformers.AutoTokenizer.from_pretrained(model, **known)
    if not tokenizer.is_fast or tokenizer.padding_side != "right":
        raise ModelMissing(
            f"{model} has a tokenizer that is not fast, or fills up on the left: take a model of BERT's kind"
        )
    network, found = transformers.AutoModelForSequenceClassification.from_pretrained(
        model, dtype=precision, output_loading_info=True, **known
    )
    if missing := sorted(found["missing_keys"]):
        raise ModelMissing(f"{model} lacks {len(missing)} weights, as {missing[0]}: it was not trained for NLI")
    return network.to(device).eval(), tokenizer, _longest(network, tokenizer)


def _config(model: str, revision: str | None) -> dict[str, Any]:
    folder = Path(model)
    if folder.is_dir():
        file = folder / "config.json"
        if not file.is_file():
            raise ModelMissing(f"{folder} is not a model directory, it has no config.json")
        if not any((folder / f"{name}{end}").is_file() for name in _WEIGHTS for end in ("", ".index.json")):
            raise ModelMissing(f"{folder} has no weights: neither {' nor '.join(_WEIGHTS)}; download the model whole")
        if not any((folder / name).is_file() for name in _TOKENIZERS):
            raise ModelMissing(f"{folder} has no tokenizer: none of {', '.join(_TOKENIZERS)}; download the model whole")
    elif _HUB_NAME.fullmatch(model):
        try:
            hub = load_module("huggingface_hub", PURPOSE)
            file = Path(hub.hf_hub_download(model, "config.json", revision=revision))
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())[:300]
            raise ModelMissing(f"{model} is not a directory, and can't be loaded from the hub: {why}") from error
    else:
        raise ModelMissing(f"{model} is not a directory; give that of a downloaded NLI model, or a name on the hub")
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelMissing(f"{file}: not JSON: {error}; download the model again") from error
    return config


def _longest(network: Any, tokenizer: Any) -> int:
    """Return the smallest maximum length of configuration, position embeddings and tokenizer."""
    found = [getattr(network.config, "max_position_embeddings", None), tokenizer.model_max_length]
    for name, module in network.named_modules():
        if name.endswith("embeddings.position_embeddings") and getattr(module, "padding_idx", None) is not None:
            # RoBERTa's kind counts positions from the one after the padding's
            found.append(module.num_embeddings - module.padding_idx - 1)
    known = [int(length) for length in found if length and 0 < length < _UNBOUNDED]
    return min(known, default=_USUAL_LONGEST)
