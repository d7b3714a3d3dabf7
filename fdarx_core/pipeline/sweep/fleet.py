"""Models that a sweep brings up and takes down itself, as the sweep sees them: it does not know what serves them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from fdarx_core.llm import ModelConfig


class Fleet(Protocol):
    """Of a name that is not the fleet's own, the model runs already, and is left alone."""

    def located(self, models: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
        """The same models, the fleet's own at the addresses where they will answer. Raises ModelsError."""

    def tend(self, wanted: Collection[str]) -> None:
        """See how the models do, take down those that are no longer wanted, start those that there is room for.

        Called about every second while a wanted model is not ready, and does not wait for anything.
        """

    def ready(self, name: str) -> bool:
        """Whether it can be asked."""

    def failed(self, name: str) -> str:
        """Why it will never be ready, or ""."""

    def state(self) -> str:
        """What is starting and what waits, for a line of progress, or ""."""


class Standing:
    """No fleet: all models run already."""

    def located(self, models: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
        return dict(models)

    def tend(self, wanted: Collection[str]) -> None:
        return

    def ready(self, name: str) -> bool:
        return True

    def failed(self, name: str) -> str:
        return ""

    def state(self) -> str:
        return ""
