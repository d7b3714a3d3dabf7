"""Ray's trainer, less what a job that ends with its driver has no use for. Needs torch."""

from __future__ import annotations

from typing import Any

from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2.torch.torch_trainer import TorchTrainer


class Trainer(TorchTrainer):
    """Starts no actor that looks after its placement groups: that one asks Ray's dashboard every second, and where
    there is none, as on a machine alone, each time complains. Ray gives the groups back when the job's process ends.
    """

    def _create_default_callbacks(self) -> list[Any]:
        made = super()._create_default_callbacks()
        return [one for one in made if not isinstance(one, PlacementGroupCleanerCallback)]
