"""SPL labels in, a question-answering benchmark with provenance out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fdarx_core.specs.build import BuildSpec
from jobs.cli import run_as

if TYPE_CHECKING:  # importing it takes longer than showing the job's help may
    from fdarx_core.storage import RunDirectory

NO_QUESTIONS = 1
"""The exit code of a build that made no question."""
_MADE = {"passages": "passages", "contexts": "contexts", "generate": "candidates"}  # of rows of another kind
_PHASES = {
    "identify": "files identified",
    "survey": "labels surveyed for topics",
    "count": "counting the prompts that are too long",
    "build": "labels built",
    "transfer": "parts of labels asked questions of other labels",
    "publish": "writing the benchmark and the report",
}


def build(*, config: Annotated[BuildSpec, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code.

    0 done, 1 done without any question, 2 wrong argument, 3 stopped while asking or no usable reply, 130 interrupted.
    """
    from jobs.session import carry_out

    return carry_out(config, _PHASES, _tell, busy_text="looking for labels")


def _tell(run: RunDirectory, config: BuildSpec) -> int:
    """Print the result of a build; return its exit code."""
    from fdarx_core.report.retention import silent_roles
    from jobs.output import print_json
    from jobs.session import end_code, run_result

    info = run.info()
    if config.as_json:
        print_json(run_result(run))
    else:
        _tell_result(info, run)
    code = end_code(info, silent_roles(info))
    return code if sum(info["questions"].values()) else NO_QUESTIONS


def _tell_result(info: dict[str, Any], run: RunDirectory) -> None:
    from fdarx_core.report.page_engine import plural, readable
    from fdarx_core.report.retention import heavy_loss_lines, main_reasons, missing_lines, unusable_lines
    from jobs.output import printable, tell_result

    total = sum(info["questions"].values())
    if failed := info.get("audit", {}).get("failed"):
        print("\nTHE ARTIFACT AUDIT FAILED. The questions alone give away more than the bounds allow:")
        print("\n".join(f"  {message}" for message in failed))
    print()
    for line in (*unusable_lines(info), *heavy_loss_lines(info), *missing_lines(info)):
        print(f"  {line}")
    if total:
        _tell_splits(info)
    for stage in info["stages"]:
        rejected = [one for one in info["reject_reasons"] if one["stage"] == stage["stage"]]
        reasons = ", ".join(f"{one['rows']:,} {readable(one['reason'])}" for one in rejected)
        counts = f"  {stage['stage']:<12} {stage['rows_in']:>9,} in {stage['rejected']:>9,} rejected"
        if made := _MADE.get(stage["stage"]):
            counts += f", {stage['rows_out']:,} {made} made"
        print(f"{counts}{': ' * bool(reasons)}{reasons}")
    for row in info["asked"]:
        if row["endpoint"] != "baseline":
            cost = "" if row["cost"] is None else f", {row['cost']:.2f} USD"
            tokens = f"{row['prompt_tokens']:,} tokens in, {row['completion_tokens']:,} out"
            batched = f" ({row['batched']:,} in batches)" if row["batched"] else ""
            print(f"  {row['task']} by {row['endpoint']}: {row['requests']:,} requests{batched}, {tokens}{cost}")
    if not total:
        reasons = " ".join(main_reasons(info)) or "No row was rejected."
        print(f"error: no question passed. {reasons}", file=sys.stderr)
    if first := info["input"].get("first_unusable"):
        unusable = sum(stage["rejected"] for stage in info["stages"] if stage["stage"] in ("read", "identify"))
        print(f"{plural(unusable, 'document')} cannot be used, first {printable(first)}", file=sys.stderr)
    if missing := info["input"]["set_ids_not_found"]:
        print(f"{len(missing)} of the set ids asked for are not in the input, {missing[0]} first", file=sys.stderr)
    tell_result(info.get("result", ""), str(run.file("report.html")))


def _tell_splits(info: dict[str, Any]) -> None:
    from fdarx_core.storage.splits import SPLITS, Splits

    splits = Splits.of_run(info)
    if splits.dev:
        test, dev = (sum(splits.questions[split].values()) for split in SPLITS)
        print(f"  {test:,} in the test split, {dev:,} in dev (labels: {len(splits.dev):,}, drugs: {splits.drugs})")
    if splits.note:
        print(f"  {splits.note}")


if __name__ == "__main__":
    run_as("build")
