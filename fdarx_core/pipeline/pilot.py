"""A plan by a pilot: the requests that a build will send, from those that a build of a few labels has sent.

How many requests follow on a passage is not known before a model has written: it may write fewer questions than it is
asked for, and each stage drops some. The requests of the writer are known exactly, since the contexts are. A ratio
estimator takes the others: requests of a task per request of the writer, as in the pilot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.pipeline.asking import PlanRow, price
from fdarx_core.storage import RunDirectory, StorageError


def expected_plan(
    planned: Sequence[PlanRow], pilot: RunDirectory, writing: Collection[str], models: Mapping[str, ModelConfig]
) -> list[PlanRow]:
    """Return the requests that a build is expected to send.

    Args:
        planned: the plan without a pilot, an upper bound.
        pilot: a finished build with the same models in the same roles, on labels of the same kind.
        writing: the tasks of the writer, whose planned requests are exact.
        models: the models by name, for prices.

    Raises:
        StorageError: the run is no finished build, or asked none of the models of a task of the plan.
    """
    sent = {(row["task"], row["endpoint"]): row for row in _asked(pilot)}
    wrote = sum(row["requests"] for (task, _), row in sent.items() if task in writing)
    writes = sum(row.requests for row in planned if row.task in writing)
    if not wrote:
        raise StorageError(f"--pilot {pilot.root}: its writer was asked nothing; give a build by the same models")
    return [_expected(row, sent, writes / wrote, pilot, models, exact=row.task in writing) for row in planned]


def _asked(pilot: RunDirectory) -> list[dict[str, Any]]:
    info = pilot.info()
    if info["job"] != "build_benchmark" or not pilot.complete:
        raise StorageError(
            f"--pilot {pilot.root} is no finished build; give one, for example of 20 labels (--sample 20)"
        )
    return list(info["asked"])


def _expected(
    row: PlanRow,
    sent: Mapping[tuple[str, str], Mapping[str, Any]],
    growth: float,
    pilot: RunDirectory,
    models: Mapping[str, ModelConfig],
    *,
    exact: bool,
) -> PlanRow:
    """Return a row of the plan with the requests and tokens of the pilot; `growth` is how much more is written."""
    found = sent.get((row.task, row.endpoint))
    if found is None:
        raise StorageError(
            f"--pilot {pilot.root} did not ask {row.endpoint} for {row.task}; give a build with the same models in the "
            "same roles"
        )
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
    return made
