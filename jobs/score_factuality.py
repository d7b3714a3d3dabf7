"""The options of `fdarx factuality`, which `jobs.factuality` carries out."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field, ValidationInfo, field_validator

from jobs import run_job
from jobs.cli import run_as
from jobs.options import BASELINE, MeasuringConfig, Names, TrackingConfig

_YEARS = re.compile(r"(\d{4})(?:-(\d{4}))?")
_SPAN = "2014-2024"


class ScoreFactualityConfig(TrackingConfig, MeasuringConfig):
    """Options of `fdarx factuality`."""

    predictions: Names = Field(min_length=1)
    """answers to check: files (jsonl, json, csv, parquet) with a question and an answer in each row, or finished runs
    of `fdarx evaluate` or `fdarx evaluate-rag`"""
    evidence: str
    """source of evidence: labels:RUN (passages of the question's own label in a build), all-labels:RUN, index:INDEX (of
    `fdarx index`), file:PATH (rows of texts), or pubmed"""
    out: str
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    references: Names = Field(default_factory=list)
    """files with MedLFQA's fields (Question, Free_form_answer, Must_have, Nice_to_have), matched by question; without
    them there is no completeness, and no correlation with it"""
    models: Names = Field(default_factory=list)
    """YAML files that list models, see docs/models.md"""
    claims: str = BASELINE
    """engine that extracts claims: baseline (rules), or a name of --models"""
    entailment: str = Field("auto", validate_default=True)
    """engine that judges claims and decides safety flags: a name of --models, an NLI cross-encoder's directory or name
    on the hub (general and biomedical name two), or exact (quotations alone; it flags nothing); auto takes the model of
    --claims, else a cross-encoder that is on this machine (FDARX_VERIFIER names its directory), else exact"""
    compare_entailment: str | None = None
    """second engine, named in the same way, to compare with the first as one of the ablations"""
    nli_labels: Names = Field(default_factory=list)
    """classes of the NLI model's outputs in order, if its configuration does not name them"""
    threshold: float = Field(0.7, gt=0, le=1)
    """minimum probability with which a passage decides a claim"""
    k: int = Field(5, ge=1, le=100)
    """passages for each claim"""
    weights: str = "0.3,0.4,0.3"
    """weights of similarity, support and absence of contradiction in FAS; their sum must be 1"""
    least_coverage: float = Field(0.5, ge=0, le=1)
    """least share of claims with a passage on their drug from which FAS is reported"""
    least_decided: float = Field(0.5, ge=0, le=1)
    """least share of decided claims from which FAS is reported; also of statements"""
    engine_scores: Names = Field(default_factory=list)
    """files of `fdarx verify --out` with the engines' figures on marked pairs, to show with the results"""
    safety: str | None = None
    """build with the labels for safety flags (that of labels:RUN and all-labels:RUN)"""
    retriever: str | None = None
    """retriever of the evidence: bm25, tfidf, hybrid, or one of an installed package (hybrid where an embedding model
    is available, else bm25)"""
    cosine_model: str | None = None
    """local directory of a sentence-transformers model, for the similarity without BERTScore, and for hybrid retrieval
    of the evidence"""
    rxnorm: str | None = None
    """RxNorm's names of drugs, a folder or zip of `fdarx fetch --names`, for names that the labels of --safety do not
    have (mostly brands)"""
    years: str = _SPAN
    """years of publication of the PubMed articles"""
    pubmed_url: str | None = None
    """address of Entrez, if it is not NCBI's"""
    pubmed_email: str | None = None
    """e-mail address at which NCBI can contact you before it blocks your address"""
    sample: int | None = Field(None, ge=1)
    """number of questions whose answers are checked, drawn at random (all)"""
    resamples: int = Field(10_000, ge=100)
    """number of bootstrap resamples; more give more stable intervals"""

    @field_validator("weights", mode="after")
    @classmethod
    def _weigh(cls, given: str) -> str:
        from fdarx_core.factuality.scores import Weights  # importing it takes longer than showing help may

        Weights.read(given)
        return given

    @field_validator("entailment", mode="after")
    @classmethod
    def _at_hand(cls, given: str, info: ValidationInfo) -> str:
        if given != "auto":
            return given
        from fdarx_core.verify.named_models import default_engine

        named = info.data.get("claims", BASELINE)
        return default_engine().removeprefix("cross-encoder:") if named == BASELINE else str(named)

    @field_validator("years", mode="after")
    @classmethod
    def _span(cls, given: str) -> str:
        first_and_last(given)
        return given

    @field_validator("evidence", mode="after")
    @classmethod
    def _named(cls, given: str) -> str:
        from fdarx_core.factuality.evidence import parse_evidence

        parse_evidence(given)
        return given


def first_and_last(given: str) -> tuple[int, int]:
    """Return the first and the last year. Raises ValueError for other forms than 2014-2024 and 2020."""
    found = _YEARS.fullmatch(given.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if first > last:
        raise ValueError(f"write the first and the last year, as {_SPAN}")
    return first, last


def factuality(*, config: Annotated[ScoreFactualityConfig, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something is incomplete, 130 interrupted."""
    return run_job("factuality", config)


if __name__ == "__main__":
    run_as("factuality")
