"""Thresholds of metrics, for continuous integration: what each model of a run must reach in each setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from os import PathLike
from typing import NamedTuple
from xml.etree import ElementTree

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.metrics import RETRIEVAL_METRICS, SCORE_METRICS, AnswerFunction, Metric, added_metrics
from fdarx_core.records import Figure
from fdarx_core.storage import RunDirectory, read_records

Bounds = Mapping[str, float]
"""The bound of each metric; `oracle/accuracy` is that of a setting, a model or a retriever alone."""


class ThresholdResult(NamedTuple):
    """A metric of a model in a setting (`cell`) against its bound; `fault` says why it misses it, "" if it does not."""

    cell: str
    metric: str
    fault: str


def read_bounds(values: Sequence[str], metrics: Iterable[AnswerFunction | Metric], option: str) -> dict[str, float]:
    """Return the bounds of the values METRIC=NUMBER of an option. Raises ValueError for another form, for a number that
    the metric cannot reach, and for a metric that is none of FDARx, of installed packages and the given ones."""
    bounds: dict[str, float] = {}
    for value in values:
        name, _, number = value.partition("=")
        try:
            bounds[name.strip()] = float(number)
        except ValueError as error:
            raise ValueError(f"{option} {value}: write METRIC=NUMBER, such as accuracy=0.8 for 80 %") from error
    try:
        _check_bounds(bounds.items(), added_metrics(tuple(metrics)))
    except ValueError as error:
        raise ValueError(f"{option} {' '.join(values)}: {error}") from error
    return bounds


def _check_bounds(bounds: Iterable[tuple[str, float]], added: Iterable[str]) -> None:
    known = [*SCORE_METRICS, *RETRIEVAL_METRICS, *added]
    for name, bound in ((full.rpartition("/")[2], bound) for full, bound in bounds):
        if name not in known:
            [close] = get_close_matches(name, known, n=1, cutoff=0.0)
            raise ValueError(f"there is no metric {name} for a threshold; did you mean {close}?")
        share = name in {*SCORE_METRICS, *RETRIEVAL_METRICS} and not name.endswith(("_tokens", "_question", "_s"))
        if not (0 <= bound <= 1 if share else isfinite(bound)):
            raise ValueError(f"{name} is {'between 0 and 1; write 80 % as 0.8' if share else 'a finite number'}")


def check_thresholds(run: RunDirectory, under: Bounds, over: Bounds) -> list[ThresholdResult]:
    """Return the result of each bound for each model and setting of a finished run that has the metric.

    The value is that of all questions, or of the answerable ones for a metric of these alone. A value below its bound
    in `under` or above that in `over` misses it. Raises ValueError as `read_bounds`.
    """
    figures = [one for one in read_records(run.file("metrics.parquet"), Figure) if one.keys["group_by"] == "type"]
    _check_bounds([*under.items(), *over.items()], {*added_metrics(), *(one.metric for one in figures)})
    figures.sort(key=lambda one: one.keys["group"] == "all")  # which replaces the answerable ones
    results = []
    wanted = [(*one, "at least", 1) for one in under.items()] + [(*one, "at most", -1) for one in over.items()]
    for full, bound, needed, sign in wanted:
        *where, metric = full.split("/")
        cells: dict[CellKey, Figure] = {}
        for one in figures:
            cell = CellKey(*(one.keys[name] for name in CellKey._fields))
            if one.metric == metric and one.keys["group"] in ("answerable", "all") and {*where} <= {*cell}:
                cells[cell] = one
        faults = {} if cells else {"": f"{full} has no value: no answer of this run can have it"}
        for cell, one in cells.items():
            faults[str(cell)] = ""
            if one.value is None:
                faults[str(cell)] = f"{cell}: {metric} has no value: {one.unscored:,} answers have no verdict"
            elif sign * (one.value - bound) < 0:
                faults[str(cell)] = f"{cell}: {metric} is {one.value:.4g}, and must be {needed} {bound:g}"
        results += [ThresholdResult(name, f"{metric} {needed} {bound:g}", fault) for name, fault in faults.items()]
    return results


def junit_report(name: str, results: Sequence[ThresholdResult]) -> str:
    """Return results as JUnit XML, each a test case of the suite `name`."""
    failures = sum(bool(one.fault) for one in results)
    suite = ElementTree.Element("testsuite", name=name, tests=str(len(results)), failures=str(failures))
    for one in results:
        case = ElementTree.SubElement(suite, "testcase", classname=one.cell or name, name=one.metric)
        if one.fault:
            ElementTree.SubElement(case, "failure", message=one.fault)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def assert_thresholds(
    run: RunDirectory | str | PathLike[str], *, under: Bounds | None = None, over: Bounds | None = None
) -> None:
    """Check that every model of an evaluation reaches the thresholds in every setting.

    Args:
        run: The evaluation, or its folder.
        under: The least values: `{"accuracy": 0.8}`, or for one setting `{"oracle/accuracy": 0.8}`.
        over: The largest values: `{"hallucination_rate": 0.05}`.

    Raises:
        AssertionError: A value misses its bound, a metric has no value, or the run is not complete.
        ValueError: There is no such metric, or it cannot reach such a value.
    """
    opened = run if isinstance(run, RunDirectory) else RunDirectory.open(str(run))
    if not opened.complete:
        raise AssertionError(f"{opened.root} is not complete; the command that began it finishes it")
    if faults := [one.fault for one in check_thresholds(opened, under or {}, over or {}) if one.fault]:
        raise AssertionError("\n".join(faults))
