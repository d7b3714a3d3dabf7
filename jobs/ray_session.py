"""Where a job computes: the cluster that RAY_ADDRESS names (as `ray job submit` sets it), else this machine alone."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.options import stop

_LOCAL_OBJECT_STORE = 512 * 2**20
_CHATTY = ("ray.data", "ray.data._internal.progress", "ray._private.authentication.authentication_token_setup")
"""Loggers that tell of what is as it should be (no progress bars of Ray's own, a token for every cluster), or of errors
that the job tells itself."""


@contextmanager
def ray_session(cpus: int | None = None) -> Iterator[None]:
    """Ray for the length of a job. `cpus` bounds a local instance and means nothing on a cluster."""
    if os.environ.get("RAY_ADDRESS", "").startswith("http"):
        stop("RAY_ADDRESS is a dashboard's, for `ray job submit`; submit the job, or unset it to compute here")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    import ray.data

    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
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
