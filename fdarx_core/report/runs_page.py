"""The page of all runs and comparisons of a folder, newest first, each with its result and links to its pages."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from fdarx_core.report.page_engine import PAGE_WORDS, render_page
from fdarx_core.storage import Location, RunDirectory, StorageError

INDEX = "index.html"
_COMPARISON = re.compile(r'<p class="kicker">FDARx · comparison</p>.*?<time datetime="([^"]+)"', re.DOTALL)
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_RESULT = re.compile(r'<p class="(?:card )?result">(.*?)</p>', re.DOTALL)


def runs_page(folder: Location) -> tuple[str, int]:
    """Return the page of all runs and comparisons in a folder and its subfolders, and their number.

    Raises:
        StorageError: where there is none.
    """
    files = {file.address.removeprefix(folder.address).lstrip("/"): file for file in folder.list(recursive=True)}
    places = [name.removesuffix("run.json") for name in files if f"/{name}".endswith("/run.json")]
    listed, unreadable = list[dict[str, Any]](), list[str]()
    for place in places:
        try:
            info = RunDirectory.open(files[f"{place}run.json"].parent.address).info()
        except StorageError as error:
            unreadable.append(str(error))
            continue
        pages = [name for name in files if name.startswith(place) and "/" not in name[len(place) :]]
        links = {title: f"{place}{page}" for page, title in PAGE_WORDS["pages"].items() if f"{place}{page}" in pages}
        models = [cell["model"] for cell in info.get("cells", ())]
        models += info.get("intake", {}).get("models", ())
        asked = (one["endpoint"] for one in info.get("asked", ()) if not one["task"].startswith("judge_"))
        models = models or [*asked]  # those alone that judge are not what a run is about
        kind, name = PAGE_WORDS["jobs"].get(info["job"], info["job"]), place.rstrip("/") or folder.name
        shown = {
            "result": "",
            **info,
            "kind": kind,
            "name": name,
            "models": list(dict.fromkeys(models)),
            "pages": links,
        }
        listed.append(shown)
    others = [name for name in files if name.endswith(".html") and not name.startswith((INDEX, *places))]
    listed += filter(None, (_comparison(name, files[name].read_text()) for name in others))
    if not listed and not unreadable:
        raise StorageError(f"{folder} has no runs; give a folder that holds what jobs wrote with --out")
    listed.sort(key=lambda one: str(one["started"]), reverse=True)
    return render_page("runs.html.j2", folder=folder.name, runs=listed, unreadable=unreadable), len(listed)


def _comparison(name: str, page: str) -> dict[str, Any] | None:
    """Return what a page of `fdarx compare` says, as the list shows it; None for another page."""
    if not (dated := _COMPARISON.search(page)):
        return None
    title, result = _TITLE.search(page), _RESULT.search(page)
    shown = unescape(result[1]) if result else unescape(title[1]) if title else ""
    about = {"kind": PAGE_WORDS["jobs"]["compare"], "name": name, "started": dated[1], "status": "complete"}
    return {**about, "result": shown, "models": [], "pages": {"Comparison": name}}
