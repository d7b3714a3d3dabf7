"""How far a training is, for the driver to see."""

from __future__ import annotations


class Gauge:
    """A Ray actor; workers show it their steps."""

    def __init__(self) -> None:
        self._seen = (0, 0, "")

    def show(self, step: int, steps: int, note: str) -> None:
        self._seen = (step, steps, note)

    def seen(self) -> tuple[int, int, str]:
        """The last step that was shown, of how many, and what is worth saying of it."""
        return self._seen
