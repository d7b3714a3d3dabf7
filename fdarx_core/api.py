"""Whole jobs as functions: build a benchmark, evaluate models on it, score the factuality of answers.

Each writes a run directory, as the command line does, and a call with the same directory resumes the run.
Work runs in this process, unless Ray is running in it already.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from fdarx_core.evaluation.settings import RETRIEVED, SETTINGS
from fdarx_core.factuality.evidence import open_evidence
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import Selection, find_sources
from fdarx_core.llm import Baseline, ModelConfig
from fdarx_core.pipeline.build import Build, BuildSpec
from fdarx_core.pipeline.build_steps import NONE, Roles
from fdarx_core.pipeline.evaluation import Evaluation, check_benchmark
from fdarx_core.pipeline.evaluation_steps import EvaluationSpec
from fdarx_core.pipeline.factuality import FactualityEvaluation, read_rows
from fdarx_core.pipeline.factuality_steps import EngineSpec, FactualitySpec
from fdarx_core.pipeline.job import PipelineJob
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.plugins import plugin_packages
from fdarx_core.records import Claim, ClaimVerdict, FactualityScore, SafetyFlag
from fdarx_core.storage import RunDirectory, version_of
from fdarx_core.storage.benchmark_reader import read_benchmark
from fdarx_core.storage.checked_answers import open_answers, read_references
from fdarx_core.storage.splits import SplitChoice

if TYPE_CHECKING:
    from fdarx_core.llm import Model
    from fdarx_core.pipeline.executor import Executor

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def build(
    labels: Paths,
    out: str | PathLike[str],
    *,
    sample: int | None = None,
    seed: int = 0,
    generator: Model | str = Baseline.name,
    reader: Model | str | None = None,
    judge: Model | str | None = None,
    passages: int = 16,
    pairs_per_passage: int = 3,
    section_pairs: int = 12,
    twins: int = 20,
    topic_labels: int = 60,
    transfers: int = 12,
    dev_drugs: int | None = None,
) -> RunDirectory:
    """Build a question-answering benchmark from SPL labels.

    Args:
        labels: XML files, folders, globs or zips, on disk or s3://.
        out: The run directory to write.
        sample: The number of labels to take at random, all without it.
        seed: Fixes the sample and every choice.
        generator: The model that writes questions, "baseline" for template questions.
        reader: The model that answers each question again in the round trip, "none" to leave this out; None for the
            generator, where that is a model.
        judge: The model that judges questions and compares answers, "none" to leave this out; None for the generator,
            where that is a model.
        passages: Passages per label for factual questions.
        pairs_per_passage: Question-answer pairs to request for each passage.
        section_pairs: Pairs of sections per label for multi-hop questions.
        twins: Pairs per label of a question and one in the same words that the label does not answer.
        topic_labels: The largest number of labels of one drug that are asked about the same topic.
        transfers: The largest number of questions of other labels that a label is asked and does not answer, where a
            model writes.
        dev_drugs: The number of drugs of the dev split; without it one of every 20 drugs, five at most.

    Returns:
        The finished run; `run.file("benchmark")` holds the benchmark, `run.info()` what run.json says.

    Raises:
        EmptySelection: No label was left to build from.
        RunConflict: `out` holds a run with other options or labels.
    """
    models = _models([one for one in (generator, reader, judge) if one is not None and one != NONE])
    judges = [] if judge is None else [_name(judge)]
    roles = Roles.named(models, _name(generator), None if reader is None else _name(reader), judges)
    amounts = GenerationConfig(passages, pairs_per_passage, section_pairs, twins, topic_labels, seed, transfers)
    selection = Selection(sample=sample, seed=seed)
    spec = BuildSpec(find_sources(_listed(labels)), selection, amounts, roles, dev_drugs=dev_drugs)
    config = {
        "labels": sorted(_listed(labels)),
        "sample": sample,
        "seed": seed,
        "judge": ", ".join(roles.judges) or NONE,
    }
    config |= {"generator": roles.generator, "reader": roles.reader or NONE, "passages": passages}
    config |= {"pairs_per_passage": pairs_per_passage, "section_pairs": section_pairs}
    config |= {"twins": twins, "topic_labels": topic_labels, **_packages()}
    config |= {} if dev_drugs is None else {"dev_drugs": dev_drugs}
    config |= {"transfers": transfers} if roles.by_model else {}
    run = RunDirectory.begin(str(out), job="build_benchmark", config=config, versions=_versions())
    return _finish(run, Build(run=run, executor=_executor(), progress=_no_progress, spec=spec))


def evaluate(
    benchmark: RunDirectory | str | PathLike[str],
    models: Sequence[Model | str] = (Baseline.name,),
    *,
    split: SplitChoice = "test",
    out: str | PathLike[str] | None = None,
    judge: Model | str = Baseline.name,
    settings: Sequence[str] = SETTINGS,
    retrievers: Sequence[str] = ("bm25",),
    top_k: int = 5,
    sample: int | None = None,
    seed: int = 0,
    resamples: int = 2000,
) -> RunDirectory:
    """Evaluate models on a benchmark, with metrics and a report.

    Args:
        benchmark: A finished build, files in the format of the published FDARxBench, or hf://USER/NAME on the hub.
        models: The models that answer, "baseline" for the built-in rules.
        split: The questions to ask: those of the test or the dev split, or all.
        out: The run directory to write; a new temporary folder without it.
        judge: The model that grades, "baseline" for the built-in rules.
        settings: How questions are put: closed_book, full_label, oracle, retrieved.
        retrievers: What searches the label in the setting `retrieved`.
        top_k: The number of passages that an answerer gets from a retriever.
        sample: The number of labels to take at random, all without it.
        seed: Fixes the sample and the intervals.
        resamples: Bootstrap resamples of the intervals.

    Returns:
        The finished run; `run.file("metrics.json")` holds the metrics.
    """
    used = _models([*models, judge])
    spec = EvaluationSpec(
        models=used,
        answerers=[_name(one) for one in models],
        judge=_name(judge),
        settings=list(settings),
        retrievers=list(retrievers) if RETRIEVED in settings else [],
        top_k=top_k,
    )
    address = str(benchmark.root) if isinstance(benchmark, RunDirectory) else str(benchmark)
    opened = read_benchmark(address, split)
    config = {"benchmark": opened.about["digest"], "models": list(spec.answerers), "judge": spec.judge}
    config |= {"settings": list(settings), "retrievers": list(spec.retrievers), "top_k": top_k, "sample": sample}
    config |= {"seed": seed, "resamples": resamples}
    config |= {} if split == "test" else {"split": split}
    run = RunDirectory.begin(_out(out, "evaluate"), job="evaluate", config=config, versions=_versions())
    check_benchmark(run, opened.about["digest"], {})
    job = Evaluation(
        run=run,
        executor=_executor(),
        progress=_no_progress,
        benchmark=opened,
        spec=spec,
        sample=sample,
        seed=seed,
        resamples=resamples,
    )
    return _finish(run, job)


@dataclass(frozen=True, slots=True)
class FactualityResult:
    """The scores of answers, with their claims and the verdict on each claim; `run` holds the rest."""

    scores: list[FactualityScore]
    claims: list[Claim]
    verdicts: list[ClaimVerdict]
    flags: list[SafetyFlag]
    run: RunDirectory


def score_factuality(
    answers: Paths | Sequence[Mapping[str, Any]],
    evidence: str | PathLike[str] | Sequence[str],
    *,
    out: str | PathLike[str] | None = None,
    model: Model | str = Baseline.name,
    references: Paths = (),
    seed: int = 0,
    resamples: int = 2000,
) -> FactualityResult:
    """Score the factuality of answers: claims, verdicts by evidence, Fact-Aligned Score, safety flags.

    Args:
        answers: Mappings with `question` and `answer`, files of such, or finished evaluations.
        evidence: Texts to check against, or a source as `fdarx factuality --evidence` takes it (file:…, labels:RUN, …).
        out: The run directory to write; a new temporary folder without it.
        model: The model that extracts claims and judges them; "baseline" for built-in rules and exact matching.
        references: Files of must-have and nice-to-have statements.
        seed: Fixes the intervals.
        resamples: Bootstrap resamples of the intervals.

    Returns:
        The scores, claims, verdicts and flags.
    """
    folder = _out(out, "factuality")
    predictions = _predictions(answers, folder)
    source = _evidence(evidence, folder)
    name = _name(model)
    engine = EngineSpec() if name == Baseline.name else EngineSpec("judge", name)
    spec = FactualitySpec(source, engine, claims=name, models=_models([model]))
    statements = read_references(_listed(references))
    opened = open_answers(predictions, statements)
    summary = opened.summary()
    rejects = [*statements.rejects, *open_evidence(source).rejects] if not spec.from_pubmed else statements.rejects
    config = {"answers": summary.digest, "evidence": source, "model": name, "seed": seed, "resamples": resamples}
    run = RunDirectory.begin(folder, job="score_factuality", config=config, versions=_versions())
    job = FactualityEvaluation(
        run=run,
        executor=_executor(),
        progress=_no_progress,
        spec=spec,
        rows=lambda: iter([*rejects, *opened]),
        input_info={"intake": {"rows": summary.rows, "answers": summary.answers}},
        seed=seed,
        resamples=resamples,
    )
    _finish(run, job)
    kinds = ("scores", "claims", "verdicts", "flags")
    parts = [read_rows(run, number, kinds) for number in range(run.info()["parts"])]
    return FactualityResult(run=run, **{kind: [row for part in parts for row in part[kind]] for kind in kinds})


def _predictions(answers: Paths | Sequence[Mapping[str, Any]], folder: str) -> list[str]:
    if isinstance(answers, (str, PathLike)) or all(isinstance(one, (str, PathLike)) for one in answers):
        return _listed(answers)  # type: ignore[arg-type]
    return [_write_lines(folder, "answers", answers)]


def _evidence(evidence: str | PathLike[str] | Sequence[str], folder: str) -> str:
    if isinstance(evidence, (str, PathLike)):
        return str(evidence)
    return f"file:{_write_lines(folder, 'evidence', ({'text': text} for text in evidence))}"


def _write_lines(folder: str, name: str, rows: Iterable[Any]) -> str:
    """Write rows beside the run, as its input; returns the file."""
    file = Path(f"{folder}.{name}.jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(file)


def _finish(run: RunDirectory, job: PipelineJob) -> RunDirectory:
    """Run the job unless the run is complete. However it ends, run.json says so and another job may write the run."""
    try:
        if not run.complete:
            job.run_all()
    except BaseException as error:
        job.executor.stop_asking()
        run.stop("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    finally:
        run.release()
    return run


def _executor() -> Executor:
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return LocalExecutor()
    from fdarx_core.pipeline.ray_executor import RayExecutor

    return RayExecutor()


def _models(given: Iterable[Model | str]) -> dict[str, ModelConfig]:
    """Return the configurations of the models, by name. Raises ValueError for a name that is not "baseline"."""
    found: dict[str, ModelConfig] = {}
    for one in given:
        if not isinstance(one, str):
            found |= {one.name: one.config} if one.config else {}
        elif one != Baseline.name:
            raise ValueError(f'{one!r} is not a model: give fdarx.Model("{one}", base_url=…), or "{Baseline.name}"')
    return found


def _name(model: Model | str) -> str:
    return model if isinstance(model, str) else model.name


def _listed(paths: Paths) -> list[str]:
    return [str(paths)] if isinstance(paths, (str, PathLike)) else [str(one) for one in paths]


def _out(out: str | PathLike[str] | None, job: str) -> str:
    return str(out) if out is not None else f"{mkdtemp(prefix='fdarx-')}/{job}"


def _packages() -> dict[str, Any]:
    """Return the packages whose filters and judges a build uses, for what identifies its run."""
    packages = plugin_packages("fdarx.filters", "fdarx.judges")
    return {"packages": packages} if packages else {}


def _versions() -> dict[str, str]:
    return {"python": sys.version.split()[0], "fdarx": version_of("fdarx")}


def _no_progress(phase: str, done: int, total: int, note: str) -> None:
    return
