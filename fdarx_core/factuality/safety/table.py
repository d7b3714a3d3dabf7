"""The contraindications of many labels, put together by active ingredient, with the labels that say each."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from fdarx_core.factuality.safety.contraindications import key_of
from fdarx_core.filters.text import plain
from fdarx_core.records import Contraindication
from fdarx_core.storage import Location, read_records, write_records

PARQUET = "contraindications.parquet"
CSV = "contraindications.csv"


@dataclass(slots=True)
class IngredientContraindication:
    """What labels of the same active ingredients forbid alike: `subject` and `statement` in the words of most of them.

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
                self._by_name[plain(name)].add(ingredients)

    @property
    def entries(self) -> list[IngredientContraindication]:
        """All that is forbidden, by ingredient; what most labels say first."""
        groups = sorted(self._by_ingredients.values(), key=lambda rows: _name(rows).casefold())
        return [entry for rows in groups for entry in _merged(rows)]

    def of(self, name: str) -> list[IngredientContraindication]:
        """What is forbidden for a drug by its name, another name of it or an ingredient, in any spelling of case."""
        found = sorted(self._by_name.get(plain(name), ()), key=sorted)
        return [entry for ingredients in found for entry in _merged(self._by_ingredients[ingredients])]

    def save(self, folder: Location) -> None:
        """Writes `contraindications.parquet`, a row a label and subject, and `contraindications.csv`, `entries`."""
        write_records(folder / PARQUET, self.rows, Contraindication)
        (folder / CSV).write_text(_as_csv(self.entries))

    @classmethod
    def load(cls, folder: Location) -> ContraindicationTable:
        """What `save` wrote. Raises `StorageError` where it is missing or damaged."""
        return cls(read_records(folder / PARQUET, Contraindication))


def _ingredients(row: Contraindication) -> frozenset[str]:
    """Codes, else names, of all active ingredients; the drug's name where the label gives neither."""
    return frozenset(row.uniis or map(plain, row.substances) or [plain(row.drug)])


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
