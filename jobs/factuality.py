"""Score the factuality of answers: claims, verdicts by evidence, the Fact-Aligned Score, safety flags, a report."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fdarx_core.evaluation.tables import table_text
from fdarx_core.evaluation.verifier_scores import read_engine_scores
from fdarx_core.factuality.evidence import EvidenceSource, open_evidence, parse_evidence
from fdarx_core.factuality.evidence.entrez import PubMedSettings
from fdarx_core.factuality.scores import ScoringMethod, Weights
from fdarx_core.labels.rxnorm import read_rxnorm
from fdarx_core.llm import ModelConfig, ModelsError
from fdarx_core.pipeline.factuality import CODE_VERSION, FactualityEvaluation, limits_of, safety_of, tables_of
from fdarx_core.pipeline.factuality_steps import EngineSpec, FactualitySpec
from fdarx_core.records import CheckedAnswer, Reject, content_id
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.storage import Location, RunDirectory
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.checked_answers import (
    AnswerSummary,
    CheckedAnswers,
    ReferenceStatements,
    open_answers,
    read_references,
)
from fdarx_core.verify.nli_model import check_nli, name_of
from jobs.options import HOW, PRESENTATION, check_roles, load_all
from jobs.output import print_json
from jobs.progress import busy
from jobs.score_factuality import ScoreFactualityConfig, first_and_last
from jobs.session import carried_out, end_code, is_done, run_folder, run_result, session, versions
from jobs.track import tracked

_NOT_RESULTS = HOW | {"pubmed_url", "pubmed_email"}
_IDENTIFIED_BY_CONTENT = {"predictions", "references", "engine_scores", "rxnorm"}


def factuality_spec(config: ScoreFactualityConfig) -> FactualitySpec:
    """Return the specification.

    Raises ModelsError for a model that can't be used, ModelMissing for a directory, and StorageError for a run.
    """
    models = load_all(config.models)
    check_roles({"claims": config.claims}, models)
    config.check_bertscore()
    spec = FactualitySpec(
        evidence=config.evidence,
        retriever=config.retriever,
        engine=_engine(config, "--entailment", config.entailment, models),
        compared=_compared(config, models),
        claims=config.claims,
        models=models,
        scoring=ScoringMethod(
            threshold=config.threshold,
            k=config.k,
            weights=Weights.read(config.weights),
            least_coverage=config.least_coverage,
            least_decided=config.least_decided,
            measured=_measured(config, models),
        ),
        safety=_safety(config),
        rxnorm=_rxnorm(config),
        bertscore=config.bertscore_model,
        bertscore_layers=config.bertscore_layers,
        encoder=ModelDirectories(cosine=config.cosine_model).of("cosine") if config.cosine_model else None,
        years=first_and_last(config.years),
        pubmed=_pubmed(config),
        max_requests=config.max_requests,
        max_cost=config.max_cost,
    )
    config.check_prices(spec.used)
    return spec


def _source(config: ScoreFactualityConfig, spec: FactualitySpec) -> EvidenceSource | None:
    """Open the evidence to check that it exists; None for PubMed. Raises the errors of `open_evidence`."""
    if spec.from_pubmed and spec.retriever:
        raise ValueError(f"--retriever {spec.retriever}: PubMed searches by itself; leave --retriever out")
    return None if spec.from_pubmed else open_evidence(spec.evidence, spec.directories, spec.retriever)


def identity(
    config: ScoreFactualityConfig, spec: FactualitySpec, source: EvidenceSource | None, summary: AnswerSummary
) -> dict[str, Any]:
    """Return the options and answers that can change the results of a run; they identify it."""
    return {
        **config.model_dump(mode="json", exclude=_NOT_RESULTS | _IDENTIFIED_BY_CONTENT | PRESENTATION),
        "safety": spec.safety,
        "rxnorm": content_id(repr(read_rxnorm(spec.rxnorm))) if spec.rxnorm else "",
        "engine_scores": {name: content_id(str(kept)) for name, kept in spec.scoring.measured.items()},
        "asked": {name: model.request_parameters for name, model in spec.used.items()},
        "evidence": config.evidence if source is None else dict(source.identity),
        "answers": summary.digest,
    }


def _compared(config: ScoreFactualityConfig, models: Mapping[str, ModelConfig]) -> EngineSpec | None:
    if config.compare_entailment is None:
        return None
    engine = _engine(config, "--compare-entailment", config.compare_entailment, models)
    if engine.name == _engine(config, "--entailment", config.entailment, models).name:
        raise ModelsError(
            f"--compare-entailment {config.compare_entailment}: --entailment has the same name; compare another"
        )
    return engine


def _engine(config: ScoreFactualityConfig, option: str, given: str, models: Mapping[str, ModelConfig]) -> EngineSpec:
    if given == "exact":
        return EngineSpec()
    if given in models:
        return EngineSpec("judge", given)
    try:
        labels = tuple(config.nli_labels) or None
        check_nli(given, labels)
    except ModelMissing as error:
        known = ", ".join(("exact", *models))
        raise ModelMissing(f"{option} {given}: {error} (or one of {known})") from error
    return EngineSpec("nli", name_of(given), given, labels)


def _measured(config: ScoreFactualityConfig, models: Mapping[str, ModelConfig]) -> dict[str, Any]:
    """Return the figures of the engines on marked pairs. Raises ValueError for those of another engine."""
    engines = {"--entailment": config.entailment, "--compare-entailment": config.compare_entailment}
    names = {_engine(config, option, given, models).name for option, given in engines.items() if given}
    known = {getattr(model, "model", name): name for name, model in models.items() if name in names}
    found: dict[str, Any] = {}
    for file in config.engine_scores:
        kept = read_engine_scores(Location(file))
        name = known.get(kept["engine"], kept["engine"])
        if name not in names:
            raise ValueError(f"--engine-scores {file} is of {name}, but {' and '.join(sorted(names))} judge here")
        found[name] = kept
    return found


def _safety(config: ScoreFactualityConfig) -> str:
    """Return the run with the labels, "" for none. Raises StorageError if it is not a finished build."""
    kind, of_evidence = parse_evidence(config.evidence)
    place = config.safety or (of_evidence if kind in ("labels", "all-labels") else "")
    return str(open_build(place).root) if place else ""


def _rxnorm(config: ScoreFactualityConfig) -> str:
    """Return the place of RxNorm's names, "" for none. Raises ValueError if there are no labels to find drugs in."""
    if config.rxnorm and not _safety(config):
        raise ValueError("--rxnorm finds drugs for safety flags, which need labels: give --safety RUN")
    return config.rxnorm or ""


def _pubmed(config: ScoreFactualityConfig) -> PubMedSettings:
    given = {"base_url": config.pubmed_url, "email": config.pubmed_email}
    return PubMedSettings.model_validate({name: value for name, value in given.items() if value})


_PHASES = {"intake": "reading the answers", "check": "parts checked"}


def run(config: ScoreFactualityConfig) -> int:
    """Run the job; returns its exit code, as `jobs.score_factuality.factuality`."""
    spec = factuality_spec(config)
    with busy("reading the answers and the evidence", quiet=config.quiet):
        source = _source(config, spec)
        statements = read_references(config.references)
        answers = open_answers(config.predictions, statements)
        summary = answers.summary()
    chosen = summary.chosen(config.sample, config.seed)
    made_of = identity(config, spec, source, summary)
    with run_folder(config.out, plan=config.plan) as out:
        run = RunDirectory.begin(out, job="score_factuality", config=made_of, versions=versions())
        if is_done(run, CODE_VERSION):
            return tracked(run, config.track, _tell(run, config))
        rejects = [*statements.rejects, *(source.rejects if source else ())]
        intake = _intake(summary, statements, source, len(chosen))
        _tell_intake(intake, "" if config.plan else f", see {run.part('rejects', 0)}")
        del source  # from here the workers hold it
        read = [config.bertscore_model, config.cosine_model, spec.safety]
        with session(
            config, _PHASES, executor=config.executor, asking="check", read=read, size=summary.answers, run=run
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
        return tracked(run, config.track, _tell(run, config))


def _rows(answers: CheckedAnswers, chosen: set[str], rejects: Sequence[Reject]) -> Iterator[CheckedAnswer | Reject]:
    yield from rejects
    yield from (one for one in answers if isinstance(one, Reject) or one.question_id in chosen)


def _intake(
    summary: AnswerSummary, statements: ReferenceStatements, source: EvidenceSource | None, chosen: int
) -> dict[str, Any]:
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
        "references": {
            "rows": len(statements.rows) + len(statements.rejects),
            "questions": len(statements.rows),
            "rejects": len(statements.rejects),
            "matched": summary.statements,
            "answers_with_statements": summary.with_statements,
        },
        "evidence_rejects": len(source.rejects) if source else 0,
    }


def _tell_intake(info: dict[str, Any], where: str) -> None:
    intake, statements = info["intake"], info["references"]
    rejects = intake["rejects"] + statements["rejects"] + info["evidence_rejects"]
    if rejects:
        print(f"{rejects} rows can't be used{where}", file=sys.stderr)
    if not statements["rows"]:
        print("no reference statements (--references): no completeness, and no correlations with it", file=sys.stderr)
    elif statements["matched"] < statements["questions"]:
        unmatched = statements["questions"] - statements["matched"]
        print(f"{unmatched} of {statements['questions']} questions of the references match no answer", file=sys.stderr)
    if statements["rows"] and statements["answers_with_statements"] < intake["answers"]:
        lacking = intake["answers"] - statements["answers_with_statements"]
        print(f"{lacking} of {intake['answers']} answers have no reference statements", file=sys.stderr)


def _tell(run: RunDirectory, config: ScoreFactualityConfig) -> int:
    for line in limits_of(run):
        print(line, file=sys.stderr)
    if config.as_json:
        print_json(run_result(run))
        return end_code(run.info())
    for grid in tables_of(run):
        print(f"\n{table_text(grid)}")
    if found := safety_of(run):
        print(f"\nsafety   {found}")
    print(f"\nscores   {run.root}/scores\nmetrics  {run.file('metrics.json')}\nreport   {run.file('report.html')}")
    return end_code(run.info())
