"""The options of `fdarx build`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, field_validator

from fdarx_core.filters.criteria import KEPT_AS, judges_by, read_criteria
from fdarx_core.filters.judges import JUDGES, Judge
from fdarx_core.generation.contexts import Amounts
from fdarx_core.labels import Selection
from fdarx_core.labels.selection import EXCLUDED_ROUTES, HUMAN_PRESCRIPTION
from fdarx_core.llm import Baseline
from fdarx_core.llm.models import ModelsError, load_models
from fdarx_core.pipeline.plan import Roles
from fdarx_core.records import content_id
from fdarx_core.storage import Location, RunDirectory, StorageError
from jobs.asking_config import AskingConfig

_ROLES = ("generator", "rephraser", "judge")
_NOT_RESULTS = {"out", "cpus", "models", "reuse", "max_requests", "max_cost", "plan", "criteria", *_ROLES}


class BuildConfig(AskingConfig):
    """Options of `fdarx build`."""

    labels: list[str] = Field(
        min_length=1,
        description="SPL XML files, folders, globs, zips or DailyMed bulk releases, on disk or s3://, in any mix",
    )
    out: str = Field(description="run directory to write, on disk or s3://; the same command again resumes it")
    sample: int | None = Field(
        None, ge=1, description="take this many labels at random after selection; time and size grow with it (all)"
    )
    seed: int = Field(0, description="fixes the sample and every choice; the same seed gives the same benchmark")
    set_ids: list[str] = Field(
        default_factory=list,
        description="take only these labels: set ids, or files, on disk or s3://, that list them one a line",
    )
    document_types: list[str] = Field(
        [HUMAN_PRESCRIPTION], description="LOINC codes of the document types to take; 34391-3 is human prescription"
    )
    exclude_routes: list[str] = Field(
        list(EXCLUDED_ROUTES),
        description="leave out labels with a route that contains one of these words; `none` leaves none out",
    )
    passages: int = Field(
        16, ge=0, description="passages a label to write factual questions from: one request each to a model"
    )
    pairs_per_passage: int = Field(3, ge=1, le=10, description="question-answer pairs to ask for a passage")
    section_pairs: int = Field(
        12, ge=0, description="pairs of sections a label to write multi-hop questions from: one request each"
    )
    refusals: int = Field(6, ge=0, description="unanswerable questions a label: one request each to rephrase it")
    models: str | None = Field(
        None,
        description="YAML file that lists models on servers, see docs/models.md; keys stay in the environment",
    )
    generator: str = Field(
        "baseline", description="who writes factual and multi-hop questions: a name of --models, or the built-in rules"
    )
    rephraser: str = Field(
        "baseline",
        description="who rephrases refusal questions; a small model is enough",
    )
    judge: str = Field(
        "baseline",
        description="who judges relevance, support and quality: up to three requests a question; a stronger model "
        "drops more of what is weak",
    )

    criteria: str | None = Field(
        None,
        description="YAML file of reviewers' criteria for the judges, as `fdarx review criteria` accepts one; what it "
        "does not change is not asked again with --reuse; the built-in rules read none (prompts/criteria.yaml)",
    )

    @field_validator("criteria")
    @classmethod
    def _is_usable(cls, file: str | None) -> str | None:
        if file is not None:
            read_criteria(file)
        return file

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
        """What makes a run this run: every option that can change its results."""
        config = self.model_dump(mode="json", exclude=_NOT_RESULTS)
        if self.criteria is not None:
            config["criteria"] = content_id(read_criteria(self.criteria).model_dump_json())
        return {**config, "labels": sorted(config["labels"]), **{role: self._who(role, roles) for role in _ROLES}}

    def _who(self, role: str, roles: Roles) -> Any:
        name = getattr(self, role)
        return name if name == Baseline.name else {"name": name, **roles.sampling(name)}

    def roles(self) -> Roles:
        """Raises ModelsError for a models file that can't be used, a name that is not in it, a limit without prices."""
        models = load_models(self.models) if self.models else {}
        for role in _ROLES:
            name = getattr(self, role)
            if name != Baseline.name and name not in models:
                known = ", ".join(("baseline", *models))
                raise ModelsError(f"--{role} {name}: there is no such model; known are {known}, see --models")
        roles = Roles(models, self.generator, self.rephraser, self.judge)
        self.check_prices(roles.used)
        return roles

    def judges(self) -> Sequence[Judge]:
        return JUDGES if self.criteria is None else judges_by(read_criteria(self.criteria), self.criteria)

    def keep_criteria(self, run: RunDirectory) -> None:
        """Copies the criteria that were given into the run, which names them by a digest alone."""
        if self.criteria is not None:
            run.file(KEPT_AS).write_text(Location(self.criteria).read_text())

    def selection(self) -> Selection:
        return Selection(
            tuple(self.document_types), tuple(self.exclude_routes), frozenset(self.set_ids), self.sample, self.seed
        )

    def amounts(self) -> Amounts:
        return Amounts(self.passages, self.pairs_per_passage, self.section_pairs, self.refusals, self.seed)


def _listed(one: str) -> list[str]:
    """The lines of a file; what is none stands for itself. Raises ValueError where the file can't be read."""
    try:
        place = Location(one)
        return place.read_text().splitlines() if place.exists() and not place.is_dir() else [one]
    except StorageError as error:
        raise ValueError(str(error)) from error
