"""What all pages of the report share: templates, plotly.js, and how numbers, moments and names are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.report.exhibit import render_figure
from fdarx_core.report.retention import readable


def duration(info: Mapping[str, Any]) -> str:
    """From the run's start to its end, or to now where run.json has no end yet."""
    end = datetime.fromisoformat(info["finished"]) if "finished" in info else datetime.now(timezone.utc)
    seconds = round((end - datetime.fromisoformat(info["started"])).total_seconds())
    return f"{seconds // 60} min {seconds % 60} s"


@cache
def environment() -> Environment:
    """The pages' templates, with everything escaped that does not say it is HTML."""
    made = Environment(
        loader=PackageLoader("fdarx_core.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(style=_asset("report.css"), plotly=Markup(get_plotlyjs()), section_names=SECTION_NAMES)
    made.globals.update(asset=_asset)
    made.filters.update(figure=render_figure, readable=readable, shown=_shown)
    made.filters.update(number="{:,}".format, percent=_percent, moment=_moment, embedded=_embedded)
    return made


def _asset(name: str) -> Markup:
    return Markup(files("fdarx_core.report").joinpath(f"templates/{name}").read_text("utf-8"))


def _moment(iso: str) -> str:
    moment = datetime.fromisoformat(iso).astimezone(timezone.utc)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share == 0 or share >= 0.0005 else "< 0.1%"


def _embedded(value: Any) -> Markup:
    """JSON for a script element, where nothing of it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
