"""Whole jobs as functions: each takes the options of the command of its name, and is the same job.

Each writes a run directory; a call with the same directory resumes the run, also one that the command line began.
Where the command line takes the name of a model, a function takes a `Model` as well. Work runs in this process, unless
Ray is running in it already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from fdarx_core.records import Claim, ClaimVerdict, FactualityScore, SafetyFlag
from fdarx_core.storage import RunDirectory

if TYPE_CHECKING:
    from fdarx_core.evaluation.metrics import AnswerFunction, Metric
    from fdarx_core.llm import Model
    from fdarx_core.rag.index import Index

Run = RunDirectory
"""A run directory: `Run.open(place)` for a run of the command line."""

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def build(labels: Paths, out: str | PathLike[str], **options: Any) -> RunDirectory:
    """Build a question-answering benchmark from SPL labels, as `fdarx build`.

    Args:
        labels: XML files, folders, globs or zips, on disk or s3://.
        out: The run directory to write.
        options: The other fields of `fdarx_core.specs.build.BuildSpec`, such as sample, seed, generator and twins.

    Returns:
        The finished run; `run.questions()` are its questions, `run.file("benchmark")` holds the benchmark.

    Raises:
        ValueError: An option is wrong, or no label was left to build from.
        RunConflict: `out` holds a run with other options or labels.
        AskingStopped: No more requests may be sent.
    """
    from fdarx_core.specs.build import BuildSpec

    return BuildSpec.of(labels=labels, out=out, **options).run()


def evaluate(
    benchmark: RunDirectory | str | PathLike[str] = "",
    models: Model | str | PathLike[str] | Sequence[Model | str | PathLike[str]] = ("baseline",),
    *,
    out: str | PathLike[str] | None = None,
    predictions: str | PathLike[str] | Sequence[Mapping[str, Any]] | None = None,
    metrics: Sequence[AnswerFunction | Metric] = (),
    **options: Any,
) -> RunDirectory:
    """Evaluate models on a benchmark, with metrics and a report, as `fdarx evaluate`.

    Args:
        benchmark: A finished build, files in the format of the published FDARxBench, or hf://USER/NAME on the hub.
        models: The models that answer: `Model` objects, "baseline" for the built-in rules, and models files.
        out: The run directory to write; a new temporary folder without it.
        predictions: Answers of other programs to grade: rows with qid and answer, or a file of such.
        metrics: Functions that return the number of one answer, given the question, the prediction and its grade or
            None; they are reported under their names, see docs/adding-a-metric.md.
        options: The other fields of `fdarx_core.specs.evaluate.EvaluateSpec`, such as split, judge and settings.

    Returns:
        The run; `run.metrics()` are the metrics. Its status is "incomplete" where requests failed for now, or no more
        may be sent: the same call resumes it.

    Raises:
        ValueError: An option is wrong.
        RunConflict: `out` holds a run with other options or another benchmark.
    """
    from fdarx_core.specs.evaluate import EvaluateSpec

    folder = _out(out, "evaluate")
    if predictions is not None and not isinstance(predictions, (str, PathLike)):
        predictions = _write_lines(folder, "predictions", predictions)
    inputs = {"benchmark": benchmark, "models": models, "predictions": predictions}
    return EvaluateSpec.of(**inputs, out=folder, metrics=metrics, **options).run()


def grade(
    answers: str | PathLike[str] | Sequence[Mapping[str, Any]],
    *,
    out: str | PathLike[str] | None = None,
    **options: Any,
) -> RunDirectory:
    """Grade questions and answers against references or contexts, without a benchmark, as `fdarx grade`.

    Args:
        answers: A file as Ragas, promptfoo or DeepEval write it, or rows as in such a file.
        out: The run directory to write; a new temporary folder without it.
        options: The other fields of `fdarx_core.specs.grade.GradeSpec`, such as judge, and names of columns.

    Returns:
        The run, as of `evaluate`. Raises as `evaluate`.
    """
    from fdarx_core.specs.grade import GradeSpec

    folder = _out(out, "grade")
    file = answers if isinstance(answers, (str, PathLike)) else _write_lines(folder, "answers", answers)
    return GradeSpec.of(file=file, out=folder, **options).run()


def evaluate_rag(
    index: str | PathLike[str],
    questions: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    **options: Any,
) -> RunDirectory:
    """Compare ways of retrieving and answering on an index, as `fdarx evaluate-rag`.

    Args:
        index: The folder of an index.
        questions: A file with a question in each row, its reference answer and the title of its document.
        out: The run directory to write; a new temporary folder without it.
        options: The other fields of `fdarx_core.specs.evaluate_rag.EvaluateRagSpec`, such as models and answerer.

    Returns:
        The run, as of `evaluate`. Raises as `evaluate`.
    """
    from fdarx_core.specs.evaluate_rag import EvaluateRagSpec

    return EvaluateRagSpec.of(index=index, questions=questions, out=_out(out, "evaluate-rag"), **options).run()


def index(documents: Paths, out: str | PathLike[str], **options: Any) -> Index:
    """Make a search index of documents or of the labels of runs, or update one, as `fdarx index`.

    Args:
        documents: Labels, text files, zips, folders or globs, or runs of `build`.
        out: The folder of the index.
        options: The other fields of `fdarx_core.specs.index.IndexSpec`, such as cosine_model and words_only.

    Returns:
        The index, opened. Raises ValueError for wrong options.
    """
    from fdarx_core.rag.index import Index
    from fdarx_core.specs.index import IndexSpec

    spec = IndexSpec.of(documents=documents, out=out, **options)
    spec.run()
    return Index.open(spec.out)


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
    model: Model | str = "baseline",
    references: Paths = (),
    **options: Any,
) -> FactualityResult:
    """Score the factuality of answers: claims, verdicts by evidence, Fact-Aligned Score, safety flags.

    Args:
        answers: Mappings with `question` and `answer`, files of such, or finished evaluations.
        evidence: Texts to check against, or sources as `fdarx factuality --evidence` takes them: one, or a list such as
            `["labels:runs/a", "index:indexes/guidelines", "pubmed"]`.
        out: The run directory to write; a new temporary folder without it.
        model: The model that extracts claims and judges them (the option `claims`); "baseline" for built-in rules.
        references: Files of must-have and nice-to-have statements.
        options: The other fields of `fdarx_core.specs.factuality.FactualitySpec`, such as entailment and resamples.

    Returns:
        The scores, claims, verdicts and flags. Raises as `evaluate`.
    """
    from fdarx_core.factuality.evidence.sources import is_evidence
    from fdarx_core.pipeline.factuality import read_rows
    from fdarx_core.specs.factuality import FactualitySpec

    folder = _out(out, "factuality")
    inputs: dict[str, Any] = {"predictions": answers, "evidence": evidence, "references": references}
    if not isinstance(answers, (str, PathLike)) and not any(isinstance(row, (str, PathLike)) for row in answers):
        inputs["predictions"] = _write_lines(folder, "answers", answers)
    if not isinstance(evidence, (str, PathLike)) and not any(map(is_evidence, evidence)):
        if evidence and not any(len(text.split()) > 1 for text in evidence):
            raise ValueError(f"evidence: no text has two words or more, the first is {evidence[0]!r}")
        texts = ({"text": text} for text in evidence)
        inputs["evidence"] = f"file:{_write_lines(folder, 'evidence', texts)}"
    run = FactualitySpec.of(**inputs, out=folder, claims=model, **options).run()
    kinds = ("scores", "claims", "verdicts", "flags")
    parts = [read_rows(run, number, kinds) for number in range(run.info()["parts"])]
    return FactualityResult(run=run, **{kind: [row for part in parts for row in part[kind]] for kind in kinds})


def finetune_answerer(
    questions: RunDirectory | str | PathLike[str],
    model: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    **options: Any,
) -> RunDirectory:
    """Train a language model on question-answer pairs, as `fdarx finetune`.

    Args:
        questions: A finished build, or a file with a question and an answer in each row; for `objective="dpo"` a
            finished evaluation.
        model: The directory of the base model.
        out: The run directory to write; a new temporary folder without it.
        options: The other fields of `fdarx_core.specs.finetune.FinetuneAnswererSpec`, such as method and epochs.

    Returns:
        The finished run; its folder `adapter`, or `model` for `method="full"`, is what was trained.

    Raises:
        ValueError: An option is wrong, or a library or a model is missing.
        RunConflict: `out` holds a run with other options or pairs.
        TrainingFailed: The training ended early; the same call resumes it from the last checkpoint.
    """
    from fdarx_core.specs.finetune import FinetuneAnswererSpec

    folder = _out(out, "finetune")
    return FinetuneAnswererSpec.of(questions=questions, model=model, out=folder, **options).run()


def _write_lines(folder: str, name: str, rows: Iterable[Any]) -> str:
    """Write rows beside the run, as its input; returns the file."""
    file = Path(f"{folder}.{name}.jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    if not (rows := list(rows)):
        raise ValueError(f"{name}: there are none; give one or more")
    file.write_text("".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(file)


def _out(out: str | PathLike[str] | None, job: str) -> str:
    return str(out) if out is not None else f"{mkdtemp(prefix='fdarx-')}/{job}"
