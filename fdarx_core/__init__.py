"""FDARx: question-answering benchmarks from FDA drug labels, evaluation, cited answers, factuality.

This is the public API: `import fdarx_core as fdarx`, then for example `fdarx.parse_label("label.xml")`. Names are
imported when they are first used, so that importing the package loads neither Ray nor torch. See docs/python.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

PUBLIC_NAMES = {
    "FactualityResult": "fdarx_core.api",
    "Index": "fdarx_core.rag.index",
    "Model": "fdarx_core.llm",
    "Run": "fdarx_core.api",
    "assert_thresholds": "fdarx_core.evaluation.thresholds",
    "build": "fdarx_core.api",
    "evaluate": "fdarx_core.api",
    "evaluate_rag": "fdarx_core.api",
    "find_drugs": "fdarx_core.labels.finding",
    "finetune_answerer": "fdarx_core.api",
    "grade": "fdarx_core.api",
    "index": "fdarx_core.api",
    "parse_label": "fdarx_core.labels.parse",
    "read_labels": "fdarx_core.labels.parse",
    "score_factuality": "fdarx_core.api",
    "verify": "fdarx_core.verify",
}
"""The names of the public API, with the modules that they are imported from."""

__all__ = list(PUBLIC_NAMES)


def __getattr__(name: str) -> Any:
    if name not in PUBLIC_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(PUBLIC_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
