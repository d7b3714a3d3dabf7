"""SPL labels in, a question-answering benchmark with provenance out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import Field, field_validator

from jobs import exit_code
from jobs.cli import run_as
from jobs.judging import (
    judges_of,
    judging_identity,
    keep_criteria,
    load_roles,
    model_identity,
    self_judging_note,
    usable_criteria,
)
from jobs.options import BASELINE, HOW, PRESENTATION, AskingConfig, BatchConfig, Names, TrackingConfig

if TYPE_CHECKING:  # importing these takes longer than showing the job's help may
    from fdarx_core.filters.judges import Judge
    from fdarx_core.generation.contexts import GenerationConfig
    from fdarx_core.labels import Selection
    from fdarx_core.llm import Criteria
    from fdarx_core.pipeline.asking import PlanRow
    from fdarx_core.pipeline.build import BuildSpec
    from fdarx_core.pipeline.build_steps import Roles
    from fdarx_core.storage import RunDirectory

NO_QUESTIONS = 1
"""The exit code of a build that made no question."""
_ROLES = ("generator", "reader", "judge")
_BOUND = (
    "An upper bound: models write fewer questions than they are asked for, and filters drop some. For what to expect, "
    "build some labels (--sample 30 --out PILOT), and give --pilot PILOT."
)
_NOT_RESULTS = HOW | {"criteria", "votes", "strict", "drop_known", "pilot", *_ROLES}


class BuildConfig(TrackingConfig, BatchConfig, AskingConfig):
    """Options of `fdarx build`."""

    labels: list[str] = Field(min_length=1)
    """SPL XML files, folders, globs, zips and DailyMed bulk releases, on disk or s3://"""
    out: str
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    sample: int | None = Field(None, ge=1)
    """number of labels, drawn at random after selection (all)"""
    per_drug: int | None = Field(None, ge=1)
    """largest number of labels of one drug (set of active moieties), drawn at random; labels of one drug repeat each
    other (all)"""
    seed: int = 0
    """random seed; the same seed gives the same benchmark"""
    dev_drugs: int | None = Field(None, ge=0)
    """number of drugs whose labels make the dev split, for prompts and few-shot examples, with at most a tenth of the
    labels; all other labels are the test split, on which results are reported (one of every 20 drugs, five at most)"""
    set_ids: list[str] = Field(default_factory=list)
    """use only these labels: set ids, or files with one set id per line, on disk or s3://"""
    document_types: list[str] = Field(["34391-3"])
    """LOINC codes of the document types to use; 34391-3 is human prescription"""
    exclude_routes: list[str] = Field(["topical", "irrigation", "intradermal", "inhalation"])
    """leave out labels with a route that contains one of these words; `none` leaves none out"""
    passages: int = Field(16, ge=0)
    """passages per label for factual questions; a model needs one request for each"""
    pairs_per_passage: int = Field(3, ge=1, le=10)
    """question-answer pairs to request for each passage"""
    section_pairs: int = Field(12, ge=0)
    """pairs of sections per label for multi-hop questions; a model needs one request for each"""
    twins: int = Field(20, ge=0)
    """pairs per label of a question and one that the label does not answer, on topics that the structure of the labels
    gives; a model needs one request for each pair"""
    topic_labels: int = Field(60, ge=1)
    """largest number of labels of one drug (set of active moieties) that are asked about the same topic"""
    transfers: int = Field(12, ge=0)
    """largest number of questions per label that a model wrote on labels of the same drug or of similar drugs, and that
    the label does not answer; each needs a request to each judge of support and quality, and one to the reader"""
    models: str | None = None
    """YAML file that lists models on servers, see docs/models.md; API keys are read from the environment"""
    generator: str = "baseline"
    """model that writes the questions: a name of --models, or baseline (template questions from the structure of the
    labels, which need no model)"""
    reader: str | None = None
    """model that answers each question again, without knowing its answer: from its passages, from the whole label and
    from nothing; a question is dropped where the answers differ; none leaves this out (the generator, if it is a
    model; another model finds more faults)"""
    judge: Names = Field([])
    """models that judge relevance, support and quality, with up to three requests per question and vote; a stronger
    model drops more weak questions; of several models the majority decides; none leaves this out, and the questions are
    published as not judged (the generator, if it is a model; another model is less partial)"""
    votes: int = Field(1, ge=1)
    """how often each judge votes on a question, with the temperature of its sampling; a tie drops the question; the
    number of judges times votes must be odd"""
    strict: bool = False
    """drop the questions on which a judge or the reader gave no usable reply; without it they stay, and their column
    `unscored` has the stages without a verdict"""
    drop_known: bool = False
    """drop the questions that the reader answers without the label; without it they stay, marked in their column
    `known_without_label`"""
    pilot: str | None = None
    """with --plan: a finished build of some labels with the same models; the plan then says what is expected by what
    that build sent, and not the most that may be sent"""
    criteria: str | None = None
    """YAML file with criteria for the writer and the judges, as `fdarx review criteria` writes it; with --reuse,
    requests that it does not change are not sent again (prompts/criteria.yaml)"""

    @field_validator("criteria")
    @classmethod
    def _is_usable(cls, file: str | None) -> str | None:
        return usable_criteria(file)

    @field_validator("set_ids")
    @classmethod
    def _read_lists(cls, given: list[str]) -> list[str]:
        ids = (set_id for one in given if one for set_id in _listed(one))
        return sorted({one.strip().lower() for one in ids if one.strip()})

    @field_validator("exclude_routes")
    @classmethod
    def _none_is_empty(cls, words: list[str]) -> list[str]:
        return [] if words == ["none"] else [word.casefold() for word in words]

    def identity(self, roles: Roles) -> dict[str, Any]:
        """Return the options that can change the results of a run; they identify it."""
        config = self.model_dump(mode="json", exclude=_NOT_RESULTS | PRESENTATION)
        if self.dev_drugs is None:  # so that a run that was begun before there were splits is resumed
            del config["dev_drugs"]
        if self.generator == BASELINE:  # the built-in rules' questions are not transferred
            del config["transfers"]
        return {
            **config,
            "labels": sorted(config["labels"]),
            "generator": model_identity(self.generator, roles),
            **judging_identity(roles, self.criteria),
        }

    def load_roles(self) -> Roles:
        """Return the models of the roles.

        Raises ModelsError for an invalid models file, unknown name, limit without prices or unsuitable number of votes.
        """
        from fdarx_core.llm import ModelsError

        roles = load_roles(
            self.models,
            generator=self.generator,
            reader=self.reader,
            judge=self.judge,
            votes=self.votes,
            strict=self.strict,
            drop_known=self.drop_known,
        )
        self.check_prices(roles.used)
        self.check_batch()
        if self.pilot is not None and not self.plan:
            raise ModelsError("--pilot says what to expect of a plan; give --plan too, or leave it out")
        return roles

    def own_criteria(self) -> Criteria | None:
        from fdarx_core.filters.judges import read_criteria

        return None if self.criteria is None else read_criteria(self.criteria)

    def judges(self) -> Sequence[Judge]:
        return judges_of(self.criteria)

    def keep_criteria(self, run: RunDirectory) -> None:
        keep_criteria(self.criteria, run)

    def selection(self) -> Selection:
        from fdarx_core.labels import Selection

        return Selection(
            tuple(self.document_types),
            tuple(self.exclude_routes),
            frozenset(self.set_ids),
            self.per_drug,
            self.sample,
            self.seed,
        )

    def amounts(self) -> GenerationConfig:
        from fdarx_core.generation.contexts import GenerationConfig

        return GenerationConfig(
            self.passages,
            self.pairs_per_passage,
            self.section_pairs,
            self.twins,
            self.topic_labels,
            self.seed,
            self.transfers,
        )


def _listed(one: str) -> list[str]:
    """Return the lines of a file; a value that is not a file is its own line.

    Raises ValueError for unreadable files.
    """
    from fdarx_core.storage import Location, StorageError

    try:
        place = Location(one)
        return place.read_text().splitlines() if place.exists() and not place.is_dir() else [one]
    except StorageError as error:
        raise ValueError(str(error)) from error


_PHASES = {
    "identify": "files identified",
    "survey": "labels surveyed for topics",
    "count": "counting the prompts that are too long",
    "build": "labels built",
    "transfer": "parts of labels asked questions of other labels",
    "publish": "writing the benchmark and the report",
}


def build(*, config: Annotated[BuildConfig, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code.

    0 done, 1 done without any question, 2 wrong argument, 3 stopped while asking, 130 interrupted.
    """
    from fdarx_core.pipeline.build import EmptySelection

    return exit_code(lambda: _run(config), EmptySelection)


def _run(config: BuildConfig) -> int:
    from fdarx_core.labels import find_sources
    from fdarx_core.pipeline.build import BuildSpec
    from fdarx_core.storage import RunDirectory
    from jobs.output import print_json
    from jobs.progress import busy
    from jobs.session import check_servers, is_done, run_folder, run_result, versions, warn_of_batches
    from jobs.track import tracked

    roles = config.load_roles()
    if (note := self_judging_note(roles)) and not config.quiet:
        print(f"note: {note}", file=sys.stderr)
    with busy("looking for labels", quiet=config.quiet):
        inputs = find_sources(config.labels)
    spec = BuildSpec(
        inputs,
        config.selection(),
        config.amounts(),
        roles,
        config.max_requests,
        config.max_cost,
        config.judges(),
        config.own_criteria(),
        config.dev_drugs,
        config.batch,
    )
    reuse = [RunDirectory.open(other) for other in config.reuse]
    if config.plan:
        with run_folder(config.out, plan=True) as folder:
            run = RunDirectory.begin(folder, job="build_benchmark", config={}, versions={})
            _make(config, spec, run, [])
        return 0
    check_servers(spec.roles.used, config.out, batch=config.batch)
    identity = config.identity(spec.roles)
    run = RunDirectory.begin(config.out, job="build_benchmark", config=identity, versions=versions())
    if not is_done(run):
        config.keep_criteria(run)
        warn_of_batches(run, batch=config.batch)
        _make(config, spec, run, reuse)
    info = run.info()
    print_json(run_result(run)) if config.as_json else _tell(info, run)
    return tracked(run, config.track, 0 if sum(info["questions"].values()) else NO_QUESTIONS)


def _make(config: BuildConfig, spec: BuildSpec, run: RunDirectory, reuse: Sequence[RunDirectory]) -> None:
    from fdarx_core.pipeline.build import Build
    from jobs.session import carried_out, session

    read = sorted({source.location for source in spec.inputs.sources})
    with session(
        config,
        _PHASES,
        executor=config.asking_executor,
        asking="build",
        read=[*read[:1], *read[-1:]],
        size=min(len(spec.inputs.sources), config.sample or len(spec.inputs.sources)),
        run=run,
    ) as (progress, executor):
        build = Build(run=run, executor=executor, progress=progress, reuse=reuse, spec=spec, tell=progress.tell)
        expected = partial(_by_pilot, config.pilot, spec)
        note = _BOUND if spec.roles.by_model and not config.pilot else ""
        carried_out(build, progress, plan=config.plan, expected=expected, plan_note=note)


def _by_pilot(pilot: str | None, spec: BuildSpec, planned: list[PlanRow]) -> list[PlanRow]:
    """Return the plan by the build that --pilot names; as it is without one."""
    if pilot is None:
        return planned
    from fdarx_core.generation.tasks import TASKS
    from fdarx_core.pipeline.pilot import expected_plan
    from fdarx_core.storage import RunDirectory

    return expected_plan(planned, RunDirectory.open(pilot), TASKS, spec.models)


def _tell(info: dict[str, Any], run: RunDirectory) -> None:
    from fdarx_core.report.build_losses import heavy_loss_lines, main_reasons, missing_lines, unusable_lines
    from fdarx_core.storage.dataset_card import who_judged

    kinds = info["questions"]
    total = sum(kinds.values())
    audit = info.get("audit", {})
    if audit.get("failed"):
        print("\nTHE ARTIFACT AUDIT FAILED. The questions alone give away more than the bounds allow:")
        print("\n".join(f"  {message}" for message in audit["failed"]))
    print(f"\n{total:,} questions: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()))
    if total:
        print(f"  {who_judged(info['config'])}")
    if effective := sum(info.get("effective_size", {}).values()):
        print(f"  {effective:,} distinct combinations of drug, topic and gold answer")
    for line in (*unusable_lines(info), *heavy_loss_lines(info), *missing_lines(info)):
        print(f"  {line}")
    if total:
        _tell_splits(info)
    for stage in info["stages"]:
        print(f"  {stage['stage']:<12} {stage['rows_in']:>9,} in {stage['rejected']:>9,} rejected")
    for row in info.get("agreement", []):
        print(f"  {row['stage']:<12} {_agreement_text(row)}")
    for row in info["asked"]:
        if row["endpoint"] != "baseline":
            cost = "" if row["cost"] is None else f", {row['cost']:.2f} USD"
            tokens = f"{row['prompt_tokens']:,} tokens in, {row['completion_tokens']:,} out"
            batched = f" ({row['batched']:,} in batches)" if row["batched"] else ""
            print(f"  {row['task']} by {row['endpoint']}: {row['requests']:,} requests{batched}, {tokens}{cost}")
    _tell_audit(audit)
    if not total:
        reasons = " ".join(main_reasons(info)) or "No row was rejected."
        print(f"error: no question passed. {reasons} {run.file('report.html')} has all reasons", file=sys.stderr)
    if missing := info["input"]["set_ids_not_found"]:
        print(f"{len(missing)} of the set ids asked for are not in the input, {missing[0]} first", file=sys.stderr)
    for name, file in (("benchmark", "benchmark"), ("report", "report.html"), ("questions", "questions.html")):
        print(f"{name:<9}  {run.file(file)}")


def _tell_splits(info: dict[str, Any]) -> None:
    from fdarx_core.storage.splits import SPLITS, Splits

    splits = Splits.of_run(info)
    if splits.dev:
        test, dev = (sum(splits.questions[split].values()) for split in SPLITS)
        print(f"  {test:,} in the test split, {dev:,} in dev (labels: {len(splits.dev):,}, drugs: {splits.drugs})")
    if splits.note:
        print(f"  {splits.note}")


def _agreement_text(row: dict[str, Any]) -> str:
    """Return the agreement of a stage's votes in words."""
    if row["unanimous"] is None:
        return f"{row['votes']:,} votes, {row['unscored']:,} unscored; no question has two scored votes"
    alpha = "undefined, all votes are equal" if row["alpha"] is None else f"{row['alpha']:.2f}"
    votes = f"{row['votes']:,} votes, {row['unscored']:,} unscored"
    return f"{votes}; {row['unanimous']:.1%} of {row['questions']:,} questions unanimous, Krippendorff's alpha {alpha}"


def _tell_audit(audit: dict[str, Any]) -> None:
    from fdarx_core.storage.dataset_card import audit_row

    if not audit.get("figures"):
        return
    rows = [audit_row(one) for one in audit["figures"]]
    measured = [row for row in rows if row.value]
    print("artifact audit: what the questions give away without the labels, with 95 % intervals")
    if audit.get("note"):
        print(f"  {audit['note']}")
    for row in measured:
        print(
            f"  {row.value:>6}  {row.interval:<14}  {row.name}" + (f"; the bound is {row.bound}" if row.bound else "")
        )
    if unmeasured := [row for row in rows if not row.value]:
        print(f"  {len(unmeasured)} figures are not measured, for example because {unmeasured[0].reason}")


if __name__ == "__main__":
    run_as("build")
