"""Where a job computes: the cluster that RAY_ADDRESS names (as `ray job submit` sets it), else this machine alone."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

_LOCAL_OBJECT_STORE = 512 * 2**20


@contextmanager
def ray_session(cpus: int | None = None) -> Iterator[None]:
    """Ray for the length of a job. `cpus` bounds a local instance and means nothing on a cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if os.environ.get("RAY_ADDRESS"):
        ray.init(logging_level=logging.WARNING)
    else:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=_LOCAL_OBJECT_STORE,
            logging_level=logging.WARNING,
        )
    try:
        yield
    finally:
        ray.shutdown()
