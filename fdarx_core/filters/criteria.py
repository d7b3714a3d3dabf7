"""Judges that follow other criteria than the project's own. Source: FDARxBench §3.2, expert feedback loop."""

from __future__ import annotations

from dataclasses import replace

from fdarx_core.filters.judges import Judge, guided_tasks, judges
from fdarx_core.llm import Criteria, PromptError
from fdarx_core.storage import Location, StorageError

KEPT_AS = "criteria.yaml"
"""The file in which a run keeps the criteria that it was given."""


def judges_by(criteria: Criteria, file: str) -> tuple[Judge, ...]:
    """Return the judges with prompts that include these criteria; `file` is the name that errors give them.

    Raises PromptError for a rule that no judge would read, and for a judge that would be left without any.
    """
    guided = guided_tasks()
    named = {name for rule in criteria.rules for name in rule.applies_to}
    if unread := sorted(named - guided):
        raise PromptError(f"{file}: rules apply to {unread}, which read none; those that do are {sorted(guided)}")
    if bare := sorted(guided - named):
        raise PromptError(f"{file}: no rule applies to {bare}; each of these tasks needs one, or more")
    return tuple(
        replace(
            judge,
            by_type={
                kind: replace(how, task=how.task.with_criteria(criteria)) if how.task.name in guided else how
                for kind, how in judge.by_type.items()
            },
        )
        for judge in judges()
    )


def read_criteria(file: str) -> Criteria:
    """Return a user's criteria, each of which some judge reads.

    Raises PromptError, which says what is wrong with the file.
    """
    try:
        criteria = Criteria.from_yaml(Location(file).read_text(), file)
    except (StorageError, UnicodeDecodeError) as error:
        raise PromptError(f"{file}: {error}; give a YAML file like prompts/criteria.yaml") from error
    judges_by(criteria, file)
    return criteria
