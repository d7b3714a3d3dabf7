"""What a tracker is given of a run: configuration, versions, figures, tables and page; and under which names.

The id of the tracker's run is kept in `tracking.json` in the run directory, so that a run that goes on, or is logged
again, stays one run of the tracker.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fdarx_core.records import Figure, content_id
from fdarx_core.storage import Location, RunDirectory, read_records
from fdarx_core.tracking.tracker import Tracker
from fdarx_core.tracking.trackers import TrackerSpec, without_credentials

STATE = "tracking.json"
FIGURES = ("metrics.parquet", "figures.parquet", "correlations.parquet")
"""The files of a run whose rows are figures, by any job. Each is logged as metrics, and as a table."""
TABLES = (*FIGURES, "comparisons.parquet", "differences.parquet", "cells.parquet", "usage.parquet", "curve.parquet")
PAGE = "report.html"

_LONGEST = 500
"""Characters of a parameter, and of an error."""
_LONGEST_NAME = 240
_NOT_IN_NAMES = re.compile(r"[^/\w.\- ]")
_ALL = "all"
_WIDEST = (_ALL, "answerable")


class TrackingFailed(Exception):
    """A tracker did not take a run; the message gives the reason in one line."""


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the library of a tracker may raise anything
        line = " ".join(str(error).split()) or type(error).__name__
        raise TrackingFailed(without_credentials(line)[:_LONGEST]) from error


@_one_line()
def log_run(run: RunDirectory, spec: TrackerSpec) -> str:
    """Log a run that has results, complete or not, and return a line that says where.

    A run that was logged in this state is not logged again. Raises TrackingFailed; the run itself is unharmed.
    """
    info, states = run.info(), _read_states(run.file(STATE))
    state = states.setdefault(str(spec), {"run_id": None, "logged": None})
    complete = info["status"] == "complete"
    at: str = info["finished" if complete else "stopped"]
    if state["logged"] == at:
        return f"already logged to {spec} as run {state['run_id']}"
    with TemporaryDirectory() as folder:  # whose files trackers may send in the background until `finish`
        tracker = spec.open()
        try:
            tags = {name: without_credentials(value) for name, value in _tags(info).items()}
            state["run_id"] = tracker.start(state["run_id"], name=run.root.name, job=info["job"], tags=tags)
            _write_states(run.file(STATE), states)
            _log_content(run, info, tracker, at, Path(folder))
        except BaseException:
            with suppress(Exception):
                tracker.finish(complete=False)
            raise
        place = tracker.finish(complete=complete)
    state["logged"] = at
    _write_states(run.file(STATE), states)
    where = without_credentials(place)
    return f"logged to {spec} as run {state['run_id']}" + (f", {where}" if where else "")


def _log_content(run: RunDirectory, info: Mapping[str, Any], tracker: Tracker, at: str, folder: Path) -> None:
    tracker.log_params(params_of(info["config"]))
    figures = [one for file in _existing(run, FIGURES) for one in read_records(file, Figure)]
    metrics = {**counts_of(info), **metrics_of(figures)}
    tracker.log_metrics(metrics, int(datetime.fromisoformat(at).timestamp() * 1000))
    for file in _existing(run, TABLES):
        tracker.log_table(_copied(file, folder))
    for file in _existing(run, (PAGE,)):
        tracker.log_artifact(_copied(file, folder))


def params_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a run by dotted names, as text; a long one is cut, and says so."""
    params = {_valid(name): _cut(without_credentials(value)) for name, value in _flat(config)}
    return dict(sorted(params.items()))


def metrics_of(figures: Iterable[Figure]) -> dict[str, float]:
    """Return the values and bounds of figures by name: `METRIC/KEY/KEY`, and with `/low` and `/high` for the bounds.

    The keys of a figure are in the order of its file; empty ones and `all` are left out, and so is the widest group of
    question types of a metric: `accuracy/MODEL/SETTING` is over all answerable questions. Figures that would share a
    name have a digest of their keys at its end. What has no value is not in the result.
    """
    figures = list(figures)
    widest = _widest_groups(figures)
    names = [_name(one, widest) for one in figures]
    shared = {name for name, count in Counter(names).items() if count > 1}
    found: dict[str, float] = {}
    for one, name in zip(figures, names, strict=True):
        unique = f"{name} {content_id(json.dumps(one.keys))[:8]}" if name in shared else name
        bounds = {unique: one.value, f"{unique}/low": one.low, f"{unique}/high": one.high}
        found |= {key: value for key, value in bounds.items() if value is not None}
    return found


def counts_of(info: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of questions by type, and by model the requests, tokens and cost in US dollars."""
    questions = info.get("questions", {})
    found = defaultdict[str, float](float)
    for kind, count in questions.items() if isinstance(questions, dict) else [("", questions)]:
        found[_valid(f"questions/{kind}".rstrip("/"))] += count
    for row in info.get("asked", ()):
        for name in ("requests", "prompt_tokens", "completion_tokens", "cost"):
            found[_valid(f"total_{name}/{row['endpoint']}")] += row[name] or 0.0
    return found


def _name(figure: Figure, widest: Mapping[tuple[str, ...], str]) -> str:
    keys = {name: value for name, value in figure.keys.items() if value not in ("", _ALL)}
    if keys.get("group_by") == "type":
        keys.pop("group_by")
        if keys.get("group") == widest[_cell(figure)]:
            keys.pop("group")
    return _valid("/".join([figure.metric, *(value.replace("/", "_") for value in keys.values())]))


def _widest_groups(figures: Iterable[Figure]) -> dict[tuple[str, ...], str]:
    """Return by metric and cell the question types of the figure that covers the others."""
    groups = defaultdict[tuple[str, ...], list[str]](list)
    for one in figures:
        if one.keys.get("group_by") == "type":
            groups[_cell(one)].append(one.keys["group"])
    return {cell: next((name for name in _WIDEST if name in found), found[0]) for cell, found in groups.items()}


def _cell(figure: Figure) -> tuple[str, ...]:
    return figure.metric, *(value for name, value in figure.keys.items() if name not in ("group_by", "group"))


def _valid(name: str) -> str:
    """Return a name that all trackers accept."""
    return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME]


def _tags(info: Mapping[str, Any]) -> dict[str, str]:
    config, read = info["config"], info.get("input") or info.get("benchmark") or {}
    digests = (config.get(name) for name in ("answers", "questions", "pairs"))
    digest = read.get("digest") or next((one for one in digests if isinstance(one, str)), "")
    versions = {f"versions.{name}": version for name, version in info["versions"].items()}
    return {**versions, "input_digest": digest, "status": info["status"]}


def _flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in config.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(value: str) -> str:
    if len(value) <= _LONGEST:
        return value
    note = f"… (cut, {len(value)} characters; run.json has all)"
    return value[: _LONGEST - len(note)] + note


def _existing(run: RunDirectory, names: Iterable[str]) -> list[Location]:
    return [file for file in map(run.file, names) if file.exists()]


def _copied(file: Location, folder: Path) -> Path:
    copy = folder / file.name
    copy.write_bytes(file.read_bytes())
    return copy


def _read_states(file: Location) -> dict[str, dict[str, str | None]]:
    try:
        states: dict[str, dict[str, str | None]] = json.loads(file.read_text()) if file.exists() else {}
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}); delete it to log the run as a new one") from error
    return states


def _write_states(file: Location, states: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(states, indent=2) + "\n")
