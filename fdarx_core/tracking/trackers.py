"""Trackers by the text that names them, such as `mlflow:http://host:5000`.

A package adds a tracker as an entry point of the group `fdarx.trackers`: a function that takes the address, which is
the text after the colon, and returns a `Tracker`. It connects to nothing yet, and raises ValueError for an address that
cannot be used or a library that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from fdarx_core.plugins import Registry
from fdarx_core.tracking.mlflow_tracker import MlflowTracker
from fdarx_core.tracking.tracker import Tracker
from fdarx_core.tracking.wandb_tracker import WandbTracker

OpenTracker: TypeAlias = Callable[[str], Tracker]
"""Returns the tracker at an address. Raises ValueError for an address or an installation that cannot be used."""

TRACKERS: Registry[OpenTracker] = Registry("tracker", {"mlflow": MlflowTracker, "wandb": WandbTracker})

_CREDENTIALS = re.compile(r"(?<=://)[^/\s]+(?=@)")


def without_credentials(text: str) -> str:
    """Return a text in which `***` stands for the user and the password of every URI."""
    return _CREDENTIALS.sub("***", text)


@dataclass(frozen=True, slots=True)
class TrackerSpec:
    """A tracker by name and address. As text, it has no credentials."""

    name: str
    address: str

    @classmethod
    def parse(cls, text: str) -> TrackerSpec:
        """Return the tracker that `NAME:ADDRESS` names.

        Raises ValueError where there is no such tracker, its library is missing or its address cannot be used.
        """
        name, _, address = text.partition(":")
        if not address:
            known = ", ".join(f"{one}:ADDRESS" for one in TRACKERS)
            raise ValueError(f"{without_credentials(text)} is no tracker; write one of {known}")
        spec = cls(name, address)
        spec.open()
        return spec

    def open(self) -> Tracker:
        """Return the tracker, not yet connected. Raises ValueError as `parse`."""
        return TRACKERS[self.name](self.address)

    def __str__(self) -> str:
        return without_credentials(f"{self.name}:{self.address}")
