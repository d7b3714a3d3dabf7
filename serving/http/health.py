"""GET /healthz and GET /readyz, open to whoever asks."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from serving.http.replies import json_reply
from serving.http.world import World


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class Ready(BaseModel):
    """Whether questions can be answered."""

    ready: bool
    missing: dict[str, str] = Field(description="What can't serve now, with the reason.")


class Health:
    """For load balancers and whoever restarts processes."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> APIRouter:
        router = APIRouter(tags=["Health"])
        alive: dict[int | str, dict[str, Any]] = {200: {"model": Alive}}
        router.add_api_route("/healthz", self.healthz, responses=alive, response_class=Response)
        ready: dict[int | str, dict[str, Any]] = {200: {"model": Ready}, 503: {"model": Ready}}
        router.add_api_route("/readyz", self.readyz, responses=ready, response_class=Response)
        return router

    async def healthz(self) -> Response:
        """200 as long as this process answers at all."""
        return json_reply({"status": "ok"})

    async def readyz(self) -> Response:
        """200 where questions can be answered, else 503 with what is missing."""
        missing = dict(await self._world.ready())
        return json_reply({"ready": not missing, "missing": missing}, 503 if missing else 200)
