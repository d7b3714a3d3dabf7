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
    shown, unreadable, places = list[dict[str, Any]](), list[str](), list[str]()
    for name in (name for name in files if name.rpartition("/")[2] in _READERS):
        places.append(name.rpartition("/")[0] + "/" * ("/" in name))
        try:
            about, titles = _READERS[name.rpartition("/")[2]](files[name].parent.address)
        except StorageError as error:
            unreadable.append(str(error))
            continue
        links = {title: f"{places[-1]}{page}" for page, title in titles.items() if f"{places[-1]}{page}" in files}
        if about["job"] == "review" and "Report" in links:
            about["result"] = _told(files[links["Report"]].read_text())
        shown.append({"result": "", **about, "name": places[-1].rstrip("/") or folder.name, "pages": links})
    others = [name for name in files if name.endswith(".html") and not name.startswith((INDEX, *places))]
    shown += filter(None, (_comparison(name, files[name].read_text()) for name in others))
    if not shown and not unreadable:
        raise StorageError(f"{folder} has no runs; give a folder that holds what jobs wrote with --out")
    shown.sort(key=lambda one: str(one["started"]), reverse=True)
    kinds = [{"review": "review", "compare": "comparison"}.get(one["job"], "run") for one in shown]
    counts = listed([plural(kinds.count(kind), kind) for kind in ("run", "review", "comparison") if kind in kinds])
    about = {"folder": folder.name, "counts": counts, "kinds": PAGE_WORDS["jobs"], "unreadable": unreadable}
    return render_page("runs.html.j2", runs=shown, **about), len(shown)


def _run(address: str) -> tuple[dict[str, Any], dict[str, str]]:
    info = RunDirectory.open(address).info()
    models = [cell["model"] for cell in info.get("cells", ())]
    models += info.get("intake", {}).get("models", ())
    asked = (one["endpoint"] for one in info.get("asked", ()) if not one["task"].startswith("judge_"))
    models = models or [*asked]  # those alone that judge are not what a run is about
    return {**info, "models": list(dict.fromkeys(models))}, PAGE_WORDS["pages"]


def _review(address: str) -> tuple[dict[str, Any], dict[str, str]]:
    review = open_review(address)
    titles = {"agreement.html": "Report"} | {f"{name}.html": f"Page of {name}" for name in review.reviewers}
    return {"job": "review", "started": review.info["written"], "status": "complete", "models": []}, titles


_READERS = {"run.json": _run, INFO_FILE: _review}


def _told(page: str) -> str:
    """Return the result in words with which a page begins, or its title where it has none."""
    found = _RESULT.search(page) or _TITLE.search(page)
    return unescape(found[1]) if found else ""


def _comparison(name: str, page: str) -> dict[str, Any] | None:
    """Return what a page of `fdarx compare` says, as the list shows it; None for another page."""
    if not (dated := _COMPARISON.search(page)):
        return None
    about = {"job": "compare", "name": name, "started": dated[1], "status": "complete"}
    return {**about, "result": _told(page), "models": [], "pages": {"Report": name}}
