"""The options of `fdarx evaluate`, which `jobs.evaluation` carries out."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field, field_validator

from jobs import run_job
from jobs.cli import run_as
from jobs.options import BASELINE, BatchConfig, MeasuringConfig, Names, TrackingConfig, check_names, one_of

_SETTINGS = ("closed_book", "full_label", "oracle", "retrieved")


class EvaluateConfig(TrackingConfig, BatchConfig, MeasuringConfig):
    """Options of `fdarx evaluate`."""

    benchmark: str = ""
    """benchmark (required, except with --regrade): a run of `fdarx build`, or a folder (or file) with qa*.jsonl and
    labels.jsonl in FDARxBench's published format, on disk or s3://; or such a dataset on the Hugging Face Hub,
    hf://USER/NAME[@REVISION]"""
    split: Literal["test", "dev", "all"] = "test"
    """questions to ask: those of the test or the dev split of the benchmark, or all; report results on `test`"""
    out: str
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    models: Names = Field([BASELINE])
    """models to evaluate: `baseline` (built-in rules), and YAML files that list models on servers, see
    docs/models.md"""
    deploy: list[str] = Field(default_factory=list)
    """models to deploy and evaluate as well, one YAML file per model, see docs/serving-models.md; each is removed when
    its questions are answered"""
    only: Names = Field(default_factory=list)
    """evaluate only these models of the files (all except the judge)"""
    predictions: str | None = None
    """answers of other programs to grade: a file with qid and answer in each row, see docs/evaluating.md; or logs of
    inspect or lm-eval, see docs/harnesses.md; with --regrade, a run of `fdarx evaluate`"""
    regrade: str | None = None
    """grade the answers of the evaluation in --predictions again with this judge, a name of --models or baseline; only
    the judge is asked"""
    settings: Annotated[Names, one_of(_SETTINGS, "setting")] = Field(list(_SETTINGS))
    """evidence to show: closed_book, full_label, oracle, retrieved; separated by commas or spaces"""
    retrievers: Names = Field(["bm25"])
    """what finds passages: bm25, tfidf, cosine, recontriever, hybrid, or one of an installed package, each also with
    +rerank; they are compared with each other whatever the settings"""
    retrieval_scope: Literal["label", "corpus"] = "label"
    """search the question's own label, or all labels of the benchmark"""
    top_k: int = Field(5, ge=1)
    """number of passages in the setting `retrieved`"""
    label_chars: int | None = Field(None, ge=1)
    """maximum number of characters of a label's text; FDARxBench's published code uses 16000 (complete text)"""
    judge: str = BASELINE
    """model that grades: a name of --models, or baseline (built-in rules, not a language model)"""
    cosine_model: str | None = None
    """local directory of a sentence-transformers model for cosine (all-MiniLM-L6-v2, if installed)"""
    recontriever_model: str | None = None
    """local directory of ReContriever, or another Contriever"""
    reranker_model: str | None = None
    """local directory of a BGE reranker, for +rerank"""
    sample: int | None = Field(None, ge=1)
    """number of labels to evaluate on, drawn at random (all)"""

    @field_validator("retrievers", mode="after")
    @classmethod
    def _known_retrievers(cls, given: list[str]) -> list[str]:
        from fdarx_core.retrieval.retrievers import RETRIEVERS  # importing it takes longer than showing help may

        check_names([one.removesuffix("+rerank") for one in given], RETRIEVERS, "retriever")
        return given


def evaluate(*, config: Annotated[EvaluateConfig, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 some cells are incomplete, 130 interrupted."""
    return run_job("evaluation", config)


if __name__ == "__main__":
    run_as("evaluate")
