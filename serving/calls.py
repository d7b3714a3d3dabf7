"""Calls to other deployments: made again where a replica died, cancelled with whoever waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError

from serving.http import Overloaded, Unavailable

TRIES = 3
_DIED = (RayActorError, ReplicaUnavailableError)


async def call(method: Any, *arguments: Any, part: str) -> Any:
    """What `method` of a deployment's handle returns. Whatever is called may run twice.

    Raises Overloaded where the deployment's queue is full, Unavailable where no replica answers.
    """
    for left in reversed(range(TRIES)):
        response = method.remote(*arguments)
        try:
            return await response
        except asyncio.CancelledError:
            response.cancel()
            raise
        except _DIED as error:
            if not left:
                raise Unavailable(part, _brief(error)) from error
        except BackPressureError as error:
            raise Overloaded(part, str(error)) from error
        except DeploymentUnavailableError as error:
            raise Unavailable(part, error.message) from error
    raise AssertionError


async def pieces(method: Any, *arguments: Any, part: str) -> AsyncGenerator[Any, None]:
    """What `method` yields. A replica that dies before its first piece is replaced by another, else as `call`."""
    for left in reversed(range(TRIES)):
        begun = False
        stream = method.remote(*arguments)
        try:
            async for piece in stream:
                begun = True
                yield piece
            return
        except _DIED as error:
            if begun or not left:
                raise Unavailable(part, _brief(error)) from error
        except BackPressureError as error:
            raise Overloaded(part, str(error)) from error
        except DeploymentUnavailableError as error:
            raise Unavailable(part, error.message) from error
        finally:
            stream.cancel()


def _brief(error: Exception) -> str:
    """Ray tells of a death at length."""
    return f"{type(error).__name__}: a replica died"
