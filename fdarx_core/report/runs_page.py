"""The page of all runs, reviews and comparisons of a folder, newest first, with their results and pages."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from fdarx_core.report.page_engine import PAGE_WORDS, listed, plural, render_page
from fdarx_core.review.review_set import INFO_FILE, open_review
from fdarx_core.storage import Location, RunDirectory, StorageError

INDEX = "index.html"
_COMPARISON = re.compile(r'<p class="kicker">FDARx · comparison</p>.*?<time datetime="([^"]+)"', re.DOTALL)
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_RESULT = re.compile(r'<p class="(?:card )?result">(.*?)</p>', re.DOTALL)


def runs_page(folder: Location) -> tuple[str, int]:
    """Return the page of all runs, reviews and comparisons in a folder and its subfolders, and their number.

    Raises:
        StorageError: where there is none.
    """
    files = {file.address.removeprefix(folder.address).lstrip("/"): file for file in folder.list(recursive=True)}
    places = [name.removesuffix("run.json") for name in files if f"/{name}".endswith("/run.json")]
    shown, unreadable = list[dict[str, Any]](), list[str]()
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
        models += [one["endpoint"] for one in info.get("asked", ())]
        kind, name = PAGE_WORDS["jobs"].get(info["job"], info["job"]), place.rstrip("/") or folder.name
        run = {
            "counted": "run",
            "result": "",
            **info,
            "kind": kind,
            "name": name,
            "models": list(dict.fromkeys(models)),
            "pages": links,
        }
        shown.append(run)
    for place in (name.removesuffix(INFO_FILE) for name in files if f"/{name}".endswith(f"/{INFO_FILE}")):
        try:
            review = open_review(files[f"{place}{INFO_FILE}"].parent.address)
        except StorageError as error:
            unreadable.append(str(error))
            continue
        titles = {"agreement": "Report"} | {name: f"Page of {name}" for name in review.reviewers}
        found = {title: f"{place}{page}.html" for page, title in titles.items() if f"{place}{page}.html" in files}
        result = _told(files[found["Report"]].read_text()) if "Report" in found else "No report was written yet."
        about = {"name": place.rstrip("/") or folder.name, "started": review.info["written"], "status": "complete"}
        about |= {"counted": "review", "kind": PAGE_WORDS["jobs"]["review"], "models": [], "pages": found}
        shown.append({**about, "result": result})
        places.append(place)
    others = [name for name in files if name.endswith(".html") and not name.startswith((INDEX, *places))]
    shown += filter(None, (_comparison(name, files[name].read_text()) for name in others))
    if not shown and not unreadable:
        raise StorageError(f"{folder} has no runs; give a folder that holds what jobs wrote with --out")
    shown.sort(key=lambda one: str(one["started"]), reverse=True)
    kinds = [one["counted"] for one in shown]
    counts = listed([plural(kinds.count(kind), kind) for kind in ("run", "review", "comparison") if kind in kinds])
    return render_page("runs.html.j2", folder=folder.name, counts=counts, runs=shown, unreadable=unreadable), len(shown)


def _told(page: str) -> str:
    """Return the result in words with which a page begins, or its title where it has none."""
    found = _RESULT.search(page) or _TITLE.search(page)
    return unescape(found[1]) if found else ""


def _comparison(name: str, page: str) -> dict[str, Any] | None:
    """Return what a page of `fdarx compare` says, as the list shows it; None for another page."""
    if not (dated := _COMPARISON.search(page)):
        return None
    about = {"kind": PAGE_WORDS["jobs"]["compare"], "name": name, "started": dated[1], "status": "complete"}
    return {**about, "counted": "comparison", "result": _told(page), "models": [], "pages": {"Report": name}}
