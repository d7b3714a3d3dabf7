"""Much work on few workers: Ray tasks in bounded number, and actors that hold something heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import ray
from ray.util import ActorPool

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


def by_actors(
    holder: type, arguments: tuple[Any, ...], method: str, items: Sequence[Any], tell: Tell, *, on_gpus: bool
) -> None:
    """Have actors that hold a model, or an index, work through the items.

    Of those that want GPUs there is one a GPU, and a single one where the cluster has none: a model takes all cores.
    """
    if not items:
        return
    gpus = cluster_has("GPU") if on_gpus else 0
    size = gpus or (1 if on_gpus else cluster_has("CPU"))
    actor: Any = ray.remote(holder)
    # Half a CPU each, so that actors never hold all of them.
    made = actor.options(num_cpus=0.5, num_gpus=1 if gpus else 0)
    pool: Any = ActorPool([made.remote(*arguments) for _ in range(min(size, len(items)))])
    for done, _ in enumerate(pool.map_unordered(lambda one, item: getattr(one, method).remote(item), items), 1):
        tell(done, len(items))


def _landed(flying: list[Any]) -> list[Any]:
    ready, rest = ray.wait(flying, num_returns=1)
    flying[:] = rest
    return [ray.get(one) for one in ready]
