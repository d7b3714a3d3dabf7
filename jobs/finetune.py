"""Training of a language model on question-answer pairs; it is examined on data that was kept back."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from fdarx_core.pipeline.finetuning import TrainingFailed
from fdarx_core.specs.finetune import FinetuneAnswererSpec
from fdarx_core.storage import RunDirectory
from fdarx_core.tuning.evaluation import change_lines, stored_changes
from jobs import STOPPED, wrong_arguments
from jobs.cli import run_as
from jobs.output import print_json
from jobs.session import carry_out, run_result

_PHASES = {"train": "steps", "examine": "answering the test part"}


@wrong_arguments()
def finetune(*, config: Annotated[FinetuneAnswererSpec, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 training failed, 130 interrupted."""
    try:
        return carry_out(config, _PHASES, _tell, busy_text="reading the pairs")
    except TrainingFailed as error:
        print(
            f"error: training failed: {error}; the same command resumes the job from the last checkpoint",
            file=sys.stderr,
        )
        return STOPPED


def _tell(run: RunDirectory, config: FinetuneAnswererSpec) -> int:
    if config.as_json:
        print_json(run_result(run))
        return 0
    info = run.info()
    best = f"lowest validation loss {info['validation_loss']:.3f} at {info['best_step']:,}"
    print(f"\n{info['steps']:,} steps; {best}", *change_lines(stored_changes(run)), sep="\n")
    print(f"\n{config.result:<8} {run.file(config.result)}\nreport   {run.file('report.html')}")
    return 0


if __name__ == "__main__":
    run_as("finetune")
