"""Judges that follow other criteria than the project's own. Source: FDARxBench §3.2, expert feedback loop."""

from __future__ import annotations

from dataclasses import replace

from fdarx_core.filters.judges import JUDGES, Judge
from fdarx_core.filters.tasks import JUDGE_TASKS
from fdarx_core.llm import Criteria, PromptError
from fdarx_core.storage import Location, StorageError

GUIDED = frozenset(name for name, task in JUDGE_TASKS.items() if task.prompt.has_criteria)
"""The judges' tasks whose prompts say criteria; to the others no rule can apply."""


def judges_by(criteria: Criteria, file: str) -> tuple[Judge, ...]:
    """The judges with prompts that say these criteria; `file` is what errors call them.

    Raises PromptError for a rule that no judge would read, and for a judge that would be left without any.
    """
    named = {name for rule in criteria.rules for name in rule.applies_to}
    if unread := sorted(named - GUIDED):
        raise PromptError(f"{file}: rules apply to {unread}, which read none; those that do are {sorted(GUIDED)}")
    if bare := sorted(GUIDED - named):
        raise PromptError(f"{file}: no rule applies to {bare}; each of these tasks needs one, or more")
    return tuple(
        replace(
            judge,
            by_type={
                kind: replace(how, task=how.task.with_criteria(criteria)) if how.task.name in GUIDED else how
                for kind, how in judge.by_type.items()
            },
        )
        for judge in JUDGES
    )


KEPT_AS = "criteria.yaml"
"""Where a run that was given criteria keeps them."""


def read_criteria(file: str) -> Criteria:
    """A user's criteria, each read by some judge. Raises PromptError, which says what is wrong with the file."""
    try:
        criteria = Criteria.from_yaml(Location(file).read_text(), file)
    except (StorageError, UnicodeDecodeError) as error:
        raise PromptError(f"{file}: {error}; give a YAML file like prompts/criteria.yaml") from error
    judges_by(criteria, file)
    return criteria
