"""The splits of a benchmark: the labels of a few drugs are the dev split, all others the test split."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fdarx_core.records import content_id
from fdarx_core.storage.run_directory import RunDirectory

TEST, DEV = "test", "dev"
SPLITS = (TEST, DEV)
SplitChoice = Literal["test", "dev", "all"]
"""A split, or all questions."""

_MOST_DRUGS = 5
_DRUGS_PER_DEV_DRUG = 20
_LABELS_PER_DEV_LABEL = 10


@dataclass(frozen=True, slots=True)
class Splits:
    """The labels of the dev split, by set id; every other label is in the test split.

    Attributes:
        dev: the set ids of the dev split.
        drugs: the number of its drugs.
        note: why the dev split is empty or smaller than asked for, "" if neither is the case.
        questions: the numbers of questions by type, for each split.
    """

    dev: frozenset[str] = frozenset()
    drugs: int = 0
    note: str = ""
    questions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, info: Mapping[str, Any]) -> Splits:
        """Return the splits that `run.json` of a build has. In a build without them, all labels are the test split."""
        kept = info.get("splits", {})
        return cls(
            frozenset(kept.get("dev_labels", ())), kept.get("dev_drugs", 0), kept.get("note", ""),
            kept.get("questions", {}),
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """Return the splits as JSON values, for `run.json`."""
        questions = {split: dict(types) for split, types in self.questions.items()}
        return {"dev_labels": sorted(self.dev), "dev_drugs": self.drugs, "note": self.note, "questions": questions}

    def of(self, set_id: str) -> str:
        """Return the split of a label."""
        return DEV if set_id in self.dev else TEST

    def has(self, split: SplitChoice, set_id: str) -> bool:
        """Return whether a label belongs to a split, or whether all labels are wanted."""
        return split in ("all", self.of(set_id))


@dataclass(slots=True)
class _DrugGroup:
    """Drugs that have moieties in common, directly or through others, with their labels."""

    drugs: set[str] = field(default_factory=set)
    labels: list[str] = field(default_factory=list)
    questions: int = 0


def choose_splits(run: RunDirectory, *, dev_drugs: int | None, seed: int) -> Splits:
    """Choose the dev split of a build by a hash of the seed and the moiety.

    All labels with a moiety are in the same split, those of combinations too. The dev split has at most a tenth of the
    labels (of fewer than 20 labels, one), and only drugs with questions.

    Args:
        run: the build with its labels and questions.
        dev_drugs: the number of drugs to choose; None: one of every 20 drugs, five at most.
        seed: the seed of the build.
    """
    asked = Counter(run.rows("questions", "set_id", "type"))
    labels: dict[str, str] = dict(run.rows("labels", "set_id", "drug"))
    groups = _grouped_by_moiety(labels, Counter(set_id for set_id, _ in asked.elements()))
    drugs = sum(len(group.drugs) for group in groups.values())
    wanted = min(_MOST_DRUGS, drugs // _DRUGS_PER_DEV_DRUG) if dev_drugs is None else dev_drugs
    order = sorted(groups, key=lambda moiety: content_id("dev", str(seed), moiety))
    most = min(len(labels) - 1, max(1, len(labels) // _LABELS_PER_DEV_LABEL))
    chosen = _DrugGroup()
    for group in (groups[moiety] for moiety in order):
        fits = len(chosen.labels) + len(group.labels) <= most
        if group.questions and fits and len(chosen.drugs) + len(group.drugs) <= wanted:
            chosen.drugs |= group.drugs
            chosen.labels += group.labels
    note = ""
    if dev_drugs is None and not wanted:
        few = f"the labels are of {drugs} drugs, fewer than {_DRUGS_PER_DEV_DRUG}"
        note = f"There is no dev split, as {few}; --dev-drugs makes one"
    elif len(chosen.drugs) != wanted:
        found = f"The dev split has {len(chosen.drugs)} instead of {wanted} drugs"
        note = (
            f"{found if chosen.drugs else 'There is no dev split'}: it takes a tenth of the labels, here {most}, only "
            "drugs with questions, and drugs with common moieties only together"
        )
    dev = frozenset(chosen.labels)
    questions: dict[str, Counter[str]] = defaultdict(Counter)
    for (set_id, kind), number in asked.items():
        questions[DEV if set_id in dev else TEST][kind] += number
    return Splits(dev, len(chosen.drugs), note, questions)


def _grouped_by_moiety(labels: Mapping[str, str], asked: Mapping[str, int]) -> dict[str, _DrugGroup]:
    """Return the groups of drugs with common moieties, by the first moiety of each.

    A label without an active moiety is a drug of its own.
    """
    parent: dict[str, str] = {}

    def root(moiety: str) -> str:
        while parent.setdefault(moiety, moiety) != moiety:
            moiety = parent[moiety]
        return moiety

    moieties = {set_id: drug.split("+") if drug else [set_id] for set_id, drug in labels.items()}
    for of_label in moieties.values():
        first, *others = map(root, of_label)
        least = min([first, *others])
        parent.update(dict.fromkeys([first, *others], least))
    groups: dict[str, _DrugGroup] = defaultdict(_DrugGroup)
    for set_id, drug in labels.items():
        group = groups[root(moieties[set_id][0])]
        group.drugs.add(drug or set_id)
        group.labels.append(set_id)
        group.questions += asked.get(set_id, 0)
    return groups
