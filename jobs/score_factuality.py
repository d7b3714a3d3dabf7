"""Score the factuality of answers: claims, verdicts by evidence, the Fact-Aligned Score, safety flags, a report."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import Field, field_validator

from fdarx_core.evaluation.tables import table_text
from fdarx_core.factuality.drug_names import ADDRESS
from fdarx_core.factuality.evidence import EvidenceSource, EvidenceSpec, K, open_evidence
from fdarx_core.factuality.evidence.entrez import PubMedSettings
from fdarx_core.factuality.evidence.pubmed_search import YEARS
from fdarx_core.factuality.figures import RESAMPLES
from fdarx_core.factuality.scores import Weights
from fdarx_core.llm import Baseline, ModelConfig, ModelsError
from fdarx_core.pipeline.factuality import FactualityEvaluation
from fdarx_core.pipeline.factuality_results import CODE_VERSION, tables_of
from fdarx_core.pipeline.factuality_steps import EngineSpec, FactualitySpec
from fdarx_core.records import CheckedAnswer, Reject
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.checked_answers import AnswerSummary, CheckedAnswers, GoldStatements, open_answers, read_gold
from fdarx_core.verify import THRESHOLD
from fdarx_core.verify.nli_model import check_nli, name_of
from jobs.options import PRESENTATION, MeasuringConfig, at_commas, load_all, unknown_model
from jobs.progress import busy
from jobs.session import carried_out, end_code, exit_code, is_done, print_json, session, versions

_HOW = {
    "out",
    "cpus",
    "executor",
    "models",
    "reuse",
    "max_requests",
    "max_cost",
    "plan",
    "pubmed_url",
    "pubmed_email",
    "rxnav_url",
}
_IDENTIFIED_BY_CONTENT = {"predictions", "gold"}
_YEARS = re.compile(r"(\d{4})(?:-(\d{4}))?")
_SPAN = f"{YEARS[0]}-{YEARS[1]}"
_WEIGHTS = Weights()


class ScoreFactualityConfig(MeasuringConfig):
    """Options of `fdarx factuality`."""

    predictions: list[str] = Field(
        min_length=1,
        description="answers to check: files (jsonl, json, csv, parquet) with a question and an answer in each row, "
        "or finished runs of `fdarx evaluate` or `fdarx evaluate-rag`",
    )
    evidence: str = Field(
        description="source of evidence: labels:RUN (passages of the question's own label in a build), "
        "all-labels:RUN, index:INDEX (of `fdarx index`), file:PATH (rows of texts), or pubmed"
    )
    out: str = Field(description="run directory to write, on disk or s3://; repeat the command to resume a run")
    gold: list[str] = Field(
        default_factory=list,
        description="files with MedLFQA's fields (Question, Free_form_answer, Must_have, Nice_to_have), matched by "
        "question; without them there are no correlations with gold factuality",
    )
    models: list[str] = Field(default_factory=list, description="YAML files that list models, see docs/models.md")
    claims: str = Field(
        Baseline.name, description="engine that extracts claims: baseline (rules), or a name of --models"
    )
    entailment: str = Field(
        Baseline.name,
        description="engine that judges claims: baseline (rules), an NLI cross-encoder's directory or name on the "
        "hub, or a name of --models",
    )
    compare_entailment: str | None = Field(
        None, description="second engine, named in the same way, to compare with the first as one of the ablations"
    )
    nli_labels: list[str] = Field(
        default_factory=list,
        description="classes of the NLI model's outputs in order, if its configuration does not name them",
    )
    threshold: float = Field(
        THRESHOLD, gt=0, le=1, description="minimum probability with which a passage decides a claim"
    )
    k: int = Field(K, ge=1, le=100, description="passages for each claim")
    weights: str = Field(
        f"{_WEIGHTS.similarity},{_WEIGHTS.support},{_WEIGHTS.contra}",
        description="weights of similarity, support and absence of contradiction in FAS; their sum must be 1",
    )
    safety: str | None = Field(
        None, description="build with the labels for safety flags (that of labels:RUN and all-labels:RUN)"
    )
    retriever: str | None = Field(
        None,
        description="retriever of the evidence: bm25, tfidf, or one of an installed package (bm25; hybrid for an "
        "index whose embedding model is available)",
    )
    cosine_model: str | None = Field(
        None,
        description="local directory of a sentence-transformers model, for the similarity without BERTScore, and for "
        "the vectors of an index",
    )
    rxnav: bool = Field(
        False,
        description="ask RxNav for the ingredients of drug names that the labels of --safety do not have (mostly "
        "brands)",
    )
    rxnav_url: str | None = Field(None, description="address of RxNav, if it is not NLM's")
    years: str = Field(_SPAN, description="years of publication of the PubMed articles")
    pubmed_url: str | None = Field(None, description="address of Entrez, if it is not NCBI's")
    pubmed_email: str | None = Field(
        None, description="e-mail address at which NCBI can contact you before it blocks your address"
    )
    sample: int | None = Field(
        None, ge=1, description="number of questions whose answers are checked, drawn at random (all)"
    )
    resamples: int = Field(
        RESAMPLES, ge=100, description="number of bootstrap resamples; more give more stable intervals"
    )

    @field_validator("predictions", "gold", "models", "nli_labels", mode="after")
    @classmethod
    def _at_commas(cls, given: list[str]) -> list[str]:
        return at_commas(given)

    @field_validator("weights", mode="after")
    @classmethod
    def _weigh(cls, given: str) -> str:
        Weights.read(given)
        return given

    @field_validator("years", mode="after")
    @classmethod
    def _span(cls, given: str) -> str:
        _years(given)
        return given

    @field_validator("evidence", mode="after")
    @classmethod
    def _named(cls, given: str) -> str:
        EvidenceSpec.parse(given)
        return given

    def spec(self) -> FactualitySpec:
        """Return the specification.

        Raises ModelsError for a model that can't be used, ModelMissing for a directory, and StorageError for a run.
        """
        models = load_all(self.models)
        if self.claims not in {Baseline.name, *models}:
            raise ModelsError(f"--claims {self.claims}: {unknown_model(models)}")
        self.check_bertscore()
        spec = FactualitySpec(
            evidence=self.evidence,
            retriever=self.retriever,
            engine=self._engine("--entailment", self.entailment, models),
            compared=self._compared(models),
            claims=self.claims,
            models=models,
            threshold=self.threshold,
            k=self.k,
            weights=Weights.read(self.weights),
            safety=self._safety(),
            rxnav=self._rxnav(),
            bertscore=self.bertscore_model,
            bertscore_layers=self.bertscore_layers,
            encoder=ModelDirectories(cosine=self.cosine_model).of("cosine") if self.cosine_model else None,
            years=_years(self.years),
            pubmed=self._pubmed(),
            max_requests=self.max_requests,
            max_cost=self.max_cost,
        )
        self.check_prices(spec.used)
        return spec

    def source(self, spec: FactualitySpec) -> EvidenceSource | None:
        """Open the evidence to check that it exists; None for PubMed. Raises the errors of `open_evidence`."""
        if spec.from_pubmed and spec.retriever:
            raise ValueError(f"--retriever {spec.retriever}: PubMed searches by itself; leave --retriever out")
        return None if spec.from_pubmed else open_evidence(spec.evidence, spec.directories, spec.retriever)

    def identity(self, spec: FactualitySpec, source: EvidenceSource | None, summary: AnswerSummary) -> dict[str, Any]:
        """Return the options and answers that can change the results of a run; they identify it."""
        return {
            **self.model_dump(mode="json", exclude=_HOW | _IDENTIFIED_BY_CONTENT | PRESENTATION),
            "safety": spec.safety,
            "asked": {name: model.request_parameters for name, model in spec.used.items()},
            "evidence": self.evidence if source is None else dict(source.identity),
            "answers": summary.digest,
        }

    def _compared(self, models: Mapping[str, ModelConfig]) -> EngineSpec | None:
        if self.compare_entailment is None:
            return None
        engine = self._engine("--compare-entailment", self.compare_entailment, models)
        if engine.name == self._engine("--entailment", self.entailment, models).name:
            raise ModelsError(
                f"--compare-entailment {self.compare_entailment}: --entailment has the same name; compare another"
            )
        return engine

    def _engine(self, option: str, given: str, models: Mapping[str, ModelConfig]) -> EngineSpec:
        if given == Baseline.name:
            return EngineSpec("rules", given)
        if given in models:
            return EngineSpec("judge", given)
        try:
            labels = tuple(self.nli_labels) or None
            check_nli(given, labels)
        except ModelMissing as error:
            known = ", ".join((Baseline.name, *models))
            raise ModelMissing(f"{option} {given}: {error} (or one of {known})") from error
        return EngineSpec("nli", name_of(given), given, labels)

    def _safety(self) -> str:
        """Return the run with the labels, "" for none. Raises StorageError if it is not a finished build."""
        spec = EvidenceSpec.parse(self.evidence)
        of_evidence = spec.place if spec.kind in ("labels", "all-labels") else ""
        place = self.safety or of_evidence
        return str(open_build(place).root) if place else ""

    def _rxnav(self) -> str:
        """Return the address of RxNav, "" if it is not used.

        Raises ValueError if there are no labels to find drugs in.
        """
        if self.rxnav and not self._safety():
            raise ValueError("--rxnav finds drugs for safety flags, which need labels: give --safety RUN")
        return (self.rxnav_url or ADDRESS) if self.rxnav else ""

    def _pubmed(self) -> PubMedSettings:
        given = {"base_url": self.pubmed_url, "email": self.pubmed_email}
        return PubMedSettings.model_validate({name: value for name, value in given.items() if value})


def _years(given: str) -> tuple[int, int]:
    """Return the first and the last year. Raises ValueError for other forms than 2014-2024 and 2020."""
    found = _YEARS.fullmatch(given.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if first > last:
        raise ValueError(f"write the first and the last year, as {_SPAN}")
    return first, last


_PHASES = {
    "intake": "reading the answers",
    "check": "parts checked",
}


def factuality(*, config: Annotated[ScoreFactualityConfig, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something is incomplete, 130 interrupted."""
    return exit_code(lambda: _score(config), ValueError)


def _score(config: ScoreFactualityConfig) -> int:
    spec = config.spec()
    with busy("reading the answers and the evidence", quiet=config.quiet):
        source = config.source(spec)
        gold = read_gold(config.gold)
        answers = open_answers(config.predictions, gold)
        summary = answers.summary()
    chosen = summary.chosen(config.sample, config.seed)
    identity = config.identity(spec, source, summary)
    run = RunDirectory.begin(config.out, job="score_factuality", config=identity, versions=versions())
    if is_done(run, CODE_VERSION):
        return _tell(run, config)
    rejects = [*gold.rejects, *(source.rejects if source else ())]
    intake = _intake(summary, gold, source, len(chosen))
    _tell_intake(intake, run)
    del source  # from here the workers hold it
    read = [config.bertscore_model, config.cosine_model, spec.safety]
    with session(
        config,
        _PHASES,
        executor=config.executor,
        asking="check",
        read=read,
        size=summary.answers,
        run=run,
    ) as (progress, executor):
        evaluation = FactualityEvaluation(
            run=run,
            executor=executor,
            spec=spec,
            rows=lambda: _rows(answers, chosen, rejects),
            input_info=intake,
            progress=progress,
            seed=config.seed,
            resamples=config.resamples,
            reuse=[RunDirectory.open(other) for other in config.reuse],
        )
        if not carried_out(evaluation, progress, plan=config.plan):
            return 0
    return _tell(run, config)


def _rows(answers: CheckedAnswers, chosen: set[str], rejects: Sequence[Reject]) -> Iterator[CheckedAnswer | Reject]:
    yield from rejects
    yield from (one for one in answers if isinstance(one, Reject) or one.question_id in chosen)


def _intake(summary: AnswerSummary, gold: GoldStatements, source: EvidenceSource | None, chosen: int) -> dict[str, Any]:
    """Return the counts of rows for run.json: each row is an answer or a reject."""
    return {
        "intake": {
            "rows": summary.rows,
            "answers": summary.answers,
            "rejects": summary.rejects,
            "questions": len(summary.questions),
            "questions_chosen": chosen,
            "models": dict(summary.models),
        },
        "gold": {
            "rows": len(gold.rows) + len(gold.rejects),
            "questions": len(gold.rows),
            "rejects": len(gold.rejects),
            "matched": summary.gold,
            "answers_with_statements": summary.with_gold,
        },
        "evidence_rejects": len(source.rejects) if source else 0,
    }


def _tell_intake(info: dict[str, Any], run: RunDirectory) -> None:
    intake, gold = info["intake"], info["gold"]
    rejects = intake["rejects"] + gold["rejects"] + info["evidence_rejects"]
    if rejects:
        print(f"{rejects} rows can't be used, see {run.part('rejects', 0)}", file=sys.stderr)
    if not gold["rows"]:
        print("no gold statements (--gold): nothing is correlated with gold factuality", file=sys.stderr)
    elif gold["matched"] < gold["questions"]:
        unmatched = gold["questions"] - gold["matched"]
        print(f"{unmatched} of {gold['questions']} questions of the gold match no answer", file=sys.stderr)
    if gold["rows"] and gold["answers_with_statements"] < intake["answers"]:
        lacking = intake["answers"] - gold["answers_with_statements"]
        print(f"{lacking} of {intake['answers']} answers have no gold statements", file=sys.stderr)


def _tell(run: RunDirectory, config: ScoreFactualityConfig) -> int:
    if config.as_json:
        print_json(run.info())
        return end_code(run.info())
    info = run.info()
    if info["rxnav"]:
        print(info["rxnav"], file=sys.stderr)
    for grid in tables_of(run):
        print(f"\n{table_text(grid)}")
    print(f"\nscores   {run.root}/scores\nmetrics  {run.file('metrics.json')}\nreport   {run.file('report.html')}")
    return end_code(info)


if __name__ == "__main__":
    from jobs.cli import main

    sys.exit(main(["factuality", *sys.argv[1:]]))
