"""Where a job computes: the cluster that RAY_ADDRESS names (as `ray job submit` sets it), else this machine alone."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from fdarx_core.storage import Location
from jobs.joining import join_cluster, watching_head
from jobs.options import stop
from jobs.stoppable import as_ctrl_c

_LOCAL_OBJECT_STORE = 512 * 2**20
_CHATTY = ("ray.data", "ray.data._internal.progress", "ray._private.authentication.authentication_token_setup")
"""Loggers that tell of what is as it should be (no progress bars of Ray's own, a token for every cluster), or of errors
that the job tells itself."""


@contextmanager
def ray_session(
    cpus: int | None = None, *, for_models: int = 0, written: Sequence[Location] = (), read: Sequence[str | None] = ()
) -> Iterator[None]:
    """Ray for the length of a job. `cpus` bounds a local instance and means nothing on a cluster.

    `for_models` are counted on top, for models that the job brings up itself; what such say goes to Ray's logs alone.
    `written` and `read` are what workers write into and read, where there is such: the job ends where a cluster's
    machines don't share it. SIGTERM raises KeyboardInterrupt, as Ctrl-C does.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    try:
        _start(cpus, for_models)
        with as_ctrl_c(), _watched():
            _check_shared(written, read)
            yield
    finally:
        ray.shutdown()


def _start(cpus: int | None, for_models: int) -> None:
    import ray
    import ray.data

    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    address = os.environ.get("RAY_ADDRESS")
    try:
        if address:
            join_cluster(address, logging_level=logging.WARNING, log_to_driver=not for_models)
            return
        ray.init(
            address="local",
            num_cpus=(cpus or os.cpu_count() or 1) + for_models if for_models else cpus,
            include_dashboard=False,
            object_store_memory=_LOCAL_OBJECT_STORE,
            logging_level=logging.WARNING,
            log_to_driver=not for_models,
        )
    except SystemExit as error:  # what Ray makes of SIGTERM while it starts
        if error.code == signal.SIGTERM:
            raise KeyboardInterrupt from None
        raise


def _watched() -> AbstractContextManager[None]:
    import ray

    if not os.environ.get("RAY_ADDRESS"):
        return nullcontext()
    return watching_head(ray.get_runtime_context().gcs_address)


def _check_shared(written: Sequence[Location], read: Sequence[str | None]) -> None:
    if not os.environ.get("RAY_ADDRESS"):
        return
    from jobs.shared_disk import NotShared, check_shared

    try:
        check_shared(written, [Location(one) for one in read if one])
    except NotShared as error:
        stop(str(error))
