"""The engine of all pages: templates, charts, tables, and the formatting of numbers, times and names."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from typing import Any, TypeVar

import orjson
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from fdarx_core.evaluation.tables import MISSING, ResultTable, interval
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Difference, Estimate
from fdarx_core.records.question_types import ANSWERABLE_TYPES, QUESTION_TYPES, type_title

_NAMES: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("names.yaml").read_text("utf-8"))

PAGE_STYLES: dict[str, dict[str, dict[str, str]]] = _NAMES.pop("styles")
"""The words, signs and colors of the pages for the fixed names in rows, by table."""
PAGE_WORDS: dict[str, dict[str, str]] = _NAMES
"""The words of the pages for the fixed names in rows, by table."""

SETTING_NAMES = PAGE_WORDS["settings"]
"""In the order of the pages; other settings follow under the names that users gave them."""

SETTING_COLORS: dict[str, str] = {"closed_book": "#8a8a94", "full_label": "#4477aa", "oracle": "#2f9c80"}
RETRIEVED_COLORS = ("#d98b33", "#b35a9c", "#7f9f3f", "#c8553d", "#6a6fc4", "#3aa6c9", "#a07850")

METRIC_NAMES = PAGE_WORDS["metrics"]

STATUS_NAMES: dict[str, str] = {"done": "Done", "partial": "Partial", "incomplete": "Incomplete", "skipped": "Skipped"}


def group_name(group: str) -> str:
    """Return the name of a group of questions: a type, all answerable ones, or all."""
    if group == "answerable":
        return listed([QUESTION_TYPES[name].title.lower() for name in ANSWERABLE_TYPES]).capitalize()
    return PAGE_WORDS["groups"].get(group) or type_title(group)


def setting_name(setting: str, retriever: str = "") -> str:
    """Return the name of a setting, for example "Retrieved (bm25)"."""
    name = SETTING_NAMES.get(setting, setting)
    return f"{name} ({retriever})" if retriever else name


def setting_order(condition: tuple[str, str]) -> tuple[int, str, str]:
    """Return the key that sorts (setting, retriever) in the order of the pages."""
    known = list(SETTING_NAMES)
    setting, retriever = condition
    return (known.index(setting) if setting in known else len(known), setting, retriever)


Cell = str | int | float
Item = TypeVar("Item")


Mark = tuple[Any, ...]
"""A part of a chart: the name of a macro of chart.html.j2, and its arguments."""


@dataclass(frozen=True, slots=True)
class Chart:
    """The parts of a chart, the height of its plot area, and the space around it for texts, in pixels."""

    marks: Sequence[Mark]
    height: float
    top: int = 8
    right: int = 20
    bottom: int = 44
    left: int = 12


@dataclass(frozen=True, slots=True)
class FigurePanel:
    """A chart with its title, a note on how to read it, and its numbers as a table.

    `legend` has names with their colors; a `wide` chart scrolls on narrow screens.
    """

    name: str
    title: str
    note: str
    figure: Chart
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    legend: Sequence[tuple[str, str]] = ()
    wide: bool = False

    @classmethod
    def worded(
        cls,
        name: str,
        figure: Chart,
        header: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        legend: Sequence[tuple[str, str]] = (),
        **about: object,
    ) -> FigurePanel:
        """Return a chart with its title and note in names.yaml, which `about` fills in."""
        title, note = (PAGE_WORDS[table][name].format(**about) for table in ("figure_titles", "figure_notes"))
        return cls(name, title, note, figure, header, rows, legend)


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table of a page. `name` is unique in the page.

    `equivalent` is the same table under equivalence. Where the rows are `rivals`, the best value of a column is bold;
    more is better in every column.
    """

    name: str
    table: ResultTable
    equivalent: ResultTable | None = None
    rivals: bool = False


def render_page(template: str, **content: Any) -> str:
    """Return a page or a text by its template. Pages extend page.html.j2 and use the blocks of macros.html.j2."""
    return _environment().get_template(template).render(content)


def template_macros(template: str) -> Any:
    """Return the macros of a template, as functions of these names."""
    return _environment().get_template(template).module


def readable(reason: str) -> str:
    """Return the fixed name of a reason as words."""
    return reason.replace("_", " ")


def packed(value: Any) -> str:
    """Return JSON, compressed and in base64: letters, digits and + / = alone, which need no escape in a script."""
    return b64encode(gzip.compress(orjson.dumps(value), 9, mtime=0)).decode("ascii")


def duration(info: Mapping[str, Any]) -> str:
    """Return the time from the start of the run to its end, or to now where run.json has no end yet."""
    end = datetime.fromisoformat(info["finished"]) if "finished" in info else datetime.now(timezone.utc)
    seconds = round((end - datetime.fromisoformat(info["started"])).total_seconds())
    return f"{seconds // 60} min {seconds % 60} s"


@cache
def _environment() -> Environment:
    """Return the templates of pages, in which all text is escaped except Markup, and of plain texts."""
    made = Environment(
        loader=PackageLoader("fdarx_core.report"),
        autoescape=lambda name: not str(name).endswith(".txt.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # the style sheets have the rules of the built-in question types alone
    rules = Markup(".{0} {{ border-top: 3px solid {1} !important; }}\n#questions .type.{2}::before {{ color: {1}; }}\n")
    added = (QUESTION_TYPES[name] for name in QUESTION_TYPES if name not in QUESTION_TYPES.builtin)
    styles = (rules.format(kind.name, kind.color, ".".join(kind.title.split())) for kind in added)
    made.globals.update(style=Markup("").join((_asset("report.css"), *styles)))
    made.globals.update(section_names=SECTION_NAMES)
    made.globals.update(asset=_asset, best=_best)
    made.filters.update(
        number="{:,}".format,
        percent=lambda share: f"{share:.1%}" if share == 0 or share >= 0.0005 else "< 0.1%",
        formatted=_formatted,
        decimal=_decimal,
        signed=signed,
        plural=plural,
        listed=listed,
        moment=_moment,
        readable=readable,
        explained=_explained,
        embedded=_embedded,
        coded=lambda line: Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(line)))),
    )
    return made


def _asset(name: str) -> Markup:
    return Markup(files("fdarx_core.report").joinpath(f"templates/{name}").read_text("utf-8"))


def _explained(name: str) -> str | Markup:
    """Return the header of a table, with what it means where names.yaml explains it, or it abbreviates a type."""
    titles = {kind.abbreviation: f"{kind.title} questions" for kind in QUESTION_TYPES.values()}
    meaning = PAGE_WORDS["explanations"].get(name) or titles.get(name)
    return Markup('<abbr title="{}">{}</abbr>').format(meaning, name) if meaning else name


def _formatted(value: Any) -> str:
    """Return a value of run.json as text; one that was not given is "–"."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_formatted(one)}" for name, one in value.items()) or MISSING
    if isinstance(value, list):
        return ", ".join(map(_formatted, value)) or MISSING
    return {"": MISSING, "None": MISSING, "True": "yes", "False": "no"}.get(str(value), str(value))


def _moment(iso: str) -> str:
    moment = datetime.fromisoformat(iso).astimezone(timezone.utc)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _embedded(value: Any) -> Markup:
    """Return JSON for a script element, escaped so that no text in it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


SIGNIFICANT = 0.05
"""Threshold of p after Holm's correction."""
DIGITS = 3
"""Decimals of the values on a page; values that look equal are equally good."""


def _best(table: ResultTable) -> list[float | None]:
    """Return the highest value of each column as shown; None for a column in which all values look equal."""
    entries = zip(*(row for _, row in table.rows), strict=True)
    columns = [
        {round(entry.value, DIGITS) for entry in column if entry and entry.value is not None} for column in entries
    ]
    return [max(column) if len(column) > 1 else None for column in columns]


def _decimal(value: float, digits: int = DIGITS) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def value_and_interval(estimate: Estimate | None, written: Callable[[float], str] = _decimal) -> tuple[str, str]:
    """Return value and interval as text: "0.562" and "[0.530, 0.594]"; `written` makes the text of a number."""
    if estimate is None or estimate.value is None:
        return MISSING, MISSING
    return written(estimate.value), interval(estimate, written) or MISSING


def signed(value: float, digits: int = 2) -> str:
    """Return a difference as text, "+0.12", "−0.12"; one that would be 0.00 has as many digits as it needs."""
    form = f".{digits}f" if abs(value) < 1e-6 or round(abs(value), digits) else ".1g"
    return f"{'+' if value > 1e-6 else '−' if value < -1e-6 else ''}{abs(value):{form}}"


def by_significance(differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences in the order of a page: the most significant first, of equals the largest."""
    return sorted(differences, key=lambda one: (one.p_holm or 0, one.p or 0, -abs(one.value or 0)))


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: "1 passage", "3 passages"."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def listed(parts: Sequence[str]) -> str:
    """Return the parts as "a, b and c"."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def in_turn(groups: Iterable[Sequence[Item]]) -> Iterator[Item]:
    """Yield the first item of each group, then the second of each, and so on."""
    missing: Any = object()
    for row in zip_longest(*groups, fillvalue=missing):
        yield from (item for item in row if item is not missing)
