"""The criteria of a review in its folder.

    REVIEW/criteria.table.csv      rejections and remarks by kind, with columns to fill in
    REVIEW/criteria.proposed.yaml  the criteria with the proposed change
    REVIEW/criteria.diff           what it changes
    REVIEW/criteria.txt            both agreements with people, and the items that are decided otherwise
    REVIEW/criteria.json           the same as data; written last
    REVIEW/responses/              what was asked and answered

A new proposal takes an earlier one's place; annotations and items are never touched.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.filters.criteria import read_criteria
from fdarx_core.llm import Criteria, HttpEndpoint, ResponseStore
from fdarx_core.review.agreement.votes import Voted
from fdarx_core.review.criteria.changes import PROPOSED, BadProposal, as_yaml, changed, diff
from fdarx_core.review.criteria.measuring import measured
from fdarx_core.review.criteria.propose_criteria import Change
from fdarx_core.review.criteria.remarks import groups
from fdarx_core.review.criteria.split import split
from fdarx_core.review.criteria.table import as_csv, is_filled_in, read_changes
from fdarx_core.review.criteria.telling import Trial, as_json, tell
from fdarx_core.review.criteria.trial import criteria_of, judge_twice, measurable, propose
from fdarx_core.review.items import Review
from fdarx_core.storage import Location, RunDirectory, StorageError

TABLE, DIFF, TOLD, DATA = "criteria.table.csv", "criteria.diff", "criteria.txt", "criteria.json"


@dataclass(frozen=True, slots=True)
class ReviewCriteria:
    """A review, the criteria that its run was judged by, and its items with votes: those to learn from, and those held
    out. Proposals are made from the former alone."""

    review: Review
    run: RunDirectory
    criteria: Criteria
    learned: list[Voted]
    held: list[Voted]
    seed: int

    @classmethod
    def of(cls, review: Review, voted: Sequence[Voted], *, share: float, seed: int) -> ReviewCriteria:
        """`share` of the questions is held out. Raises StorageError where the reviewed run is not there any more."""
        run = RunDirectory.open(str(review.info["run"]))
        learned, held = split([one for one in voted if one.annotations], share=share, seed=seed)
        return cls(review, run, criteria_of(run), learned, held, seed)

    def write_table(self) -> Location:
        """The table to fill in, of what may be learned from; returns where it stands.

        Raises StorageError where one stands that a person has filled in.
        """
        place = self.review.root / TABLE
        if place.exists() and is_filled_in(place.read_bytes().decode("utf-8", "replace")):
            raise StorageError(f"{place} has been filled in; give it with --table, or move it away for a new one")
        place.write_text(as_csv(groups(self.learned, self.criteria)))
        return place

    def filled_in(self, table: Location) -> list[Change]:
        """The changes that a person filled in. Raises BadProposal, also for a table that shows what is held out."""
        try:
            text = table.read_text()
        except UnicodeDecodeError as error:
            raise BadProposal(f"{table}: not UTF-8 text; save it as CSV in UTF-8") from error
        if any(f"[{one.item.id}]" in text for one in self.held):
            raise BadProposal(f"{table}: made with another --seed or --held-out, it shows items that are now held out")
        return read_changes(text, str(table))

    def proposed_by(self, endpoint: HttpEndpoint) -> list[Change]:
        """The changes that a model proposes. Raises BadProposal."""
        return propose(self.learned, self.criteria, endpoint, self._store())

    def write_trial(
        self, proposer: str, changes: Sequence[Change], judge: HttpEndpoint | None, *, resamples: int
    ) -> str:
        """Makes the changes, measures them where there is a judge, writes all of it; returns what is told.

        Raises BadProposal where the changes can't be made: then an earlier proposal still stands.
        """
        new = changed(self.criteria, changes)
        trial = Trial(proposer, changes, new)
        if judge is not None:
            held = measurable(self.held)
            judged, sent = judge_twice(self.run, held, (self.criteria, new), judge, self._store())
            found = measured(judged, seed=self.seed, resamples=resamples)
            trial = Trial(proposer, changes, new, judge.name, judged, found, sent)
        self._write(trial)
        return tell(trial)

    def _write(self, trial: Trial) -> None:
        root = self.review.root
        (root / PROPOSED).write_text(as_yaml(trial.proposed))
        (root / DIFF).write_text(diff(self.criteria, trial.proposed))
        (root / TOLD).write_text(tell(trial))
        about = {"review": self.review.digest, "seed": self.seed, "learned": len(self.learned), "held": len(self.held)}
        (root / DATA).write_text(json.dumps({**about, **as_json(trial)}, ensure_ascii=False, indent=1) + "\n")

    def _store(self) -> ResponseStore:
        return ResponseStore(self.review.root / "responses")

    @staticmethod
    def accept(review: Review, file: Location) -> None:
        """Writes the proposal that stands in the review to a new file, with its figures on top.

        Raises StorageError where there is none, or the file is there already, PromptError where it was edited wrongly.
        """
        proposal = review.root / PROPOSED
        if not (review.root / DATA).exists():
            raise StorageError(f"{review.root} holds no proposal; make one with --proposer or --table")
        if file.exists():
            raise StorageError(f"{file} is there already; choose another file, accepted criteria are not overwritten")
        about = json.loads((review.root / DATA).read_text())
        criteria = read_criteria(str(proposal))
        file.write_text(_headed(about, criteria) + as_yaml(criteria))


def _headed(about: dict[str, Any], criteria: Criteria) -> str:
    if criteria.model_dump() != about["proposed"]:
        lines = ["Edited after it was proposed; never measured as it stands."]
    else:
        lines = [*about["in_short"]] or ["Never measured."]
    return "".join(f"# {line}\n" for line in (f"Accepted from review {about['review']}.", *lines))
