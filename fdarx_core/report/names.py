"""Names of settings, question groups, metrics and statuses on the pages of evaluations."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml

_NAMES: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("names.yaml").read_text("utf-8"))

PAGE_STYLES: dict[str, dict[str, dict[str, str]]] = _NAMES.pop("styles")
"""The words, signs and colors of the pages for the fixed names in rows, by table."""
PAGE_WORDS: dict[str, dict[str, str]] = _NAMES
"""The words of the pages for the fixed names in rows, by table."""

SETTING_NAMES = PAGE_WORDS["settings"]
"""In the order of the pages; other settings follow under the names that users gave them."""

SETTING_COLORS: dict[str, str] = {"closed_book": "#8a8a94", "full_label": "#4477aa", "oracle": "#2f9c80"}
RETRIEVED_COLORS = ("#d98b33", "#b35a9c", "#7f9f3f", "#c8553d", "#6a6fc4", "#3aa6c9", "#a07850")

GROUP_NAMES = PAGE_WORDS["groups"]

METRIC_NAMES = PAGE_WORDS["metrics"]

STATUS_NAMES: dict[str, str] = {"done": "Done", "partial": "Partial", "incomplete": "Incomplete", "skipped": "Skipped"}


def setting_name(setting: str, retriever: str = "") -> str:
    """Return the name of a setting, for example "Retrieved (bm25)"."""
    name = SETTING_NAMES.get(setting, setting)
    return f"{name} ({retriever})" if retriever else name


def setting_order(condition: tuple[str, str]) -> tuple[int, str, str]:
    """Return the key that sorts (setting, retriever) in the order of the pages."""
    known = list(SETTING_NAMES)
    setting, retriever = condition
    return (known.index(setting) if setting in known else len(known), setting, retriever)
