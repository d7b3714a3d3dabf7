"""What a plan says beyond its requests: which prompts are too long for a model, and what to expect by a pilot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from fdarx_core.filters.round_trip import ROUND_TRIP_ANSWER
from fdarx_core.generation.writing import written_types
from fdarx_core.labels import Identity
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.asking import PlanRow, price
from fdarx_core.records import content_id
from fdarx_core.report.page_engine import listed
from fdarx_core.storage import RunDirectory, StorageError

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


def expected_plan(
    planned: Sequence[PlanRow], pilot: RunDirectory, writing: Collection[str], models: Mapping[str, ModelConfig]
) -> list[PlanRow]:
    """Return the requests that a build is expected to send, from those that a build of a few labels has sent.

    How many requests follow on a passage is not known before a model has written: it may write fewer questions than it
    is asked for, and each stage drops some. The requests of the writer are known exactly, since the contexts are. A
    ratio estimator takes the others: requests of a task per request of the writer, as in the pilot.

    Args:
        planned: the plan without a pilot, an upper bound.
        pilot: a finished build with the same models in the same roles, on labels of the same kind.
        writing: the tasks of the writer, whose planned requests are exact.
        models: the models by name, for prices.

    Raises:
        StorageError: the run is no finished build, or asked none of the models of a task of the plan.
    """
    info = pilot.info()
    if info["job"] != "build_benchmark" or not pilot.complete:
        raise StorageError(
            f"--pilot {pilot.root} is no finished build; give one, for example of 20 labels (--sample 20)"
        )
    sent = {(row["task"], row["endpoint"]): row for row in info["asked"]}
    wrote = sum(row["requests"] for (task, _), row in sent.items() if task in writing)
    growth = sum(row.requests for row in planned if row.task in writing) / (wrote or 1)
    if not wrote:
        raise StorageError(f"--pilot {pilot.root}: its writer was asked nothing; give a build by the same models")
    expected = []
    for row in planned:
        if (found := sent.get((row.task, row.endpoint))) is None:
            raise StorageError(
                f"--pilot {pilot.root} did not ask {row.endpoint} for {row.task}; give a build with the same models in "
                "the same roles"
            )
        exact = row.task in writing
        requests = row.requests if exact else round(found["requests"] * growth)
        scale = requests / (found["requests"] or 1)
        made = replace(
            row,
            requests=requests,
            prompt_tokens=row.prompt_tokens if exact else round(found["prompt_tokens"] * scale),
            shared_tokens=row.shared_tokens if exact else round(row.shared_tokens * requests / (row.requests or 1)),
            completion_tokens=round(found["completion_tokens"] * scale),
            too_long=round(row.too_long * requests / (row.requests or 1)),
        )
        price(made, models.get(row.endpoint))
        expected.append(made)
    return expected
