"""Ways of retrieving and answering compared on one index: strategies × post-processing, on a file of questions."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fdarx_core.evaluation.grid import as_text
from fdarx_core.pipeline.rag.parts import UNDERSTOOD_BY
from fdarx_core.pipeline.rag.results import compared, tables_of
from fdarx_core.pipeline.rag.run import RagEvaluation
from fdarx_core.pipeline.rag.what import RagSweep
from fdarx_core.rag.questions import placed, read_questions
from fdarx_core.records import content_id
from fdarx_core.retrieval.index import Index
from fdarx_core.storage import RunDirectory
from jobs.evaluate_rag_config import EvaluateRagConfig
from jobs.frame import carried_out, end_code, exit_code, is_done, session
from jobs.options import read_options
from jobs.versions import versions

_PHASES = {"plan": "parts planned", "answer": "parts answered and judged", "publish": "computing figures and intervals"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something is incomplete, 130 interrupted."""
    config = read_options(EvaluateRagConfig, arguments, prog="fdarx evaluate-rag", description=__doc__ or "")
    return exit_code(lambda: _compare(config), ValueError)


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
    if is_done(run, UNDERSTOOD_BY):
        return _tell(run, sweep)
    if rejects:
        print(
            f"{len(rejects)} rows of {config.questions} are no questions, see {run.part('rejects', 0)}", file=sys.stderr
        )
    read = (config.index, config.cosine_model, config.reranker_model)
    with session(run, _PHASES, asking="answer", read=read, cpus=config.cpus) as progress:
        evaluation = RagEvaluation(
            run=run,
            what=sweep,
            questions=chosen,
            rejects=rejects,
            progress=progress,
            seed=config.seed,
            resamples=config.resamples,
            reuse=[RunDirectory.open(other) for other in config.reuse],
        )
        if not carried_out(evaluation, progress, plan=config.plan):
            return 0
    return _tell(run, sweep)


def _tell(run: RunDirectory, sweep: RagSweep) -> int:
    for grid in tables_of(run, compared(sweep)):
        print(f"\n{as_text(grid)}")
    print(f"\nanswers  {run.root}/answers\nreport   {run.file('report.html')}")
    return end_code(run.info())


if __name__ == "__main__":
    sys.exit(main())
