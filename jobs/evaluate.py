"""Models × settings × retrievers on a benchmark: answers, grades, metrics with intervals, and a report."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fdarx_core.specs.evaluate import EvaluateSpec, GradingSpec
from fdarx_core.specs.grade import GradeSpec
from jobs import BELOW_THRESHOLD, STOPPED
from jobs.cli import run_as

if TYPE_CHECKING:  # importing these takes longer than showing the job's help may
    from fdarx_core.evaluation.tables import ResultTable
    from fdarx_core.pipeline.executor import ModelFleet
    from fdarx_core.records import Figure
    from fdarx_core.specs.running import RunJob
    from fdarx_core.storage import RunDirectory
    from jobs.progress import ProgressLine
    from serving.served_model import ServedModel

    Served = Mapping[str, ServedModel]

_NOWHERE = "http://not-up-yet"
"""Placeholder for the address of a model that is deployed later."""
_PHASES = {
    "intake": "labels read",
    "retrieve": "parts searched",
    "answer": "parts answered and graded",
    "bert_scores": "parts scored by BERTScore",
}


def evaluate(*, config: Annotated[EvaluateSpec, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 some cells are incomplete, 4 a threshold is
    missed, 130 interrupted."""
    from fdarx_core.pipeline.evaluation import Evaluation
    from jobs.session import carry_out

    spec, deployed = with_deployed(config)
    used = {*spec.only, spec.judge} if spec.only else {*deployed}
    served = {name: model for name, model in deployed.items() if name in used}

    @contextmanager
    def with_fleet(job: RunJob, progress: ProgressLine) -> Iterator[None]:
        assert isinstance(job, Evaluation)
        with fleet_of(served, spec.judge, progress, gpus=spec.gpus, cpus=spec.cpus) as job.fleet:
            yield

    return carry_out(
        spec,
        _PHASES,
        tell_evaluation,
        busy_text="reading the benchmark",
        around=with_fleet,
        for_models=cpus_for(served, spec.judge),
    )


def grade(file: Annotated[str, Parameter(show=True)], /, *, config: Annotated[GradeSpec, Parameter(name="*")]) -> int:
    """Grade a file of questions and answers by a judge, without a benchmark; returns the exit code as `evaluate`.

    Parameters
    ----------
    file
        A .csv, .jsonl, .json or .parquet file as Ragas, promptfoo or DeepEval write it, or any other with a question,
        an answer, and a reference or contexts in each row; see docs/grading.md.
    """
    from jobs.session import carry_out

    spec = config.model_copy(update={"file": file})
    return carry_out(spec, _PHASES, tell_evaluation, busy_text="reading the answers")


def with_deployed(config: EvaluateSpec) -> tuple[EvaluateSpec, Served]:
    """Return the specification with the models of `deploy`, and these models. Raises ModelsError as `load_deployed`."""
    from fdarx_core.llm import ModelsError

    served = load_deployed(config.deploy, to_ask=not config.plan)
    if config.batch and served:
        raise ModelsError("--batch asks the servers of vendors; leave it out with --deploy")
    if config.batch_files and served:
        raise ModelsError("--batch-files asks no server; leave it out with --deploy")
    return config.with_models({name: model.client_config(_NOWHERE) for name, model in served.items()}), served


def load_deployed(files: Sequence[str], *, to_ask: bool) -> dict[str, ServedModel]:
    """Return the served models of these files, by name.

    Raises ModelsError for a file or a model that can't be used or does not fit its GPUs. If the models will be asked,
    and not only planned with, it is also raised for an incomplete directory, or if a key or vLLM is missing.
    """
    from fdarx_core.llm import ModelsError
    from serving.memory import estimate_memory
    from serving.served_model import load_served, missing_engine, missing_key, missing_model_files

    served: dict[str, ServedModel] = {}
    for file in files:
        model = load_served(file)
        if model.name in served:
            raise ModelsError(f"{file}: name: another file of --deploy has {model.name} too; give it another")
        if to_ask and model.is_directory and (fault := missing_model_files(model.model)):
            raise ModelsError(f"{file}: model: {fault}")
        if to_ask and (fault := missing_key(model) or missing_engine(model)):
            raise ModelsError(f"{file}: {fault}")
        if model.size and (model.cache_gib if model.device == "cpu" else model.card_gib):
            estimate_memory(model)
        served[model.name] = model
    return served


def cpus_for(served: Served, judge: str) -> int:
    """Return the CPUs to count in addition to the machine's own, so that models do not block the job's tasks.

    They are those of all models on GPUs, of the judge, and of the largest other model.
    """
    if not served:
        return 0
    from serving.fleet import resource_request  # it imports Ray Serve, which takes seconds

    wants = {name: resource_request(model) for name, model in served.items()}
    stay = sum(want.cpus * want.replicas for name, want in wants.items() if want.gpus or name == judge)
    others = [want.cpus * want.replicas for name, want in wants.items() if not want.gpus and name != judge]
    return math.ceil(stay + max(others, default=0))


def fleet_of(
    served: Served, judge: str, progress: ProgressLine, *, gpus: int | None, cpus: int | None
) -> AbstractContextManager[ModelFleet | None]:
    """Return the fleet that deploys the models, and removes them at the end of the block. `cpus`: see `ray_session`."""
    if not served:
        return nullcontext()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")  # of this process, which imports it to describe models
    from serving.fleet import ServeFleet
    from serving.models import build

    alone = not os.environ.get("RAY_ADDRESS")  # the job starts its own Ray instance on this machine
    own = (cpus or os.cpu_count() or 1) if alone else 1
    return ServeFleet(list(served.values()), judge, build, progress.tell, gpus=gpus, own_cpus=own, alone=alone)


def tell_evaluation(run: RunDirectory, config: GradingSpec) -> int:
    """Print the result of an evaluation or of a graded file; return its exit code."""
    from fdarx_core.evaluation.figures import CellKey
    from fdarx_core.records import Figure, SettingProgress
    from fdarx_core.report.figure_limits import limits, missing_verdicts, remedy
    from fdarx_core.storage import read_records
    from jobs.output import print_json, tell_result, tell_tables
    from jobs.session import end_code, run_result

    info = run.info()
    cells = info["cells"]
    unfinished = [cell for cell in cells if cell["status"] != "done"]
    incomplete = any(cell["status"] == "incomplete" for cell in cells)
    thresholds = [] if incomplete else config.threshold_results(run)
    if config.as_json:
        print_json(run_result(run, **({"thresholds": [one._asdict() for one in thresholds]} if thresholds else {})))
    else:
        tables = evaluation_tables(list(read_records(run.file("metrics.parquet"), Figure)), info["config"]["judge"])
        tell_tables(tables, verbose=config.verbose)
        for cell in cells:
            if cell["failed"] and cell["status"] == "done":
                name = CellKey(cell["model"], cell["setting"], cell["retriever"])
                why = cell["reason"]
                why += "; give the model's context_length in its models file" if "context" in why else ""
                print(f"{name}: {cell['failed']} of {cell['due']} questions failed: {why}", file=sys.stderr)
    for line in limits(run, list(read_records(run.file("cells.parquet"), SettingProgress))):
        print(line, file=sys.stderr)
    missing = missing_verdicts(run)
    for verdicts in missing:
        print(f"{verdicts.cell}: {verdicts.sentence}", file=sys.stderr)
    if missing:
        print(remedy(missing, str(run.root)), file=sys.stderr)
    if not config.as_json:
        # one line for all cells of a model that have the same reason
        for (model, status, reason), group in groupby(unfinished, key=itemgetter("model", "status", "reason")):
            names = [str(CellKey(model, cell["setting"], cell["retriever"])) for cell in group]
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            print(f"{status}: {names[0]}{more}: {reason}", file=sys.stderr)
        if incomplete:
            print("some cells are incomplete, see above; the same command resumes the job", file=sys.stderr)
        tell_result(info.get("result", ""), str(run.file("report.html")))
    missed = [one.fault for one in thresholds if one.fault]
    for fault in missed:
        print(f"threshold missed: {fault}", file=sys.stderr)
    usable = {cell["model"] for cell in cells if cell["unparsed"] + cell["failed"] < cell["due"]}
    silent = {cell["model"] for cell in cells if cell["answer_prompt"]} - usable
    judged = sum(cell["answered"] > 0 for cell in cells)
    if [one.reasons.total() == one.asked for one in missing] == [True] * judged:
        silent |= {f"the judge {one.example.judge}" for one in missing}
    code = end_code({"status": ""}, () if incomplete else silent)
    return STOPPED if incomplete else BELOW_THRESHOLD if missed else code


def evaluation_tables(figures: Sequence[Figure], judge: str) -> list[ResultTable]:
    """Return the tables of evaluations, the main one first."""
    from fdarx_core.evaluation.tables import added_metrics_table, hallucination_table, retrieval_table, settings_table

    others = (retrieval_table(figures), hallucination_table(figures), added_metrics_table(figures))
    return [settings_table(figures, judge=judge), *others]


if __name__ == "__main__":
    run_as("evaluate")
