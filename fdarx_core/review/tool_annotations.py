"""What an annotation tool hands back: the annotations of known annotators, and the count of everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MARK, REMARK = "mark", "remark"
"""The names of the two questions of each item in every tool: the choice, and the free text."""

PlacedRow = tuple[str, dict[str, Any]]
"""A place (file:row) and a row as of a filled-in sheet."""


@dataclass(slots=True)
class ToolAnnotations:
    """The annotations in a file of an annotation tool.

    Each annotation is either one of the `rows` or counted: in `others` by the reason why it is no mark, or in
    `strangers` by the user, where this is no annotator. `people` are the annotators of the review. `users` maps names
    or ids of the tool's users to annotators, "" for a user whose annotations are left out.
    """

    people: Sequence[str]
    users: Mapping[str, str]
    rows: list[PlacedRow] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    strangers: Counter[str] = field(default_factory=Counter)
    annotated: dict[str, bool] = field(default_factory=dict)
    """Whether each item of the file, by its id, has an annotation."""

    def add_item(self, item: str, annotations: int) -> None:
        """Count an item of the file, which may stand in several rows, and whether it has annotations."""
        self.annotated[item] = self.annotated.get(item, False) or annotations > 0

    def add(self, place: str, user: Sequence[Any], row: Mapping[str, Any], *, state: str = "") -> None:
        """Take in an annotation.

        Args:
            place: where it stands.
            user: the names and ids of its user, of which the first that is known decides.
            row: review, id, task, value and remark, and what else an annotation has.
            state: why it is no mark ("skipped"), "" for a submitted one.
        """
        names = [str(name) for name in user if name not in (None, "")]
        annotator = self._annotator(names)
        if state:
            self.others[state] += 1
        elif not row["value"] and not row["remark"]:
            self.others["without a mark"] += 1
        elif annotator is None:
            self.strangers[" / ".join(names) or "without a name"] += 1
        elif not annotator:
            self.others["of users whom --users leaves out"] += 1
        else:
            self.rows.append((place, {**row, "annotator": annotator}))

    def finish(self, file: str) -> str:
        """Return the counts in a line. Raises ValueError where annotations are of users who are no annotators."""
        if self.strangers:
            listed = ", ".join(f"{name} ({count})" for name, count in sorted(self.strangers.items()))
            raise ValueError(
                f"{file}: {self.strangers.total()} annotations are by users who are no annotators of the review "
                f"({', '.join(self.people)}): {listed}; name the annotator of each with --users USER=ANNOTATOR, or "
                "leave a user's annotations out with --users USER="
            )
        total = len(self.rows) + self.others.total()
        others = "".join(f", {count} {reason}" for reason, count in sorted(self.others.items()))
        without = len(self.annotated) - sum(self.annotated.values())
        left = f"; {without} items have no annotation" if without else ""
        return f"{file}: {total} annotations on {len(self.annotated)} items: {len(self.rows)} read{others}{left}"

    def _annotator(self, names: Sequence[str]) -> str | None:
        known = {**_folded(zip(self.people, self.people, strict=True)), **_folded(iter(self.users.items()))}
        tried = (*names, *(name.partition("@")[0] for name in names if "@" in name))
        return next((known[name.casefold()] for name in tried if name.casefold() in known), None)


def _folded(pairs: Iterator[tuple[str, str]]) -> dict[str, str]:
    return {name.casefold(): annotator for name, annotator in pairs}
