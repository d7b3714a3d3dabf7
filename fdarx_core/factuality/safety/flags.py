"""Safety flags: what in an answer may do harm, by the label of its drug. Source: FAS (seed 002) §3.2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fdarx_core.factuality.safety.advice import asks_what_is_forbidden, compared, permits, says_yes, spans, warns
from fdarx_core.factuality.safety.amounts import Amounts
from fdarx_core.factuality.safety.contraindications import contraindications_of, names_pattern
from fdarx_core.factuality.safety.doses import Given, doses_in, lacks_dose
from fdarx_core.factuality.safety.drugs import Drugs
from fdarx_core.factuality.safety.mentions import Mention
from fdarx_core.factuality.safety.table import ContraindicationTable
from fdarx_core.records import CheckedAnswer, Contraindication, Label, Passage, SafetyFlag

_LEAST_SHARE = 1 / 3
"""Of a drug's labels, where only its name is known: what fewer forbid may belong to another form of it."""
_OTHER_CHOICE = re.compile(
    r"\b(?:instead|alternatives?|other (?:drugs|medicines|medications|options|treatments)|such as)\b"
)
_TOGETHER = re.compile(
    r"\b(?:with|together|combin\w+|concomitant\w*|concurrent\w*|alongside|along|both|plus|same time|"
    r"co-?administ\w+|while|"
    r"taking|take|on)\b"
)
_REFERS = re.compile(
    r"\b(?:it|this|these|they|drug|medications?|medicines?|tablets?|capsules?|product|yes|you|(?:its|the) use|safe)\b|"
    r"^\W*(?:take|use|give|start|continue|prescribe|administer)\b"
)
_BY_ANOTHER = re.compile(r"\b(?:treated|managed|controlled) (?:with|by) (?!it\b|this\b|these\b|the drug)")
_APART = re.compile(r"\b(?:after|before|stopp\w*|discontinu\w*|days?|weeks?|wash\w*|wait\w*|switch\w*|hours?)\b")
_KIND = {
    "population": "contraindicated_population",
    "condition": "contraindicated_condition",
    "drug": "contraindicated_drug",
    "procedure": "contraindicated_condition",
}


class Safety:
    """Flags answers by the labels of their drugs.

    `labels` come with all their passages. `synonyms` are ingredients' names by names that no label has (`rxnav`).
    """

    def __init__(
        self,
        labels: Iterable[tuple[Label, Sequence[Passage]]],
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        kept = {label.set_id: (label, list(passages)) for label, passages in labels}
        self._labels = {set_id: label for set_id, (label, _) in kept.items()}
        self._amounts = {set_id: Amounts(passages) for set_id, (_, passages) in kept.items()}
        self._rows = {set_id: contraindications_of(*pair) for set_id, pair in kept.items()}
        self._mentions: dict[str, Mention] = {}
        self.drugs = Drugs(self._labels.values(), synonyms)

    @property
    def table(self) -> ContraindicationTable:
        """What the labels forbid."""
        return ContraindicationTable(row for rows in self._rows.values() for row in rows)

    def flags_of(self, answer: CheckedAnswer) -> list[SafetyFlag]:
        """All flags of an answer, in its order; none where it answers nothing, or names no drug with a label."""
        if answer.outcome != "answered" or not answer.answer.strip():
            return []
        drugs = self.drugs.of(answer)
        if len(drugs) != 1:
            # With several drugs it is not certain whose a dose is.
            flags = [flag for set_ids in drugs for flag in self._forbidden(answer, set_ids)]
        else:
            [set_ids] = drugs
            flags = [*self._missing(answer, set_ids), *self._unsupported(answer, set_ids)]
            flags += self._forbidden(answer, set_ids)
        return sorted(flags, key=lambda flag: (flag.start, flag.end, flag.kind, flag.subject))

    def _missing(self, answer: CheckedAnswer, set_ids: Sequence[str]) -> Iterator[SafetyFlag]:
        if lacks_dose(answer.question, answer.answer):
            for set_id in set_ids:
                said, marker = self._amounts[set_id].dosing
                if said:
                    yield self._flag(answer, "dose_missing", (0, 0), "dose", said, set_id, marker)
                    return

    def _unsupported(self, answer: CheckedAnswer, set_ids: Sequence[str]) -> Iterator[SafetyFlag]:
        own = self._own(set_ids)
        with_doses = [set_id for set_id in set_ids if self._amounts[set_id].has_any]
        if not with_doses:
            return
        for given in doses_in(answer.answer, answer.question, own):
            if not any(self._gives(set_id, given) for set_id in with_doses):
                start, end = given.start, given.end
                said, marker = self._amounts[with_doses[0]].dosing
                because = f"No passage of the label gives this dose. {said}".strip()
                subject = answer.answer[start:end]
                yield self._flag(answer, "dose_unsupported", (start, end), subject, because, with_doses[0], marker)

    def _gives(self, set_id: str, given: Given) -> bool:
        amounts = self._amounts[set_id]
        return amounts.give(given.dose, given.counts) or (
            given.overdose and amounts.of_overdose.give(given.dose, given.counts)
        )

    def _forbidden(self, answer: CheckedAnswer, set_ids: Sequence[str]) -> Iterator[SafetyFlag]:
        own = self._own(set_ids)
        raised: dict[tuple[str, int, int], list[Contraindication]] = {}
        question = compared(answer.question)
        if asks_what_is_forbidden(question):
            return
        told = [(start, end, compared(answer.answer[start:end])) for start, end in spans(answer.answer)]
        for row in (row for set_id in set_ids for row in self._rows[set_id]):
            if place := self._place(row, question, told, own):
                raised.setdefault((_KIND[row.kind], *place), []).append(row)
        for (kind, start, end), rows in raised.items():
            if len({row.set_id for row in rows}) >= _LEAST_SHARE * len(set_ids):
                row = rows[0]
                yield self._flag(answer, kind, (start, end), row.subject, row.statement, row.set_id, row.marker)

    def _place(
        self, row: Contraindication, question: str, told: Sequence[tuple[int, int, str]], own: re.Pattern[str]
    ) -> tuple[int, int] | None:
        """The first sentence that recommends the drug for what the row forbids, the question's subject included."""
        mention = self._mention(row)
        for start, end, said in told:
            if permits(said) and mention.stands_in(said) and self._is_about(row, said, own):
                return start, end
        asked = mention.stands_in(question) and (row.kind != "drug" or not _APART.search(question))
        if asked and says_yes(question, told[0][2]) and not any(warns(said) for _, _, said in told[1:]):
            return told[0][:2]
        return None

    def _is_about(self, row: Contraindication, said: str, own: re.Pattern[str]) -> bool:
        """Whether a sentence speaks of the drug itself, and of two together where the row forbids another."""
        if _OTHER_CHOICE.search(said):
            return False
        if row.kind == "drug" and (not _TOGETHER.search(said) or _APART.search(said)):
            return False
        if own.search(said):
            return True
        others = [name for name in self.drugs.names_in(said) if not own.search(name)]
        return row.kind != "drug" and not others and bool(_REFERS.search(said)) and not _BY_ANOTHER.search(said)

    def _mention(self, row: Contraindication) -> Mention:
        if row.id not in self._mentions:
            self._mentions[row.id] = Mention(row.kind, row.subject, row.names, self._names([row.set_id]))
        return self._mentions[row.id]

    def _names(self, set_ids: Sequence[str]) -> tuple[str, ...]:
        labels = [self._labels[set_id] for set_id in set_ids]
        names = (name for label in labels for name in (label.drug_name, *label.aliases, *label.substances))
        return tuple(dict.fromkeys(names))

    def _own(self, set_ids: Sequence[str]) -> re.Pattern[str]:
        return names_pattern(self._names(set_ids))

    def _flag(
        self,
        answer: CheckedAnswer,
        kind: str,
        span: tuple[int, int],
        subject: str,
        because: str,
        set_id: str,
        marker: str,
    ) -> SafetyFlag:
        start, end = span
        drug = self._labels[set_id].drug_name
        text = answer.answer[start:end]
        return SafetyFlag(answer.id, kind, start, end, text, drug, subject, because, set_id, marker)
