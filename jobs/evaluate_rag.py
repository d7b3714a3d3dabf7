"""Ways of retrieving and answering compared on one index: strategies × post-processing, on a file of questions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from fdarx_core.evaluation.grid import as_text
from fdarx_core.llm import ModelsError
from fdarx_core.pipeline.rag.parts import UNDERSTOOD_BY
from fdarx_core.pipeline.rag.results import compared, tables_of
from fdarx_core.pipeline.rag.run import RagEvaluation
from fdarx_core.pipeline.rag.what import RagSweep
from fdarx_core.rag.questions import placed, read_questions
from fdarx_core.records import content_id
from fdarx_core.retrieval.index import Index
from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.storage import RunDirectory, StorageError
from jobs.build_plan import tell_plan
from jobs.evaluate_rag_config import EvaluateRagConfig
from jobs.exits import INTERRUPTED, STOPPED
from jobs.options import read_options, stop
from jobs.progress import ProgressLine
from jobs.ray_session import ray_session
from jobs.stoppable import ending, run_stoppable
from jobs.versions import versions

_PHASES = {"plan": "parts planned", "answer": "parts answered and judged", "publish": "computing figures and intervals"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something is incomplete, 130 interrupted."""
    config = read_options(EvaluateRagConfig, arguments, prog="fdarx evaluate-rag", description=__doc__ or "")
    try:
        return _compare(config)
    except (StorageError, ModelsError, ModelMissing, ValueError) as error:
        stop(str(getattr(error, "cause", error)))  # Ray wraps what a worker raised
    except KeyboardInterrupt:
        print("\ninterrupted; what is done is kept, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED


def _compare(config: EvaluateRagConfig) -> int:
    questions, rejects = read_questions(config.questions, strip_title=config.strip_title)
    chosen = sorted(questions, key=lambda one: content_id(str(config.seed), one.id))[: config.sample]
    index = Index.open(config.index, version=config.index_version)
    sweep = config.sweep(index)
    lost = sum(bool(one.title) for one in chosen)
    chosen = placed(chosen, index)
    if lost := lost - sum(bool(one.title) for one in chosen):
        print(f"{lost} questions are on documents that the index lacks; no rank is counted for them", file=sys.stderr)
    identity = config.identity(sweep, chosen)
    run = RunDirectory.begin(config.out, job="evaluate_rag", config=identity, versions=versions())
    if run.complete and run.info()["understood_by"] == UNDERSTOOD_BY:
        print(f"{run.root} is complete already, nothing to do", file=sys.stderr)
        return _tell(run, sweep)
    if run.resumed:
        print(f"resuming {run.root}", file=sys.stderr)
    if rejects:
        print(
            f"{len(rejects)} rows of {config.questions} are no questions, see {run.part('rejects', 0)}", file=sys.stderr
        )
    read = (config.index, config.cosine_model, config.reranker_model)
    with (
        ending(run),
        ray_session(config.cpus, written=[run.root], read=read),
        ProgressLine(_PHASES, asking="answer") as progress,
    ):
        reuse = [RunDirectory.open(other) for other in config.reuse]
        evaluation = RagEvaluation(run, sweep, chosen, rejects, progress, config.seed, config.resamples, reuse)
        if config.plan:
            tell_plan(evaluation.plan())
            return 0
        run_stoppable(evaluation, progress)
    return _tell(run, sweep)


def _tell(run: RunDirectory, sweep: RagSweep) -> int:
    info: dict[str, Any] = run.info()
    for grid in tables_of(run, compared(sweep)):
        print(f"\n{as_text(grid)}")
    print(f"\nanswers  {run.root}/answers\nreport   {run.file('report.html')}")
    if info["status"] == "incomplete":
        print(f"incomplete: {info['ended']}; the same command goes on from there", file=sys.stderr)
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
