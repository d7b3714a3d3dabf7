"""The table of contraindications, made from the text of labels. Source: FAS §3.2."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import astuple, fields

from fdarx_core.baseline.stems import terms
from fdarx_core.factuality.drug_names import names_pattern
from fdarx_core.factuality.prohibition_subjects import kind_of, subjects_of
from fdarx_core.factuality.prohibitions import INTERACTIONS, TABLE, prohibitions_of
from fdarx_core.labels.loinc import DOSAGE_SECTION
from fdarx_core.records import Contraindication, Label, Passage, content_id
from fdarx_core.storage import Location, write_records

PARQUET = "contraindications.parquet"
CSV = "contraindications.csv"

_OTHER_DRUGS = (INTERACTIONS, DOSAGE_SECTION)
_DOSE = re.compile(r"^(?:\w+ ){0,5}dos(?:es?|ages?)\b", re.I)

Key = tuple[str, frozenset[str]]


def contraindications_of(
    label: Label, passages: Sequence[Passage], sections: Sequence[str] = TABLE
) -> list[Contraindication]:
    """Return what sections forbid: Contraindications (34070-3), Boxed Warning (34066-1), Drug Interactions (34073-7).

    Of Drug Interactions and of Dosage only other drugs count, and doses nowhere. What several sections forbid in the
    same terms is one row, of the first. "None.", headings and cross-references give none.
    """
    rows: dict[Key, Contraindication] = {}
    own = names_pattern((label.drug_name, *label.aliases, *label.substances))
    for one in prohibitions_of(label, passages, own, sections):
        for subject, exceptions in subjects_of(one.phrase):
            kind = kind_of(subject)
            if (one.section in _OTHER_DRUGS and kind != "drug") or _DOSE.search(subject):
                continue
            row = Contraindication(
                id=content_id("contraindication", label.set_id, kind, subject),
                set_id=label.set_id,
                drug=label.drug_name,
                aliases=list(label.aliases),
                substances=list(label.substances),
                uniis=list(label.uniis),
                section=one.section,
                kind=kind,
                subject=subject,
                statement=one.statement,
                marker=one.marker,
                source=label.source,
                exceptions=exceptions,
                strength=one.strength,
            )
            rows.setdefault(key_of(row), row)
    return list(rows.values())


def key_of(row: Contraindication) -> Key:
    """Return kind and words of a row, by which two rows forbid the same; the drug's name and form do not count."""
    text = names_pattern(tuple(row.substances)).sub(" ", row.subject).lower()
    words = terms(text) | frozenset(re.findall(r"\d+|severe|mild|moderate|not", text))
    return row.kind, words or frozenset([text])


def save_contraindications(rows: Sequence[Contraindication], folder: Location) -> None:
    """Write `contraindications.parquet` and `contraindications.csv`, with one row per label and subject."""
    write_records(folder / PARQUET, rows, Contraindication)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(one.name for one in fields(Contraindication))
    for row in rows:
        writer.writerow("; ".join(one) if isinstance(one, list) else one for one in astuple(row))
    (folder / CSV).write_text(out.getvalue())
