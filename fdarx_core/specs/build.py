"""The specification of a build: SPL labels in, a question-answering benchmark with provenance out.

The functions after it, on judges and their criteria, are also those of `fdarx review judges`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, field_validator

from fdarx_core.specs.options import BASELINE, HOW, PRESENTATION, BatchConfig, Common, Names, check_roles
from fdarx_core.specs.running import AskingSpec, OpenedJob, no_progress

if TYPE_CHECKING:  # importing these takes longer than showing the job's help may
    from fdarx_core.filters.judges import Judge
    from fdarx_core.labels import Selection
    from fdarx_core.llm import ModelConfig
    from fdarx_core.llm.prompts import Prompt
    from fdarx_core.pipeline.build import Build
    from fdarx_core.pipeline.build_steps import Roles
    from fdarx_core.storage import RunDirectory

_ROLES = ("generator", "reader", "judge")
_NOT_RESULTS = HOW | {"criteria", "votes", "strict", "drop_known", *_ROLES}


def _usable(file: str | None) -> str | None:
    """Return the file as it was given. Raises PromptError, a ValueError, for one whose criteria can't be used."""
    from fdarx_core.filters.judges import read_criteria

    if file is not None:
        read_criteria(file)
    return file


CriteriaFile = Annotated[str | None, AfterValidator(_usable)]
"""A YAML file with criteria for judges, which is read to check it."""


class BuildSpec(BatchConfig, AskingSpec):
    """A build of a benchmark: the options of `fdarx build`, and of `fdarx_core.build`."""

    job: ClassVar[str] = "build_benchmark"
    by_content: ClassVar[frozenset[str]] = frozenset({"labels"})

    labels: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    """SPL XML files, folders, globs, zips and DailyMed bulk releases, on disk or s3://"""
    out: str = Field(min_length=1)
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    sample: Common[int | None] = Field(None, ge=1)
    """number of labels, drawn at random after selection (all)"""
    per_drug: Common[int | None] = Field(None, ge=1)
    """largest number of labels of one drug (set of active moieties), drawn at random; labels of one drug repeat each
    other (all)"""
    seed: Common[int] = 0
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
    passages: Common[int] = Field(16, ge=0)
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
    models: Common[str | None] = None
    """YAML file that lists models on servers, see docs/models.md; API keys are read from the environment"""
    generator: Common[str] = "baseline"
    """model that writes the questions: a name of --models, or baseline (template questions from the structure of the
    labels, which need no model)"""
    reader: Common[str | None] = None
    """model that answers each question again, without knowing its answer: from its passages, from the whole label and
    from nothing; a question is dropped where the answers differ; none leaves this out (the generator, if it is a
    model; another model finds more faults)"""
    judge: Common[Names] = Field([])
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
    criteria: CriteriaFile = None
    """YAML file with criteria for the writer and the judges, in the layout of prompts/criteria.yaml; with --reuse,
    requests that it does not change are not sent again"""

    @field_validator("set_ids")
    @classmethod
    def _read_lists(cls, entries: list[str]) -> list[str]:
        from fdarx_core.storage import Location, StorageError

        ids: list[str] = []
        for entry in filter(None, entries):
            try:
                place = Location(entry)
                is_file = place.exists() and not place.is_dir()
                if not is_file and not {*"/."}.isdisjoint(entry):
                    raise ValueError(f"there is no file {entry}; give set ids, or a file with one a line")
                ids += place.read_text().splitlines() if is_file else [entry]
            except StorageError as error:
                raise ValueError(str(error)) from error
        return sorted({set_id.strip().lower() for set_id in ids if set_id.strip()})

    @field_validator("exclude_routes")
    @classmethod
    def _none_is_empty(cls, words: list[str]) -> list[str]:
        return [] if words == ["none"] else [word.casefold() for word in words]

    def open(self) -> OpenedJob:
        """Load the models and find the labels.

        Raises ModelsError for an invalid models file, unknown name, limit without prices or unsuitable number of votes,
        and StorageError for labels that can't be read.
        """
        from fdarx_core.filters.judges import read_criteria
        from fdarx_core.generation.contexts import GenerationConfig
        from fdarx_core.generation.writing import writing_tasks
        from fdarx_core.labels import find_sources
        from fdarx_core.pipeline.build import Build
        from fdarx_core.pipeline.build_steps import baseline
        from fdarx_core.pipeline.local import LocalExecutor

        roles = self.load_roles()
        clients = self.client_pool(baseline(), roles.used)
        criteria = None if self.criteria is None else read_criteria(self.criteria)
        inputs, judged_by = find_sources(self.labels), judges_of(self.criteria)
        build = partial(
            Build,
            clients=clients,
            inputs=inputs,
            selection=self.selection(),
            amounts=GenerationConfig(**{field.name: getattr(self, field.name) for field in fields(GenerationConfig)}),
            roles=roles,
            judges=judged_by,
            criteria=criteria,
            dev_drugs=self.dev_drugs,
        )

        def make(*, run: RunDirectory, **how: Any) -> Build:
            keep_criteria(self.criteria, run)
            return build(run=run, **how)

        def check(run: RunDirectory) -> None:  # a finished run identifies no labels again
            if run.complete and run.info()["config"]["labels"] != sorted(self.labels):
                build(run=run, executor=LocalExecutor(), progress=no_progress).check_labels()

        read = sorted({source.location for source in inputs.sources})
        note = (
            f"note: {roles.generator} judges or answers its own questions, which favours what it writes; to have "
            "another model of --models do both, give --judge NAME --reader NAME"
        )
        return OpenedJob(
            config=self.identity(roles),
            make=make,
            used=roles.used,
            size=min(len(inputs.sources), self.sample or len(inputs.sources)),
            read=[*read[:1], *read[-1:]],
            lines=lambda rejects: [note] if roles.judges_itself and not self.quiet else [],
            check=check,
            prompts=[*(task.prompt for task in writing_tasks(criteria).values()), *judging_prompts(judged_by)],
        )

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
            "generator": _model_identity(self.generator, roles),
            **judging_identity(roles, self.criteria),
        }

    def load_roles(self) -> Roles:
        """Return the models of the roles. Raises ModelsError as `open`."""
        return load_roles(
            self.loaded_models(),
            generator=self.generator,
            reader=self.reader,
            judge=self.judge,
            votes=self.votes,
            strict=self.strict,
            drop_known=self.drop_known,
        )

    def selection(self) -> Selection:
        """Return the criteria by which labels are selected."""
        from fdarx_core.labels import Selection

        return Selection(
            document_types=tuple(self.document_types),
            excluded_routes=tuple(self.exclude_routes),
            set_ids=frozenset(self.set_ids),
            per_drug=self.per_drug,
            sample=self.sample,
            seed=self.seed,
        )


def load_roles(
    models: Mapping[str, ModelConfig],
    *,
    generator: str = BASELINE,
    reader: str | None,
    judge: Sequence[str],
    votes: int,
    strict: bool = False,
    drop_known: bool = False,
) -> Roles:
    """Return the roles by the names that a user gave.

    Args:
        models: the models by name.
        generator: the model that writes, or `baseline`.
        reader: the model that answers again, or `none`; None for the generator, where that is a model.
        judge: the models that judge, or `none` alone; empty for the generator, where that is a model.
        votes: as in `Roles`, like `strict` and `drop_known`.

    Raises ModelsError for an unknown name, for `baseline`, which judges nothing, for `none` beside models, and for an
    unsuitable number of votes.
    """
    from fdarx_core.llm import ModelsError
    from fdarx_core.pipeline.build_steps import NONE, Roles

    writer = [] if generator == BASELINE else [generator]
    names_of_roles = {"reader": writer if reader is None else [reader], "judge": list(judge) or writer}
    for role, names in names_of_roles.items():
        if BASELINE in names:
            raise ModelsError(
                f"--{role} {BASELINE}: the built-in rules judge nothing; name a model of --models, or {NONE}"
            )
        if NONE in names and len(names) > 1:
            raise ModelsError(f"--{role}: {NONE} stands beside models; give models, or {NONE} alone")
    for role, names in {"generator": [generator], **names_of_roles}.items():
        for name in names:
            if name != NONE:
                check_roles({role: name}, models)
    readers, judges = ([name for name in names if name != NONE] for names in names_of_roles.values())
    roles = Roles(models, generator, "".join(readers), tuple(judges), votes, strict, drop_known)
    roles.check_votes()
    return roles


def judges_of(criteria: str | None) -> Sequence[Judge]:
    """Return the judges with the criteria of a file, None for the project's own."""
    from fdarx_core.filters.judges import judges, judges_by, read_criteria

    return judges() if criteria is None else judges_by(read_criteria(criteria), criteria)


def judging_prompts(judges: Sequence[Judge]) -> list[Prompt]:
    """Return the prompts of the judges, and that by which the reader answers."""
    from fdarx_core.filters.round_trip import ROUND_TRIP_ANSWER

    judged = [how.task.prompt for judge in judges for how in judge.by_type.values()]
    return [*judged, ROUND_TRIP_ANSWER.prompt]


def keep_criteria(criteria: str | None, run: RunDirectory) -> None:
    """Copy the given criteria into the run; its configuration has only their digest."""
    from fdarx_core.filters.judges import KEPT_AS
    from fdarx_core.storage import Location

    if criteria is not None:
        run.file(KEPT_AS).write_text(Location(criteria).read_text())


def judging_identity(roles: Roles, criteria: str | None) -> dict[str, Any]:
    """Return what can change the verdicts on a question; it is part of the configuration that identifies a run."""
    from fdarx_core.filters.judges import read_criteria
    from fdarx_core.pipeline.build_steps import NONE
    from fdarx_core.plugins import plugin_packages
    from fdarx_core.records import content_id

    judged_by = [_model_identity(name, roles) for name in roles.judges]
    packages = plugin_packages("fdarx.filters", "fdarx.judges", "fdarx.question_types")
    return {
        "reader": _model_identity(roles.reader, roles) if roles.reader else NONE,
        "judge": judged_by if len(judged_by) > 1 else judged_by[0] if judged_by else NONE,
        **({"votes": roles.votes} if roles.votes > 1 else {}),
        **{name: True for name in ("strict", "drop_known") if getattr(roles, name)},
        **({} if criteria is None else {"criteria": content_id(read_criteria(criteria).model_dump_json())}),
        **({"packages": packages} if packages else {}),
    }


def _model_identity(name: str, roles: Roles) -> Any:
    """Return a model's name with the settings that change its replies."""
    return name if name == BASELINE else {"name": name, **roles.address(name).sampling}
