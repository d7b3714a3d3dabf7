"""What jobs with judges have in common: their models, their criteria, and what of both identifies a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobs.options import BASELINE, check_roles

if TYPE_CHECKING:  # importing these takes longer than showing a job's help may
    from fdarx_core.filters.judges import Judge
    from fdarx_core.pipeline.build_steps import Roles
    from fdarx_core.storage import RunDirectory


def load_roles(
    models: str | None,
    *,
    generator: str = BASELINE,
    reader: str | None,
    judge: Sequence[str],
    votes: int,
    strict: bool = False,
    drop_known: bool = False,
) -> Roles:
    """Return the roles with the models of the file `models`.

    The other arguments are as in `Roles.named`. Raises ModelsError for an invalid file, an unknown name or an
    unsuitable number of votes.
    """
    from fdarx_core.llm import load_models
    from fdarx_core.pipeline.build_steps import NONE, Roles

    loaded = load_models(models) if models else {}
    roles = Roles.named(loaded, generator, reader, judge, votes=votes, strict=strict, drop_known=drop_known)
    for role, names in {"generator": [generator], "reader": [reader or generator], "judge": judge}.items():
        for name in names:
            if name != NONE:
                check_roles({role: name}, loaded)
    roles.check_votes()
    return roles


def self_judging_note(roles: Roles) -> str:
    """Return the line that says that the model which writes the questions also judges them; "" where it does not."""
    if not roles.judges_itself:
        return ""
    return (
        f"{roles.generator} judges or answers its own questions, which favours what it writes; to have another model "
        "of --models do both, give --judge NAME --reader NAME"
    )


def judges_of(criteria: str | None) -> Sequence[Judge]:
    """Return the judges with the criteria of a file, None for the project's own."""
    from fdarx_core.filters.judges import judges, judges_by, read_criteria

    return judges() if criteria is None else judges_by(read_criteria(criteria), criteria)


def usable_criteria(file: str | None) -> str | None:
    """Return the file as it was given. Raises PromptError, a ValueError, for one whose criteria can't be used."""
    from fdarx_core.filters.judges import read_criteria

    if file is not None:
        read_criteria(file)
    return file


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

    judged_by = [model_identity(name, roles) for name in roles.judges]
    return {
        "reader": model_identity(roles.reader, roles) if roles.reader else NONE,
        "judge": judged_by if len(judged_by) > 1 else judged_by[0] if judged_by else NONE,
        **({"votes": roles.votes} if roles.votes > 1 else {}),
        **{name: True for name in ("strict", "drop_known") if getattr(roles, name)},
        **({} if criteria is None else {"criteria": content_id(read_criteria(criteria).model_dump_json())}),
        **({"packages": packages} if (packages := plugin_packages("fdarx.filters", "fdarx.judges")) else {}),
    }


def model_identity(name: str, roles: Roles) -> Any:
    """Return a model's name with the settings that change its replies."""
    return name if name == BASELINE else {"name": name, **roles.address(name).sampling}
