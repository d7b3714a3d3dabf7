"""Which prompts of a plan are too long for their model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from fdarx_core.filters.round_trip import ROUND_TRIP_ANSWER
from fdarx_core.generation.writing import written_types
from fdarx_core.labels import Identity
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.asking import PlanRow
from fdarx_core.records import content_id
from fdarx_core.report.page_engine import listed

COUNTED_LABELS = 20
"""The most labels on which a build counts prompts before it asks; one takes about 0.3 CPU-seconds."""
_EFFECTS = {
    "writer": "no question is written on their passages",
    "reader": "their questions stay without an answer to compare",
    "judge": "their questions stay without a verdict",
}


def role_in_build(task: str) -> str:
    """Return the role of a build whose model gets the prompts of a task."""
    if task in written_types():
        return "writer"
    return "reader" if task == ROUND_TRIP_ANSWER.name else "judge"


def counted_labels(labels: Iterable[Identity], seed: int) -> list[Identity]:
    """Return the labels on which a build counts prompts: all of them, or as many as `COUNTED_LABELS`, drawn by hash."""
    drawn = sorted(labels, key=lambda label: content_id("prompt lengths", str(seed), label.set_id))
    return drawn[:COUNTED_LABELS]


def prompt_length_lines(
    rows: Sequence[PlanRow],
    models: Mapping[str, ModelConfig],
    role_of: Callable[[str], str] = lambda task: task,
    counted_on: str = "",
) -> list[str]:
    """Return a sentence for each role and model with prompts that are too long, and one on the models not checked.

    Args:
        rows: the planned requests by task and model.
        models: the models by name; those without a `context_length` are not checked.
        role_of: the role of a task, by default its name.
        counted_on: what the prompts were counted on, where it is not all that is planned.
    """
    by_role: dict[tuple[str, str], list[PlanRow]] = defaultdict(list)
    for row in rows:
        if row.endpoint in models:
            by_role[role_of(row.task), row.endpoint].append(row)
    lines = []
    for (role, name), planned in by_role.items():
        model, requests = models[name], sum(row.requests for row in planned)
        if not (too_long := sum(row.too_long for row in planned)):
            continue
        found = [row for row in planned if row.too_long and role != row.task]
        details = [f"{row.too_long:,} of {row.task}" if len(found) > 1 else f"all of them {row.task}" for row in found]
        if counted_on:
            details.insert(0, counted_on)
        where = f" ({'; '.join(details)})" if details else ""
        lines.append(
            f"{role} {name}: {too_long:,} of {requests:,} prompts{where} leave no room for a reply of max_tokens "
            f"{model.max_tokens:,} in its context_length of {model.context_length:,}. Its server will refuse them, and "
            f"{_EFFECTS.get(role, 'what they are about stays without a result')}; give a model with a longer context, "
            "or lower max_tokens."
        )
    return [*lines, *unchecked_line(dict.fromkeys(name for _, name in by_role if models[name].context_length is None))]


def unchecked_line(names: Iterable[str]) -> list[str]:
    """Return the line on models whose prompts are not checked, for want of a `context_length`; nothing without any."""
    if not (unknown := list(names)):
        return []
    return [
        f"The lengths of prompts to {listed(unknown)} are not checked; to check them, set context_length in --models "
        "to the tokens that the server takes, of prompt and reply together."
    ]
