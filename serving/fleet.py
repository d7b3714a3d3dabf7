"""Models that a sweep brings up on Ray Serve for as long as it asks them, as many at once as there is room for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

from ray import serve

from fdarx_core.llm import ModelConfig, ModelsError
from serving.applications import ApplicationState, ServeApplications, cluster_nodes, serve_applications
from serving.packing import ClusterNode, ResourceRequest, select_to_start, why_never_fits
from serving.served_model import FRONT_CPUS, ServedModel

_LOOK_EVERY_S = 0.5

Build = Callable[[ServedModel], serve.Application]
LogLine = Callable[[str], None]
"""A function that is called with a line for the log."""


def resource_request(model: ServedModel) -> ResourceRequest:
    """Return the resources that a model needs when it starts."""
    cards = 0 if model.device == "cpu" else model.tensor_parallel
    return ResourceRequest(model.name, cards, model.cpus + FRONT_CPUS, model.smallest, model.accelerator)


@dataclass(slots=True)
class Deployment:
    """State of one model. `since` is when it began to start, on the monotonic clock."""

    model: ServedModel
    phase: Literal["waiting", "starting", "ready", "leaving", "gone"] = "waiting"
    since: float = 0.0
    failure: str = ""

    @property
    def up(self) -> bool:
        """Whether it occupies resources."""
        return self.phase in ("starting", "ready", "leaving")


@dataclass(slots=True)
class ServeFleet:
    """A `Fleet` of the sweep. `judge` is started first and stays, if it is one of the models. `gpus` bounds how many
    are used, those counted that an autoscaling cluster will add; None: those that are there. `own_cpus` are left to the
    sweep's own tasks, which would wait for ever if models held all. `alone`: as in `applications`.
    """

    models: Sequence[ServedModel]
    judge: str
    build: Build
    tell: LogLine
    gpus: int | None = None
    own_cpus: int = 1
    alone: bool = False
    _berths: dict[str, Deployment] = field(default_factory=dict)
    _held: ExitStack = field(default_factory=ExitStack)
    _apps: ServeApplications | None = None
    _looked: float = 0.0
    _wanted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._berths = {model.name: Deployment(model) for model in self.models}

    def __enter__(self) -> ServeFleet:
        return self

    def __exit__(self, *error: object) -> None:
        if up := [name for name, berth in self._berths.items() if berth.phase in ("starting", "ready")]:
            self.tell(f"taking down {', '.join(up)}")
        self._held.close()

    def located(self, models: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
        """Raises ModelsError where Serve runs and can't be used."""
        root = self._open().root
        ours = {name: berth.model.asked_at(root) for name, berth in self._berths.items() if name in models}
        return {**models, **ours}

    def ready(self, name: str) -> bool:
        return name not in self._berths or self._berths[name].phase == "ready"

    def failed(self, name: str) -> str:
        return self._berths[name].failure if name in self._berths else ""

    def state(self) -> str:
        now = time.monotonic()
        starting = [
            f"{name} starting, {now - berth.since:.0f} s of {berth.model.start_within_s:,.0f}"
            for name, berth in self._berths.items()
            if berth.phase == "starting"
        ]
        waiting = [name for name in self._wanted if (berth := self._berths.get(name)) and berth.phase == "waiting"]
        return ", ".join([*starting, *([f"{len(waiting)} waiting for room"] if waiting else [])])

    def tend(self, wanted: Collection[str]) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_EVERY_S and self._wanted == set(wanted):
            return
        self._looked, self._wanted = now, set(wanted)
        seen = self._open().seen()
        for name, berth in self._berths.items():
            self._see(berth, seen.get(name), now)
            if name not in wanted and berth.phase in ("starting", "ready"):
                self._dismiss(berth)
        self._start([berth for name, berth in self._berths.items() if name in wanted and berth.phase == "waiting"], now)

    def _open(self) -> ServeApplications:
        if self._apps is None:
            self._apps = self._held.enter_context(serve_applications(alone=self.alone))
        return self._apps

    def _see(self, berth: Deployment, seen: ApplicationState | None, now: float) -> None:
        """What has become of it since it was last looked at."""
        if berth.phase == "leaving" and seen is None:
            berth.phase = "gone"
        elif berth.up and seen is None:
            berth.phase = "gone"
            self._fail(berth, "somebody else has taken it down")
        elif berth.phase == "starting" and seen is not None:
            self._see_starting(berth, seen, now)

    def _see_starting(self, berth: Deployment, seen: ApplicationState, now: float) -> None:
        if not seen.placed and self._others(berth):
            berth.since = now  # it waits for room that others hold
        if seen.status == "RUNNING" and self._open().answers(berth.model.name):
            berth.phase = "ready"
            self.tell(f"{berth.model.name} is ready, {now - berth.since:.0f} s after it was started")
        elif seen.status == "DEPLOY_FAILED":
            why = self._open().engine_error(berth.model.name) or seen.trouble
            self._fail(berth, why or "Ray Serve does not say why; see its logs")
        elif now - berth.since > berth.model.start_within_s:
            why = seen.trouble or ("it has not answered" if seen.placed else "the cluster has not found room for it")
            self._fail(berth, f"after {berth.model.start_within_s:,.0f} s (start_within_s) {why}")

    def _others(self, berth: Deployment) -> bool:
        return any(other.up and other.phase != "starting" for other in self._berths.values() if other is not berth)

    def _fail(self, berth: Deployment, why: str) -> None:
        berth.failure = f"{berth.model.name} can't be served: {why}"
        self.tell(berth.failure)
        if berth.up:
            self._dismiss(berth)

    def _dismiss(self, berth: Deployment) -> None:
        self._open().delete(berth.model.name)
        if not berth.failure:
            self.tell(f"{berth.model.name} is taken down")
        berth.phase = "leaving"

    def _start(self, waiting: Sequence[Deployment], now: float) -> None:
        """Those that there is room for; those that there will never be room for have failed."""
        if not waiting:
            return
        room = self._room()
        for berth in waiting:
            self._check_room(room, berth)
        wants = [resource_request(berth.model) for berth in waiting if not berth.failure]
        up = [resource_request(berth.model) for berth in self._berths.values() if berth.up]
        for want in select_to_start(room, up, wants, self.judge):
            self._deploy(self._berths[want.name], now)

    def _deploy(self, berth: Deployment, now: float) -> None:
        berth.phase, berth.since = "starting", now
        self.tell(f"starting {berth.model.name}")
        try:
            self._open().deploy(berth.model.name, self.build(berth.model))
        except Exception as error:  # whatever is wrong with one model, the others go on
            berth.phase = "gone"
            kind = "" if isinstance(error, ModelsError) else f"{type(error).__name__}: "
            self._fail(berth, kind + " ".join(str(error).split()))

    def _check_room(self, room: Sequence[ClusterNode], berth: Deployment) -> None:
        judge = self._berths.get(self.judge)
        stays = resource_request(judge.model) if judge is not None and judge is not berth else None
        if why := why_never_fits(room, resource_request(berth.model), stays):
            berth.phase = "gone"
            self._fail(berth, why)

    def _room(self) -> list[ClusterNode]:
        """Return the resources that models may use."""
        if self.gpus is not None:
            return [ClusterNode(self.gpus, math.inf, None)]
        first, *rest = sorted(cluster_nodes(), key=lambda node: node.cpus, reverse=True)
        return [ClusterNode(first.gpus, first.cpus - self.own_cpus, first.accelerators), *rest]
