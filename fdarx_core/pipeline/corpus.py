"""From inputs to the labels to build from: found, identified, selected, and every other one accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from fdarx_core.labels import Identity, Selection, select
from fdarx_core.labels.sources import Inputs
from fdarx_core.pipeline.flow import identify_all
from fdarx_core.records import Reject, StageCount

Progress = Callable[[str, int, int, list[StageCount]], None]
"""Called with a phase, how much of it is done, of how much, and the accounts so far."""


class EmptySelection(ValueError):
    """Nothing was left to build from. The message says what was found and why it was not taken."""


@dataclass(slots=True)
class Corpus:
    """The chosen labels by set id, the rejects and accounts of choosing them, and set ids asked for but not found.

    `digest` stands for the chosen labels: their set ids and the bytes of their files.
    """

    labels: list[Identity]
    rejects: list[Reject]
    counts: list[StageCount]
    not_found: list[str]

    @property
    def digest(self) -> str:
        return sha256("".join(sorted(f"{one.set_id}:{one.sha256}" for one in self.labels)).encode()).hexdigest()


def choose_labels(inputs: Inputs, selection: Selection, progress: Progress) -> Corpus:
    """Identify all documents of the inputs and select among them. Raises EmptySelection when none is left."""
    found, rejects, counts = _identify(inputs, progress)
    chosen, unselected = select(found, selection)
    counts.append(StageCount("select", len(found), len(chosen), len(unselected), len(chosen)))
    rejects = sorted(rejects + unselected, key=lambda one: (one.stage, one.reason, one.id, one.source))
    if not chosen:
        raise EmptySelection(_why_empty(rejects))
    return Corpus(chosen, rejects, counts, sorted(selection.set_ids - {one.set_id for one in found}))


def _identify(inputs: Inputs, progress: Progress) -> tuple[list[Identity], list[Reject], list[StageCount]]:
    found: list[Identity] = []
    rejects = list(inputs.rejects)
    done = 0
    for block in identify_all(inputs.sources):
        found.extend(block.identities)
        rejects.extend(block.rejects)
        done += block.sources
        progress("identify", done, len(inputs.sources), [])
    unread = sum(reject.stage == "read" for reject in rejects)
    read = len(found) + len(rejects) - unread
    counts = [
        StageCount("read", read + unread, read, unread, read),
        StageCount("identify", read, len(found), len(rejects) - unread, len(found)),
    ]
    return found, rejects, counts


def _why_empty(rejects: Sequence[Reject]) -> str:
    listed = ", ".join(f"{count} {reason}" for reason, count in _tally(rejects)) or "no document was found"
    return f"no label is left to build from ({listed}); see --document-types, --exclude-routes and --set-ids"


def _tally(rejects: Iterable[Reject]) -> list[tuple[str, int]]:
    reasons: dict[str, int] = {}
    for reject in rejects:
        reasons[reject.reason] = reasons.get(reject.reason, 0) + 1
    return sorted(reasons.items())
