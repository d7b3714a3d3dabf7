"""Ask the models of a models file a few short questions, and say what each can do and what to write in the file."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from pydantic import Field

from fdarx_core.specs.options import JobConfig, Names, check_names
from jobs import wrong_arguments
from jobs.cli import run_as
from jobs.output import print_json, printable

if TYPE_CHECKING:
    from fdarx_core.llm.model_check import ModelCheck

_HEADER = ["model", "usable", "json_schema", "json_object", "text", "system role", "context", "limit", "seconds"]


class CheckConfig(JobConfig):
    """Options of `fdarx check`."""

    model: Names = Field(default_factory=list)
    """names of the models to check (all of the file)"""
    timeout_s: float = Field(60, gt=0)
    """seconds to wait for one reply; a server that loads its model needs more"""


@wrong_arguments()
def check(models: str, /, *, config: Annotated[CheckConfig | None, Parameter(name="*")] = None) -> int:
    """Ask the models of a file a few short questions, and say what each of them can do and what to write in the file.

    Each model gets one question with a system message, and one for each way to a structured reply. The exit code is 1
    if one of the models cannot be used; the others are checked nevertheless.

    Parameters
    ----------
    models
        The YAML file that lists models, see docs/models.md.
    """
    # importing these takes longer than showing the help may
    from fdarx_core.llm import check_models, load_models
    from jobs.progress import busy

    config = config or CheckConfig()
    known = load_models(models, check_access=False)
    names = check_names(config.model, known, "model") or list(known)
    # what a server refuses is in the table
    logging.basicConfig(level=logging.INFO if config.verbose else logging.ERROR, stream=sys.stderr)
    with busy(f"asking {len(names)} models", quiet=config.quiet):
        checks = asyncio.run(check_models([known[name] for name in names], timeout_s=config.timeout_s))
    if config.as_json:
        print_json({"file": models, "models": checks})
    else:
        _tell(checks)
    return int(any(one.error for one in checks))


def _tell(checks: list[ModelCheck]) -> None:
    rows = [[*_HEADER, "tokens/s", "US dollars"], *map(_row, checks)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    names = dict[tuple[str, ...], list[str]]()
    for one in checks:
        faults = [f"{mode}: {fault}" for mode, fault in one.modes.items() if fault]
        written = [f"write  {name}: {value}" for name, value in one.write.items()]
        lines = [*([f"it cannot be used: {one.error}"] if one.error else []), *faults, *written, *one.notes]
        names.setdefault((*map(printable, lines or ["nothing to change in the models file"]),), []).append(one.name)
    for told, alike in names.items():
        print("\n" + "\n  ".join([", ".join(alike), *told]))


def _row(one: ModelCheck) -> list[str]:
    modes = ["?" if mode in one.unanswered else "no" if one.modes[mode] else "yes" for mode in one.modes] or ["-"] * 3
    figures = [(one.seconds, ".1f"), (one.tokens_per_second, ",.0f"), (one.cost, ".6f")]
    seconds, speed, cost = ("-" if value is None else format(value, form) for value, form in figures)
    length = f"{one.context_length:,}" if one.context_length else "-"
    can = [one.name, "no" if one.error else "yes", *modes, one.system_role or "-"]
    return [*can, length, one.token_limit or "-", seconds, speed, cost]


if __name__ == "__main__":
    run_as("check")
