"""A server on this machine that answers as RxNav does."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from tests.in_thread import InThread, listening

IDS = {"Ortabrand": "900001", "Duobrand": "900002"}
RELATED = {"900001": ["ortavelin"], "900002": ["calbuzamide", "ortavelin"]}


class RxNavServer(InThread):
    """/REST/rxcui.json and /REST/rxcui/ID/related.json. `fault` may answer instead, by the number of the request."""

    def __init__(self, fault: Callable[[int], web.Response | None] = lambda number: None) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._fault = fault

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/REST/rxcui.json", self._rxcui)
        app.router.add_get("/REST/rxcui/{id}/related.json", self._related)
        runner = await listening(app)
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _rxcui(self, request: web.Request) -> web.Response:
        self.asked.append(str(request.rel_url))
        if (fault := self._fault(len(self.asked))) is not None:
            return fault
        name = request.query["name"]
        group = {"name": name} | ({"rxnormId": [IDS[name]]} if name in IDS else {})
        return web.json_response({"idGroup": group})

    async def _related(self, request: web.Request) -> web.Response:
        self.asked.append(str(request.rel_url))
        concepts = [
            {"rxcui": "1", "name": name, "synonym": "", "tty": "IN", "language": "ENG", "suppress": "N", "umlscui": ""}
            for name in RELATED[request.match_info["id"]]
        ]
        group = {"tty": "IN", "conceptProperties": concepts}
        return web.json_response(
            {"relatedGroup": {"rxcui": None, "termType": ["IN"], "conceptGroup": [group, {"tty": "MIN"}]}}
        )
