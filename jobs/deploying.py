"""Models that a job deploys: their files, and the fleet of the models that it asks."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

from fdarx_core.llm import ModelsError
from fdarx_core.pipeline.executor import ModelFleet
from jobs.progress import ProgressLine
from serving.memory import estimate_memory
from serving.served_model import ServedModel, load_served, missing_model_files

Served = Mapping[str, ServedModel]


def load_deployed(files: Sequence[str], *, to_ask: bool) -> dict[str, ServedModel]:
    """Return the served models of these files, by name.

    Raises ModelsError for a file or a model that can't be used or does not fit its GPUs. If the models will be asked,
    and not only planned with, it is also raised for an incomplete directory, or if vLLM is missing.
    """
    served: dict[str, ServedModel] = {}
    for file in files:
        model = load_served(file)
        if model.name in served:
            raise ModelsError(f"{file}: name: another file of --deploy has {model.name} too; give it another")
        if to_ask and model.is_directory and (fault := missing_model_files(model.model)):
            raise ModelsError(f"{file}: model: {fault}")
        if model.size and (model.cache_gib if model.device == "cpu" else model.card_gib):
            estimate_memory(model)
        served[model.name] = model
    if served and to_ask and find_spec("vllm") is None:
        raise ModelsError("--deploy needs vLLM, which is not installed here; install it with: pip install 'fdarx[gpu]'")
    return served


def on_this_machine() -> bool:
    """Return whether the job starts its own Ray instance on this machine."""
    return not os.environ.get("RAY_ADDRESS")


def cpus_for(served: Served, judge: str) -> int:
    """Return the CPUs to count in addition to the machine's own, so that models do not block the job's tasks.

    They are those of all models on GPUs, of the judge, and of the largest other model.
    """
    if not served:
        return 0
    from serving.fleet import resource_request  # it imports Ray Serve, which takes seconds

    wants = {name: resource_request(model) for name, model in served.items()}
    stay = sum(want.cpus * want.replicas for name, want in wants.items() if want.gpus or name == judge)
    others = [want.cpus * want.replicas for name, want in wants.items() if not want.gpus and name != judge]
    return math.ceil(stay + max(others, default=0))


def fleet_of(
    served: Served, judge: str, progress: ProgressLine, *, gpus: int | None, cpus: int | None
) -> AbstractContextManager[ModelFleet | None]:
    """Return the fleet that deploys the models, and removes them at the end of the block. `cpus`: see `ray_session`."""
    if not served:
        return nullcontext()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")  # of this process, which imports it to describe models
    from serving.fleet import ServeFleet
    from serving.models import build

    own = (cpus or os.cpu_count() or 1) if on_this_machine() else 1
    return ServeFleet(
        list(served.values()), judge, build, progress.tell, gpus=gpus, own_cpus=own, alone=on_this_machine()
    )
