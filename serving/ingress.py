"""Serve deployment: the HTTP side, over handles to the others."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from serving.http import ServiceSettings, log_to, make_app
from serving.meters import RequestMeter
from serving.world import Handles, ServeWorld


@serve.ingress()
class Ingress:
    """Each replica makes its own app, as an app can't be pickled."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        answerer: str,
        budget: int | None,
        log_file: str | None,
        retriever: DeploymentHandle[Any],
        model: DeploymentHandle[Any],
        reranker: DeploymentHandle[Any] | None = None,
    ) -> None:
        """`settings` are fields of `ServiceSettings`; `answerer` names the model that answers; it can be shown `budget`
        characters of passages."""
        self._settings = ServiceSettings.model_validate(settings)
        self._world = ServeWorld(Handles(retriever, model, reranker), answerer, budget)
        log_to(Path(log_file).open("a", encoding="utf-8") if log_file else sys.stderr)  # noqa: SIM115

    async def __serve_build_asgi_app__(self) -> ASGIApp:
        await self._world.open()
        return make_app(self._world, self._settings, RequestMeter())
