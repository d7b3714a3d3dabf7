"""A causal language model with a LoRA adapter: loading, the loss on answers, and what an adapter is saved as."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from fdarx_core.retrieval.models import device, load_module
from fdarx_core.tuning.packing import NOT_COUNTED, Sequences
from fdarx_core.tuning.recipe import Recipe

_PURPOSE = "fine-tuning"
ADAPTER_FILES = ("adapter_model.safetensors", "adapter_config.json")
"""What PEFT and vLLM read; the configuration goes last, as it is what they look for first."""


class Tuned:
    """A base model of a local directory and an adapter on it: the one given, else a new one that changes nothing yet.

    On a GPU the base is in bf16 and the adapter in float32, on a CPU both are in float32. `on` is a device, the first
    GPU where none is given. `frugal` computes activations anew on the way back rather than keeping them (gradient
    checkpointing). Raises ModelMissing without the extra.
    """

    def __init__(
        self, directory: str, recipe: Recipe, *, adapter: str | None = None, frugal: bool = False, on: str | None = None
    ) -> None:
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # what PEFT still calls
        self.torch = load_module("torch", _PURPOSE)
        self._peft = load_module("peft", _PURPOSE)
        self.device = on or device()
        self._on_gpu = self.device.startswith("cuda")
        base = _loaded(directory, self.torch.bfloat16 if self._on_gpu else self.torch.float32).to(self.device)
        if frugal:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.torch.manual_seed(recipe.seed)
        if adapter is None:
            self.model = self._peft.get_peft_model(base, self._config(recipe))
        else:
            self.model = self._peft.PeftModel.from_pretrained(base, adapter)
        self.model.eval()

    def _config(self, recipe: Recipe) -> Any:
        return self._peft.LoraConfig(
            r=recipe.rank, lora_alpha=recipe.alpha, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
        )

    @property
    def parameters(self) -> list[Any]:
        """Those that are trained, in an order that is the same in every process."""
        return [one for one in self.model.parameters() if one.requires_grad]

    def loss(self, row: Sequences) -> Any:
        """The cross-entropy in nats of the answers' tokens, summed, as a tensor without dimensions."""
        torch = self.torch
        self.model.train(torch.is_grad_enabled())  # transformers checkpoints gradients in this mode alone
        labels = torch.tensor(row.labels, device=self.device)
        told = torch.nonzero(labels[1:] != NOT_COUNTED).flatten()
        with self.precision():
            logits = self.model(
                input_ids=torch.tensor([row.tokens], device=self.device),
                position_ids=torch.tensor([row.positions], device=self.device),
                use_cache=False,  # with a cache, masks would no longer follow the positions
                logits_to_keep=told,
            ).logits
        return torch.nn.functional.cross_entropy(logits[0].float(), labels[1:][told], reduction="sum")

    def precision(self) -> AbstractContextManager[Any]:
        """bf16 on a GPU for what the block computes, else nothing."""
        return self.torch.autocast("cuda", self.torch.bfloat16) if self._on_gpu else nullcontext()

    def weights(self) -> dict[str, Any]:
        """The adapter's, copied to memory, by the names that PEFT saves them under."""
        state = self._peft.get_peft_model_state_dict(self.model)
        return {name: value.detach().cpu().clone() for name, value in state.items()}

    def restore(self, weights: Mapping[str, Any]) -> None:
        """Takes back what `weights` gave."""
        self._peft.set_peft_model_state_dict(self.model, dict(weights))

    def save_adapter(self, folder: str) -> list[Path]:
        """Writes `ADAPTER_FILES` into a local folder, in that order."""
        self.model.save_pretrained(folder)
        return [Path(folder) / name for name in ADAPTER_FILES]

    @contextmanager
    def without_adapter(self) -> Iterator[None]:
        """The base model as it was, for as long as the block lasts."""
        with self.model.disable_adapter():
            yield


def _loaded(directory: str, kind: Any) -> Any:
    """Without dropout: it would draw otherwise on each number of workers."""
    library = load_module("transformers", _PURPOSE)
    config = library.AutoConfig.from_pretrained(directory, local_files_only=True)
    for name, value in config.to_dict().items():
        if isinstance(value, float) and ("dropout" in name or name.endswith("pdrop")):
            setattr(config, name, 0.0)
    return library.AutoModelForCausalLM.from_pretrained(directory, config=config, dtype=kind, local_files_only=True)
