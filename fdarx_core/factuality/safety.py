"""Safety flags of answers by the labels of their drugs, and the table of contraindications. Source: FAS §3.2, §4."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fdarx_core.baseline.dose_checks import AnswerDose, LabelAmounts, doses_in, lacks_dose
from fdarx_core.baseline.prohibition_subjects import kind_of, names_of, subjects_of
from fdarx_core.baseline.prohibitions import forbidden_by
from fdarx_core.baseline.safety_advice import (
    SubjectMatcher,
    asks_what_is_forbidden,
    compared,
    names_pattern,
    says_yes,
    warns,
)
from fdarx_core.baseline.sentences import sentence_spans
from fdarx_core.baseline.stems import canonical_names, stems
from fdarx_core.baseline.tokens import normalize, normalize_words
from fdarx_core.factuality.drug_names import DrugNameIndex
from fdarx_core.records import CheckedAnswer, Contraindication, Label, Passage, SafetyFlag, content_id
from fdarx_core.storage import Location, read_records, write_records
from fdarx_core.verify import TextPair, verify
from fdarx_core.verify.rules import recommendation_engine

_FORM = re.compile(r"\b(?:tablets?|capsules?|injection|suspension|solution|usp|extended-release|delayed-release)\b,?")


def contraindications_of(label: Label, passages: Sequence[Passage]) -> list[Contraindication]:
    """Return what the label's Contraindications (34070-3) and Boxed Warning (34066-1) forbid, in this order.

    What both forbid in the same terms is one row, of the first. "None.", headings and cross-references give none.
    """
    rows: dict[tuple[str, frozenset[str]], Contraindication] = {}
    for forbidden, phrases in forbidden_by(label, passages, own_names(label)):
        for phrase in phrases:
            for subject, part in subjects_of(phrase):
                kind = kind_of(subject, forbidden.lead)
                row = Contraindication(
                    id=content_id("contraindication", label.set_id, kind, subject),
                    set_id=label.set_id,
                    drug=label.drug_name,
                    aliases=list(label.aliases),
                    substances=list(label.substances),
                    uniis=list(label.uniis),
                    section=forbidden.section,
                    kind=kind,
                    subject=subject,
                    names=list(names_of(subject, part)),
                    statement=forbidden.statement,
                    marker=forbidden.marker,
                    source=label.source,
                )
                rows.setdefault((kind, key_of(subject, row.substances)), row)
    return list(rows.values())


def own_names(label: Label) -> re.Pattern[str]:
    """Return a pattern for all names of the label's drug, without salts and dosage forms, ignoring case."""
    return names_pattern((label.drug_name, *label.aliases, *label.substances))


def key_of(subject: str, substances: Sequence[str]) -> frozenset[str]:
    """Return the words by which two subjects are the same; the drug's name and form do not count."""
    text = _FORM.sub(" ", names_pattern(tuple(substances)).sub(" ", subject).lower())
    return frozenset(stems(canonical_names(normalize(text)))) - _SAYS_LITTLE


_SAYS_LITTLE = frozenset(stems("known patients previous previously prior history demonstrated active product drug any"))


PARQUET = "contraindications.parquet"
CSV = "contraindications.csv"


@dataclass(slots=True)
class IngredientContraindication:
    """A prohibition of the labels of the same active ingredients: `subject` and `statement` in the words of most of
    them.

    `labels` is the number of labels that say it, `set_ids` which; `of_labels` how many labels of these ingredients
    forbid anything. `sections` are the LOINC codes of where they say it.
    """

    ingredients: list[str]
    uniis: list[str]
    kind: str
    subject: str
    names: list[str]
    statement: str
    labels: int
    of_labels: int
    sections: list[str] = field(default_factory=list)
    set_ids: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)


class ContraindicationTable:
    """Rows of `contraindications_of` for any labels. Source: FAS (seed 002) §3.2 (the contraindication database)."""

    def __init__(self, rows: Iterable[Contraindication]) -> None:
        self.rows = list(rows)
        self._by_name: dict[str, set[frozenset[str]]] = defaultdict(set)
        self._by_ingredients: dict[frozenset[str], list[Contraindication]] = defaultdict(list)
        for row in self.rows:
            ingredients = _ingredients(row)
            self._by_ingredients[ingredients].append(row)
            for name in (row.drug, *row.aliases, *row.substances):
                self._by_name[normalize_words(name)].add(ingredients)

    @property
    def entries(self) -> list[IngredientContraindication]:
        """All prohibitions, by ingredient; those of most labels are first."""
        groups = sorted(self._by_ingredients.values(), key=lambda rows: _name(rows).casefold())
        return [entry for rows in groups for entry in _merged(rows)]

    def of(self, name: str) -> list[IngredientContraindication]:
        """Return what is forbidden for a drug, by its name, another name or an ingredient; case does not matter."""
        found = sorted(self._by_name.get(normalize_words(name), ()), key=sorted)
        return [entry for ingredients in found for entry in _merged(self._by_ingredients[ingredients])]

    def save(self, folder: Location) -> None:
        """Write `contraindications.parquet`, one row per label and subject, and `contraindications.csv` (`entries`)."""
        write_records(folder / PARQUET, self.rows, Contraindication)
        (folder / CSV).write_text(_as_csv(self.entries))

    @classmethod
    def load(cls, folder: Location) -> ContraindicationTable:
        """Read what `save` wrote. Raises `StorageError` where it is missing or damaged."""
        return cls(read_records(folder / PARQUET, Contraindication))


def _ingredients(row: Contraindication) -> frozenset[str]:
    """Return the codes, else the names, of all active ingredients, or the drug's name without them."""
    return frozenset(row.uniis or map(normalize_words, row.substances) or [normalize_words(row.drug)])


def _name(rows: list[Contraindication]) -> str:
    return ", ".join(rows[0].substances) or rows[0].drug


def _merged(rows: list[Contraindication]) -> list[IngredientContraindication]:
    alike: dict[tuple[str, frozenset[str]], list[Contraindication]] = defaultdict(list)
    for row in rows:
        alike[row.kind, key_of(row.subject, row.substances)].append(row)
    of_labels = len({row.set_id for row in rows})
    found = [_entry(same, of_labels) for same in alike.values()]
    return sorted(found, key=lambda one: (-one.labels, one.kind, one.subject))


def _entry(rows: list[Contraindication], of_labels: int) -> IngredientContraindication:
    subjects = [row.subject for row in rows]
    typical = max(rows, key=lambda row: (subjects.count(row.subject), row.subject))
    set_ids = sorted({row.set_id for row in rows})
    return IngredientContraindication(
        ingredients=list(typical.substances) or [typical.drug],
        uniis=sorted(typical.uniis),
        kind=typical.kind,
        subject=typical.subject,
        names=list(dict.fromkeys(name for row in rows for name in row.names)),
        statement=typical.statement,
        labels=len(set_ids),
        of_labels=of_labels,
        sections=sorted({row.section for row in rows}),
        set_ids=set_ids,
        aliases=sorted({alias for row in rows for alias in row.aliases}, key=str.casefold),
    )


def _as_csv(entries: Iterable[IngredientContraindication]) -> str:
    columns = ("ingredients", "uniis", "kind", "subject", "names", "statement", "labels", "of_labels", "sections")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*columns, "set_ids"])
    for entry in entries:
        writer.writerow([_cell(getattr(entry, column)) for column in (*columns, "set_ids")])
    return out.getvalue()


def _cell(value: object) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


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


class SafetyFlagger:
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
        self._amounts = {set_id: LabelAmounts(passages) for set_id, (_, passages) in kept.items()}
        self._rows = {set_id: contraindications_of(*pair) for set_id, pair in kept.items()}
        self._subjects: dict[str, SubjectMatcher] = {}
        self.drugs = DrugNameIndex(self._labels.values(), synonyms)

    @property
    def table(self) -> ContraindicationTable:
        """The contraindications of all labels."""
        return ContraindicationTable(row for rows in self._rows.values() for row in rows)

    def flags_of(self, answer: CheckedAnswer) -> list[SafetyFlag]:
        """Return all flags of an answer, in order; none if it failed or refused, or has no drug with a label."""
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

    def _gives(self, set_id: str, given: AnswerDose) -> bool:
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
        told = [(start, end, answer.answer[start:end]) for start, end in sentence_spans(answer.answer)]
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
        """Return the position of the first sentence that recommends the drug for what the row forbids."""
        subject = self._subject(row)
        verdicts = verify([TextPair(text, row.subject) for _, _, text in told], recommendation_engine(subject))
        for (start, end, text), verdict in zip(told, verdicts, strict=True):
            if verdict.verdict == "supported" and self._is_about(row, compared(text), own):
                return start, end
        if not subject.stands_in(question) or (row.kind == "drug" and _APART.search(question)):
            return None
        first, *others = (compared(text) for _, _, text in told)
        return told[0][:2] if says_yes(question, first) and not any(map(warns, others)) else None

    def _is_about(self, row: Contraindication, said: str, own: re.Pattern[str]) -> bool:
        """Return whether a sentence is about the drug, and also about the other drug if the row forbids one."""
        if _OTHER_CHOICE.search(said):
            return False
        if row.kind == "drug" and (not _TOGETHER.search(said) or _APART.search(said)):
            return False
        if own.search(said):
            return True
        others = [name for name in self.drugs.names_in(said) if not own.search(name)]
        return row.kind != "drug" and not others and bool(_REFERS.search(said)) and not _BY_ANOTHER.search(said)

    def _subject(self, row: Contraindication) -> SubjectMatcher:
        if row.id not in self._subjects:
            self._subjects[row.id] = SubjectMatcher(row.kind, row.subject, row.names, self._names([row.set_id]))
        return self._subjects[row.id]

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
