"""Models × settings × retrievers on a benchmark: answers, grades, metrics with intervals, and a report."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, replace
from importlib.util import find_spec
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.predictions import citing_settings
from fdarx_core.evaluation.settings import RETRIEVED
from fdarx_core.evaluation.tables import added_metrics_table, hallucination_table, table_1, table_2, table_text
from fdarx_core.llm import Baseline, ModelConfig, ModelsError
from fdarx_core.pipeline.evaluation import Evaluation, check_benchmark
from fdarx_core.pipeline.evaluation_steps import CODE_VERSION, EvaluationSpec, GivenAnswers
from fdarx_core.pipeline.executor import SMALL, ModelFleet
from fdarx_core.pipeline.regrading import ADOPTED, EarlierEvaluation
from fdarx_core.records import Figure, Reject, SettingProgress
from fdarx_core.report.evaluation_limits import limits
from fdarx_core.report.missing_verdicts import missing_verdicts, remedy
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.retrievers import check_retriever_models, needs_reranker, required_encoders
from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.storage.benchmark_reader import Benchmark, read_benchmark
from fdarx_core.storage.imported_predictions import read_predictions
from fdarx_core.storage.splits import TEST
from jobs import STOPPED
from jobs.evaluate import EvaluateConfig
from jobs.options import HOW, PRESENTATION, check_roles, load_all, unknown_model
from jobs.output import print_json
from jobs.progress import ProgressLine, busy
from jobs.session import (
    carried_out,
    check_servers,
    is_done,
    run_folder,
    run_result,
    session,
    versions,
    warn_of_batches,
)
from jobs.track import tracked
from serving.memory import estimate_memory
from serving.served_model import ServedModel, load_served, missing_key, missing_model_files

Served = Mapping[str, ServedModel]


def load_deployed(files: Sequence[str], *, to_ask: bool) -> dict[str, ServedModel]:
    """Return the served models of these files, by name.

    Raises ModelsError for a file or a model that can't be used or does not fit its GPUs. If the models will be asked,
    and not only planned with, it is also raised for an incomplete directory, or if a key or vLLM is missing.
    """
    served: dict[str, ServedModel] = {}
    for file in files:
        model = load_served(file)
        if model.name in served:
            raise ModelsError(f"{file}: name: another file of --deploy has {model.name} too; give it another")
        if to_ask and model.is_directory and (fault := missing_model_files(model.model)):
            raise ModelsError(f"{file}: model: {fault}")
        if to_ask and (fault := missing_key(model)):
            raise ModelsError(f"{file}: {fault}")
        if model.size and (model.cache_gib if model.device == "cpu" else model.card_gib):
            estimate_memory(model)
        served[model.name] = model
    if served and to_ask and find_spec("vllm") is None:
        raise ModelsError("--deploy needs vLLM, which is not installed here; install it with: pip install 'fdarx[gpu]'")
    return served


def on_this_machine() -> bool:
    """Return whether the job starts its own Ray instance on this machine."""
    return not os.environ.get("RAY_ADDRESS")


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

    own = (cpus or os.cpu_count() or 1) if on_this_machine() else 1
    return ServeFleet(
        list(served.values()), judge, build, progress.tell, gpus=gpus, own_cpus=own, alone=on_this_machine()
    )


_NOT_RESULTS = HOW | {"deploy", "only"}
_NOWHERE = "http://not-up-yet"
"""Placeholder for the address of a model that is deployed later."""


def evaluation_spec(config: EvaluateConfig, given: GivenAnswers, served: Served) -> EvaluationSpec:
    """Return the specification of the evaluation.

    Raises ModelsError for an invalid models file, an unknown name or a limit without prices, and ModelMissing for a
    retriever whose models can't be loaded.
    """
    models = _models(config, served)
    answerers = _answerers(config, models)
    check_roles({"judge": config.judge}, models)
    if not answerers and not given and config.regrade is None:
        raise ModelsError(f"no model answers: {config.judge} is the judge; add another model, or --only {config.judge}")
    if taken := sorted({cell.model for _, cell in given} & {*answerers}):
        raise ModelsError(f"--predictions has answers of {taken[0]}, which is asked as well; rename it there")
    if RETRIEVED in config.settings and not config.retrievers:
        raise ModelsError("--settings retrieved needs --retrievers")
    directories = ModelDirectories(config.cosine_model, config.recontriever_model, config.reranker_model)
    for name in config.retrievers if config.regrade is None else ():
        check_retriever_models(name, directories)
    config.check_bertscore()
    on_gpus = (
        served or config.bertscore_model or any(required_encoders(r) or needs_reranker(r) for r in config.retrievers)
    )
    if config.gpus and not on_gpus:
        raise ModelsError(
            "--gpus is for --deploy, retrievers with a model, and --bertscore-model; give one of them, or leave it out"
        )
    spec = EvaluationSpec(
        models=models,
        answerers=answerers,
        judge=config.judge,
        settings=config.settings,
        retrievers=config.retrievers,
        top_k=config.top_k,
        scope=config.retrieval_scope,
        label_chars=config.label_chars,
        directories=directories,
        bertscore=config.bertscore_model,
        bertscore_layers=config.bertscore_layers,
        given=sorted({cell for _, cell in given}),
        given_citing=citing_settings(given.values()),
        max_requests=config.max_requests,
        max_cost=config.max_cost,
        batch=config.batch,
    )
    config.check_prices(spec.used)
    config.check_batch()
    return spec


def identity(config: EvaluateConfig, spec: EvaluationSpec) -> dict[str, Any]:
    """Return the options that can change the results of a run; they identify it."""
    options = config.model_dump(mode="json", exclude=_NOT_RESULTS | PRESENTATION)
    if config.split == TEST:  # so that a run that was begun before there were splits is resumed
        del options["split"]
    # not the baseline's rules: when they change, what they said is made anew
    asked = {name: dict(model.request_parameters) for name, model in spec.used.items()}
    return {**options, "answerers": list(spec.answerers), "asked": asked, "cut_by": _cut_by(spec)}


def _cut_by(spec: EvaluationSpec) -> dict[str, Any]:
    """Return the options that decide how much of a label each model is shown."""
    bounded = {name: model for name, model in spec.used.items() if model.context_length and name in spec.answerers}
    return {
        name: {"context_length": model.context_length, "tokenizer": model.tokenizer} for name, model in bounded.items()
    }


def _models(config: EvaluateConfig, served: Served) -> dict[str, ModelConfig]:
    if config.batch and served:
        raise ModelsError("--batch asks the servers of vendors; leave it out with --deploy")
    running = load_all(config.models)
    if taken := sorted(running.keys() & served.keys()):
        raise ModelsError(f"--deploy: {taken[0]} is also the name of a model in --models; give one of them another")
    return {**running, **{name: model.client_config(_NOWHERE) for name, model in served.items()}}


def _answerers(config: EvaluateConfig, models: dict[str, ModelConfig]) -> list[str]:
    there = [Baseline.name] * (Baseline.name in config.models) + list(models)
    if config.regrade is not None:
        return []
    if unknown := [name for name in config.only if name not in there]:
        raise ModelsError(f"--only {unknown[0]}: {unknown_model(models)}")
    if config.only:
        return config.only
    return [name for name in there if name == Baseline.name or name != config.judge]


_PHASES = {
    "intake": "labels read",
    "retrieve": "parts searched",
    "answer": "parts answered and graded",
    "bert_scores": "parts scored by BERTScore",
}


def run(config: EvaluateConfig) -> int:
    """Run the job; returns its exit code, as `jobs.evaluate.evaluate`."""
    earlier = _earlier_evaluation(config)
    if earlier is not None:
        config = _with_options_of(earlier, config)
    given, rejects = _imported_answers(config)
    deployed = load_deployed(config.deploy, to_ask=not config.plan)
    spec = evaluation_spec(config, given, deployed)
    if earlier is not None:
        spec = replace(spec, given=list(earlier.cells), given_citing=earlier.citing, regraded=str(earlier.run.root))
    served = {name: model for name, model in deployed.items() if name in spec.used}
    with busy("reading the benchmark", quiet=config.quiet):
        benchmark = earlier.benchmark if earlier is not None else read_benchmark(config.benchmark, config.split)
    benchmark.rejects.extend(rejects)
    check_servers(spec.used, config.out, batch=config.batch and not config.plan)
    with run_folder(config.out, plan=config.plan) as out:
        run = RunDirectory.begin(out, job="evaluate", config=identity(config, spec), versions=versions())
        check_benchmark(run, benchmark.about["digest"], given)
        if is_done(run, CODE_VERSION):
            return tracked(run, config.track, _tell(run, config))
        if not config.plan:
            warn_of_batches(run, batch=config.batch)
        with (
            session(
                config,
                _PHASES,
                executor=config.asking_executor,
                asking="answer",
                read=astuple(spec.directories),
                size=_size(benchmark, config.sample),
                run=run,
                for_models=cpus_for(served, spec.judge),
            ) as (progress, executor),
            fleet_of(served, spec.judge, progress, gpus=config.gpus, cpus=config.cpus) as fleet,
        ):
            evaluation = Evaluation(
                run=run,
                executor=executor,
                progress=progress,
                reuse=[RunDirectory.open(other) for other in config.reuse],
                benchmark=benchmark,
                spec=spec,
                given=given,
                earlier=earlier,
                sample=config.sample,
                seed=config.seed,
                resamples=config.resamples,
                fleet=fleet,
            )
            if not carried_out(evaluation, progress, plan=config.plan):
                return 0
        return tracked(run, config.track, _tell(run, config))


def _earlier_evaluation(config: EvaluateConfig) -> EarlierEvaluation | None:
    """Return the evaluation whose answers are graded again, None where answers are asked for or read from a file."""
    if config.regrade is None:
        if not config.benchmark:
            raise ModelsError("--benchmark is missing; give the run of a build, or published files")
        return None
    if config.predictions is None:
        raise ModelsError("--regrade needs --predictions with the run of fdarx evaluate whose answers are to be graded")
    if config.deploy or config.only:
        raise ModelsError("--regrade asks only the judge; leave out --deploy and --only")
    return EarlierEvaluation.open(config.predictions)


def _with_options_of(earlier: EarlierEvaluation, config: EvaluateConfig) -> EvaluateConfig:
    """Return the options of a run that grades again: those of the earlier evaluation, with the new judge."""
    before = earlier.run.info()["config"]
    adopted = {name: before[name] for name in ADOPTED if name in before}
    return config.model_copy(update={**adopted, "judge": config.regrade})


def _size(benchmark: Benchmark, sample: int | None) -> int:
    """Return the number of labels to evaluate, of which no more are counted than matter."""
    found = sum(1 for _ in islice(benchmark.items(), SMALL + 1))
    return min(found, sample or found)


def _imported_answers(config: EvaluateConfig) -> tuple[GivenAnswers, list[Reject]]:
    if config.predictions is None or config.regrade is not None:
        return {}, []
    answers, rejects = read_predictions(config.predictions)
    return {(one.question_id, CellKey(one.model, one.setting, one.retriever)): one for one in answers}, rejects


def _tell(run: RunDirectory, config: EvaluateConfig) -> int:
    info = run.info()
    if config.as_json:
        print_json(run_result(run))
        _tell_limits(run)
        _tell_missing_verdicts(run)
        return STOPPED if any(cell["status"] == "incomplete" for cell in info["cells"]) else 0
    figures = list(read_records(run.file("metrics.parquet"), Figure))
    for grid in (
        table_1(figures, judge=info["config"]["judge"]),
        table_2(figures),
        hallucination_table(figures),
        added_metrics_table(figures),
    ):
        if grid.rows:
            print(f"\n{table_text(grid)}")
    for cell in info["cells"]:
        _tell_failures(cell)
    _tell_limits(run)
    _tell_missing_verdicts(run)
    unfinished = [cell for cell in info["cells"] if cell["status"] != "done"]
    _tell_unfinished(unfinished)
    print(f"\nmetrics  {run.file('metrics.json')}")
    print(f"answers  {run.file('answers.html')}\nreport   {run.file('report.html')}")
    if any(cell["status"] == "incomplete" for cell in unfinished):
        print("some cells are incomplete, see above; the same command resumes the job", file=sys.stderr)
        return STOPPED
    return 0


def _tell_limits(run: RunDirectory) -> None:
    for line in limits(run, list(read_records(run.file("cells.parquet"), SettingProgress))):
        print(line, file=sys.stderr)


def _tell_missing_verdicts(run: RunDirectory) -> None:
    missing = missing_verdicts(run)
    for one in missing:
        print(f"{one.cell}: {one.sentence}", file=sys.stderr)
    if missing:
        print(remedy(missing, str(run.root)), file=sys.stderr)


def _tell_unfinished(cells: Sequence[dict[str, Any]]) -> None:
    """Print the incomplete cells, in one line if all cells of a model have the same reason."""
    for (model, status, reason), group in groupby(cells, key=itemgetter("model", "status", "reason")):
        names = [str(CellKey(model, cell["setting"], cell["retriever"])) for cell in group]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"{status}: {names[0]}{more}: {reason}", file=sys.stderr)


def _tell_failures(cell: dict[str, Any]) -> None:
    if cell["failed"] and cell["status"] == "done":
        name = CellKey(cell["model"], cell["setting"], cell["retriever"])
        remedy = "; give the model's context_length in its models file" if "context" in cell["reason"] else ""
        print(f"{name}: {cell['failed']} of {cell['due']} questions failed: {cell['reason']}{remedy}", file=sys.stderr)
