"""Much work on few workers: Ray tasks in bounded number, and a crew of actors that hold something heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import ray

from fdarx_core.pipeline.crew import Crew

Item = TypeVar("Item")

Tell = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


def cluster_has(resource: str) -> int:
    """How many CPUs (one at least) or GPUs the cluster has now."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return max(int(resource == "CPU"), int(resources.get(resource, 0)))


def in_windows(submit: Callable[[Item], Any], items: Iterable[Item], window: int | None = None) -> Iterator[Any]:
    """What `submit` makes of each item, a Ray reference, as values in the order in which they are ready.

    At most `window` are on their way at once (twice the cluster's CPUs), so that neither items nor values pile up.
    """
    most = window or 2 * cluster_has("CPU")
    flying: list[Any] = []
    for item in items:
        flying.append(submit(item))
        if len(flying) >= most:
            yield from _landed(flying)
    while flying:
        yield from _landed(flying)


def crew_of(holder: type, arguments: tuple[Any, ...], *, on_gpus: bool, items: int | None = None) -> Crew:
    """Actors that hold a model, or an index, for as many items as that, where their number is known.

    Of those that want GPUs there is one a GPU, and a single one where the cluster has none: a model takes all cores.
    """
    gpus = cluster_has("GPU") if on_gpus else 0
    size = gpus or (1 if on_gpus else cluster_has("CPU"))
    return Crew(holder, arguments, size if items is None else min(size, items), on_gpus=gpus > 0)


def by_actors(
    holder: type, arguments: tuple[Any, ...], method: str, items: Sequence[Any], tell: Tell, *, on_gpus: bool
) -> None:
    """Have a crew work through the items."""
    if items:
        crew = crew_of(holder, arguments, on_gpus=on_gpus, items=len(items))
        for done, _ in enumerate(crew.each(method, items), 1):
            tell(done, len(items))


def _landed(flying: list[Any]) -> list[Any]:
    ready, rest = ray.wait(flying, num_returns=1)
    flying[:] = rest
    return [ray.get(one) for one in ready]
