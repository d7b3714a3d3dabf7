"""Training: of a language model on question-answer pairs, and of an encoder on the questions of a build.

Each is examined on data that was kept back.
"""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from fdarx_core.pipeline.finetuning import TrainingFailed
from fdarx_core.specs.finetune import FinetuneAnswererSpec, FinetuneRetrieverSpec
from fdarx_core.storage import RunDirectory
from fdarx_core.tuning.evaluation import MEASURES, change_lines, stored_changes
from fdarx_core.tuning.retriever_training import RETRIEVAL_MEASURES
from fdarx_core.tuning.trainer import summary_line
from jobs import STOPPED, wrong_arguments
from jobs.cli import run_as
from jobs.output import print_json
from jobs.session import carry_out, run_result

_ANSWERER_PHASES = {"train": "steps", "examine": "answering the test part"}
_RETRIEVER_PHASES = {
    "read": "reading the questions and searching for hard negatives",
    "train": "steps",
    "score": "labels scored",
}


@wrong_arguments()
def finetune(*, config: Annotated[FinetuneAnswererSpec, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 training failed, 130 interrupted."""
    try:
        return carry_out(config, _ANSWERER_PHASES, _tell_answerer, busy_text="reading the pairs")
    except TrainingFailed as error:
        print(
            f"error: training failed: {error}; the same command resumes the job from the last checkpoint",
            file=sys.stderr,
        )
        return STOPPED


def _tell_answerer(run: RunDirectory, config: FinetuneAnswererSpec) -> int:
    if config.as_json:
        print_json(run_result(run))
        return 0
    print(f"\n{summary_line(run.info())}")
    print(*change_lines(stored_changes(run), MEASURES, 22), sep="\n")
    print(f"\n{config.result:<8} {run.file(config.result)}\nreport   {run.file('report.html')}")
    return 0


@wrong_arguments()
def finetune_retriever(*, config: Annotated[FinetuneRetrieverSpec, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 130 interrupted."""
    return carry_out(config, _RETRIEVER_PHASES, _tell_retriever, busy_text="reading the build")


def _tell_retriever(run: RunDirectory, config: FinetuneRetrieverSpec) -> int:
    info, changes = run.info(), stored_changes(run)
    if config.as_json:
        print_json(info | {"figures": changes})
        return 0
    for part, count in info["questions"].items():
        print(f"{part:<11} {count:,} questions to {info['labels'][part]:,} labels")
    print(f"left out    {', '.join(f'{count:,} {reason}' for reason, count in info['left_out'].items()) or 'none'}")
    print(f"{summary_line(info)}\n", *change_lines(changes, RETRIEVAL_MEASURES, 10), sep="\n")
    print(f"\nencoder  {info['encoder']}")
    return 0


if __name__ == "__main__":
    run_as("finetune")
