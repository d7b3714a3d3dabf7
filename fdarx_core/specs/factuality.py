"""The specification of a factuality run: claims of answers, verdicts by evidence, scores and safety flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from fdarx_core.specs.options import BASELINE, HOW, PRESENTATION, BatchFilesConfig, Common, Names, check_roles
from fdarx_core.specs.running import MeasuringSpec, OpenedJob

if TYPE_CHECKING:  # importing these takes longer than showing the job's help may
    from fdarx_core.llm import ModelConfig
    from fdarx_core.pipeline.factuality_steps import EngineSpec, FactualitySetup
    from fdarx_core.storage.checked_answers import AnswerSummary, ReferenceStatements

_YEARS = re.compile(r"(\d{4})(?:-(\d{4}))?")
_DEFAULT_YEARS = "2014-2024"
_NOT_RESULTS = HOW | {"pubmed_url", "pubmed_email"}
_IDENTIFIED_BY_CONTENT = {"predictions", "references", "engine_scores", "rxnorm"}


class FactualitySpec(BatchFilesConfig, MeasuringSpec):
    """The factuality of answers: the options of `fdarx factuality`, and of `fdarx_core.score_factuality`."""

    job: ClassVar[str] = "score_factuality"

    predictions: Names = Field(min_length=1)
    """answers to check: files (jsonl, json, csv, parquet) with a question and an answer in each row, or finished runs
    of `fdarx evaluate` or `fdarx evaluate-rag`"""
    evidence: Names = Field(min_length=1)
    """sources of evidence: labels:RUN (passages of the question's own label in a build), all-labels:RUN, index:INDEX
    (of `fdarx index`), file:PATH (rows of texts), and pubmed; each gives its passages for a claim"""
    out: str = Field(min_length=1)
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    references: Common[Names] = Field(default_factory=list)
    """files with MedLFQA's fields (Question, Free_form_answer, Must_have, Nice_to_have), matched by question; without
    them there is no completeness, and no correlation with it"""
    models: Common[Names] = Field(default_factory=list)
    """YAML files that list models, see docs/models.md"""
    claims: Common[str] = BASELINE
    """what extracts claims: baseline (each sentence is a claim), or a name of --models"""
    entailment: Common[str] = Field("auto", validate_default=True)
    """engine that judges claims: a name of --models, which also checks the answers against labels for safety flags, an
    NLI cross-encoder's directory or name on the hub (general and biomedical name two), or exact (quotations alone);
    auto takes the model of --claims, else a cross-encoder that is on this machine (FDARX_VERIFIER names its directory),
    else exact"""
    compare_entailment: str | None = None
    """second engine, named in the same way, to compare with the first as one of the ablations"""
    nli_labels: Names = Field(default_factory=list)
    """classes of the NLI model's outputs in order, if its configuration does not name them"""
    threshold: float = Field(0.7, gt=0, le=1)
    """minimum probability with which a passage decides a claim"""
    k: int = Field(5, ge=1, le=100)
    """passages for each claim, of each source of evidence"""
    weights: str = "0.3,0.4,0.3"
    """weights of similarity, support and absence of contradiction in FAS; their sum must be 1"""
    least_coverage: float = Field(0.5, ge=0, le=1)
    """least share of claims with a passage on their drug from which FAS is reported"""
    least_decided: float = Field(0.5, ge=0, le=1)
    """least share of decided claims from which FAS is reported; also of statements"""
    engine_scores: Names = Field(default_factory=list)
    """files of `fdarx verify --out` with the engines' figures on marked pairs, to show with the results"""
    safety: Common[str | None] = None
    """build with the labels for safety flags, which need a language model as --entailment (that of labels:RUN and
    all-labels:RUN)"""
    retriever: Common[str | None] = None
    """retriever of the evidence: bm25, tfidf, hybrid, or one of an installed package (hybrid where an embedding model
    is available, else bm25)"""
    cosine_model: str | None = None
    """local directory of a sentence-transformers model, for the similarity without BERTScore, and for hybrid retrieval
    of the evidence"""
    rxnorm: str | None = None
    """RxNorm's names of drugs, a folder or zip of `fdarx fetch --names`, for names that the labels of --safety do not
    have (mostly brands)"""
    years: str = _DEFAULT_YEARS
    """years of publication of the PubMed articles"""
    pubmed_url: str | None = None
    """address of Entrez, if it is not NCBI's"""
    pubmed_email: str | None = None
    """e-mail address at which NCBI can contact you before it blocks your address"""
    sample: Common[int | None] = Field(None, ge=1)
    """number of questions whose answers are checked, drawn at random (all)"""
    resamples: int = Field(10_000, ge=100)
    """number of bootstrap resamples; more give more stable intervals"""

    @field_validator("evidence", mode="after")
    @classmethod
    def _of_different_kinds(cls, sources: list[str]) -> list[str]:
        from fdarx_core.factuality.evidence.sources import parse_evidence

        kinds = [parse_evidence(source)[0].removeprefix("all-") for source in sources]
        if twice := next((kind for kind in kinds if kinds.count(kind) > 1), ""):
            raise ValueError(f"two sources are of the kind {twice}; give one of each kind, which verdicts name")
        return sources

    @field_validator("weights", "years", mode="after")
    @classmethod
    def _readable(cls, text: str, info: ValidationInfo) -> str:
        # importing these takes longer than showing help may
        from fdarx_core.factuality.scores import Weights

        readers: dict[str | None, Callable[[str], object]] = {"weights": Weights.read, "years": first_and_last}
        readers[info.field_name](text)
        return text

    @field_validator("entailment", mode="after")
    @classmethod
    def _default_engine(cls, engine: str, info: ValidationInfo) -> str:
        if engine != "auto":
            return engine
        from fdarx_core.verify.nli_model import default_engine

        named = info.data.get("claims", BASELINE)
        return default_engine().removeprefix("cross-encoder:") if named == BASELINE else str(named)

    def open(self) -> OpenedJob:
        """Load the models, and read the answers and the evidence.

        Raises ModelsError for a model that can't be used, ModelMissing for a directory, StorageError for a run, and
        ValueError for other options.
        """
        from fdarx_core.factuality.evidence.pubmed import PubMed, PubMedSettings
        from fdarx_core.factuality.evidence.sources import open_evidence
        from fdarx_core.pipeline.factuality import CODE_VERSION, FactualityEvaluation
        from fdarx_core.pipeline.factuality_steps import FACTUALITY_RULES, FACTUALITY_TASKS
        from fdarx_core.records import CheckedAnswer, Reject
        from fdarx_core.storage.checked_answers import open_answers, read_references
        from fdarx_core.storage.tables import unusable_rows

        setup = self.setup()
        entrez = {"base_url": self.pubmed_url, "email": self.pubmed_email}
        pubmed = PubMedSettings.model_validate({name: value for name, value in entrez.items() if value})
        others = [partial(PubMed, pubmed)] if setup.from_pubmed else []
        clients = self.client_pool(FACTUALITY_RULES, setup.used, shared_fate=False, others=others)
        if not setup.searched and setup.retriever:
            raise ValueError(f"--retriever {setup.retriever}: PubMed searches by itself; leave --retriever out")
        sources = {text: open_evidence(text, setup.directories, setup.retriever) for text in setup.searched.values()}
        evidence = [dict(sources[text].identity) if text in sources else text for text in self.evidence]
        statements = read_references(self.references)
        answers = open_answers(self.predictions, statements)
        summary = answers.summary()
        chosen = summary.chosen(self.sample, self.seed)
        source_rejects = [reject for source in sources.values() for reject in source.rejects]
        rejects = [*statements.rejects, *source_rejects]
        faulty = [*filter(None, [summary.first_reject]), *rejects]
        intake = {**_counts(summary, statements, len(chosen)), "evidence_rejects": len(source_rejects)}

        def is_taken(row: CheckedAnswer | Reject) -> bool:
            return isinstance(row, Reject) or row.question_id in chosen

        return OpenedJob(
            config=self.identity(setup, evidence, summary),
            make=partial(
                FactualityEvaluation,
                clients=clients,
                spec=setup,
                rows=lambda: chain(rejects, filter(is_taken, answers)),
                input_info=intake,
                seed=self.seed,
                resamples=self.resamples,
            ),
            used=setup.used,
            size=summary.answers,
            read=[self.bertscore_model, self.cosine_model, setup.safety],
            code_version=CODE_VERSION,
            prompts=[task.prompt for task in FACTUALITY_TASKS.values()],
            lines=lambda place: unusable_rows(summary.rejects + len(rejects), faulty, place) + _intake_lines(intake),
        )

    def setup(self) -> FactualitySetup:
        """Return the engines, models and thresholds of the run. Raises errors as `open` does."""
        from fdarx_core.factuality.scores import ScoringMethod, Weights
        from fdarx_core.llm import ModelsError
        from fdarx_core.pipeline.factuality_steps import FactualitySetup
        from fdarx_core.retrieval.models import ModelDirectories

        models = self.loaded_models()
        check_roles({"claims": self.claims}, models)
        self.check_bertscore()
        engine, compared = self._engine("--entailment", self.entailment, models), None
        if self.compare_entailment is not None:
            compared = self._engine("--compare-entailment", self.compare_entailment, models)
            if engine.name == compared.name:
                raise ModelsError(
                    f"--compare-entailment {self.compare_entailment}: --entailment has the same name; compare another"
                )
        safety = self._safety()
        if self.rxnorm and not safety:
            raise ValueError("--rxnorm finds drugs for safety flags, which need labels: give --safety RUN")
        return FactualitySetup(
            evidence=tuple(self.evidence),
            retriever=self.retriever,
            claims=self.claims,
            engine=engine,
            compared=compared,
            models=models,
            scoring=ScoringMethod(
                threshold=self.threshold,
                k=self.k,
                weights=Weights.read(self.weights),
                least_coverage=self.least_coverage,
                least_decided=self.least_decided,
                measured=self._measured(models, {judging.name for judging in (engine, compared) if judging}),
            ),
            safety=safety,
            rxnorm=self.rxnorm or "",
            bertscore=self.bertscore_model,
            bertscore_layers=self.bertscore_layers,
            encoder=ModelDirectories(cosine=self.cosine_model).of("cosine") if self.cosine_model else None,
            years=first_and_last(self.years),
        )

    def identity(self, setup: FactualitySetup, evidence: list[Any], summary: AnswerSummary) -> dict[str, Any]:
        """Return the options, `evidence` and answers that can change the results of a run; they identify it."""
        from fdarx_core.labels.rxnorm import read_rxnorm
        from fdarx_core.records import content_id

        return {
            **self.model_dump(mode="json", exclude=_NOT_RESULTS | _IDENTIFIED_BY_CONTENT | PRESENTATION),
            "safety": setup.safety,
            "rxnorm": content_id(repr(read_rxnorm(setup.rxnorm))) if setup.rxnorm else "",
            "engine_scores": {name: content_id(str(kept)) for name, kept in setup.scoring.measured.items()},
            "asked": {name: model.request_parameters for name, model in setup.used.items()},
            "evidence": evidence if len(evidence) > 1 else evidence[0],
            "answers": summary.digest,
        }

    def _engine(self, option: str, name: str, models: Mapping[str, ModelConfig]) -> EngineSpec:
        from fdarx_core.pipeline.factuality_steps import EngineSpec
        from fdarx_core.retrieval.models import ModelMissing
        from fdarx_core.verify.nli_model import check_nli, name_of

        if name == "exact":
            return EngineSpec()
        if name in models:
            return EngineSpec("judge", name)
        try:
            labels = tuple(self.nli_labels) or None
            check_nli(name, labels, models)
        except ModelMissing as error:
            known = ", ".join(("exact", *models))
            raise ModelMissing(f"{option} {name}: {error} (or one of {known})") from error
        return EngineSpec("nli", name_of(name), name, labels)

    def _measured(self, models: Mapping[str, ModelConfig], names: Collection[str]) -> dict[str, Any]:
        """Return the figures of these engines on marked pairs. Raises ValueError for those of another engine."""
        from fdarx_core.evaluation.verifier_scores import read_engine_scores
        from fdarx_core.storage import Location

        known = {getattr(model, "model", name): name for name, model in models.items() if name in names}
        found: dict[str, Any] = {}
        for file in self.engine_scores:
            kept = read_engine_scores(Location(file))
            name = known.get(kept["engine"], kept["engine"])
            if name not in names:
                raise ValueError(f"--engine-scores {file} is of {name}, but {' and '.join(sorted(names))} judge here")
            found[name] = kept
        return found

    def _safety(self) -> str:
        """Return the run with the labels, "" for none. Raises StorageError if it is not a finished build."""
        from fdarx_core.factuality.evidence.sources import parse_evidence
        from fdarx_core.storage.benchmark_reader import open_build

        places = {kind.removeprefix("all-"): place for kind, place in map(parse_evidence, self.evidence)}
        place = self.safety or places.get("labels", "")
        return str(open_build(place).root) if place else ""


def first_and_last(years: str) -> tuple[int, int]:
    """Return the first and the last year. Raises ValueError for other forms than 2014-2024 and 2020."""
    found = _YEARS.fullmatch(years.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if first > last:
        raise ValueError(f"write the first and the last year, as {_DEFAULT_YEARS}")
    return first, last


def _counts(summary: AnswerSummary, statements: ReferenceStatements, chosen: int) -> dict[str, dict[str, Any]]:
    """Return the counts of answers and reference statements for run.json; `chosen` is the number of questions taken."""
    return {
        "intake": {
            "rows": summary.rows,
            "answers": summary.answers,
            "rejects": summary.rejects,
            "questions": len(summary.questions),
            "questions_chosen": chosen,
            "models": dict(summary.models),
        },
        "references": {
            "rows": len(statements.rows) + len(statements.rejects),
            "questions": len(statements.rows),
            "rejects": len(statements.rejects),
            "matched": summary.statements,
            "answers_with_statements": summary.with_statements,
        },
    }


def _intake_lines(info: Mapping[str, Any]) -> list[str]:
    """Return what to tell the user of answers without references, and of references without an answer."""
    intake, statements, lines = info["intake"], info["references"], list[str]()
    if not statements["rows"]:
        lines.append("no reference statements (--references): no completeness, and no correlations with it")
    elif statements["matched"] < statements["questions"]:
        unmatched = statements["questions"] - statements["matched"]
        lines.append(f"{unmatched} of {statements['questions']} questions of the references match no answer")
    if statements["rows"] and statements["answers_with_statements"] < intake["answers"]:
        lacking = intake["answers"] - statements["answers_with_statements"]
        lines.append(f"{lacking} of {intake['answers']} answers have no reference statements")
    return lines
