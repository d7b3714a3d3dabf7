"""Answers to questions for several labels: a row for each drug, quoted from its labels."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fdarx_core.baseline.label_statements import quoted
from fdarx_core.baseline.tokens import capitalise
from fdarx_core.records import LabelGroup, LabelGroups


@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """A drug in the answer to a question for several labels.

    Attributes:
        drug: its name, that of the reference label among those cited.
        names: the names of its products, the most frequent ones.
        moieties: its active moieties.
        labels: the number of its labels that match.
        newest: the latest effective date of these labels, in ISO 8601.
        citations: the numbers of the contexts that are cited for it.
    """

    drug: str
    names: tuple[str, ...]
    moieties: tuple[str, ...]
    labels: int
    newest: str
    citations: tuple[int, ...]


def group_rows(found: LabelGroups, contexts: int) -> Iterator[str]:
    """Yield the row of each drug: a line with its names and labels, then its statements with citations.

    Args:
        found: the drugs. The contexts are their hits, in order, numbered from 1.
        contexts: the number of contexts; drugs with a hit beyond are left out.
    """
    for group, numbers in numbered_groups(found, contexts):
        statements = (_cited(one, number) for one, number in zip(group.statements, numbers, strict=True))
        yield "\n".join((_heading(group), *statements))


def numbered_groups(found: LabelGroups, contexts: int) -> Iterator[tuple[LabelGroup, tuple[int, ...]]]:
    """Yield each drug with the numbers of its contexts; drugs with a hit beyond the contexts are left out."""
    number = 0
    for group in found.groups:
        numbers = tuple(range(number + 1, number + len(group.hits) + 1))
        number += len(numbers)
        if number <= contexts:
            yield group, numbers


def answer_groups(found: LabelGroups, cited: Collection[int], contexts: int) -> list[AnswerGroup]:
    """Return the drugs of an answer that cites some of the contexts, each with the numbers of those cited."""
    groups = list[AnswerGroup]()
    for group, numbers in numbered_groups(found, contexts):
        if own := tuple(number for number in numbers if number in cited):
            about = (group.names[0], tuple(group.names), tuple(group.moieties), group.labels, group.newest)
            groups.append(AnswerGroup(*about, own))
    return groups


def groups_text(found: LabelGroups, listed: int) -> str:
    """Return the sentences on what an answer with so many drugs leaves out; "" where it leaves out nothing."""
    sentences = list[str]()
    if not found.complete:
        sentences.append("No label says all that is asked; these say a part of it.")
    if found.unknown:
        words = ", ".join(f'"{word}"' for word in found.unknown)
        sentences.append(f"No label has: {words}.")
    if found.no_class:
        sentences.append(f'No label was found to say of its drug: "{found.no_class}".')
    if more := found.drugs - listed:
        sentences.append(f"Labels of {more} more {'drug matches' if more == 1 else 'drugs match'}.")
    return " ".join(sentences)


def _heading(group: LabelGroup) -> str:
    name, moieties = group.names[0], " and ".join(group.moieties)
    also = "" if moieties.casefold() in ("", name.casefold()) else f" ({moieties})"
    labels = "1 label" if group.labels == 1 else f"{group.labels} labels"
    newest = "of" if group.labels == 1 else "the newest of"
    return f"{capitalise(name)}{also}, {labels}{f', {newest} {group.newest}' if group.newest else ''}:"


def _cited(statement: str, number: int) -> str:
    """Return a statement as a quotation with its citation; its further lines are items of a list."""
    first, *items = filter(None, map(quoted, statement.split("\n")))
    if not items:
        return f"{first} [{number}]."
    return "\n".join((f"{first} [{number}]:", *(f"- {item} [{number}]." for item in items)))
