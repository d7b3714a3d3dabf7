"""An executor for tests of what must not depend on the order in which tasks end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from fdarx_core.pipeline.local import LocalExecutor

Item = TypeVar("Item")
Result = TypeVar("Result")


class LateFirst(LocalExecutor):
    """Ends the first items last, as tasks on a cluster may."""

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return reversed([function(item) for item in items])
