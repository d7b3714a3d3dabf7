"""The contraindications of one label, one row a forbidden thing. Source: FAS (seed 002) §3.2, §4."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from fdarx_core.evaluation.baseline.grading_plain import plain
from fdarx_core.evaluation.baseline.grading_words import one_name, stems
from fdarx_core.factuality.safety.forbidding import forbidden_by
from fdarx_core.factuality.safety.kinds import kind_of
from fdarx_core.factuality.safety.names import names_of
from fdarx_core.factuality.safety.subjects import subjects_of
from fdarx_core.records import Contraindication, Label, Passage, content_id

_SALT = re.compile(
    r"\b(?:sodium|potassium|calcium|magnesium|hydrochloride|hcl|tromethamine|maleate|besylate|sulfate|"
    r"acetate|phosphate|"
    r"mesylate|tartrate|bitartrate|succinate|oxalate|citrate|fumarate|tablets?|capsules?|injection|solution|usp|"
    r"anhydrous|monohydrate|dihydrate|er|xr|dr|delayed|extended|release|oral|ophthalmic|chewable|suspension|and|for)\b",
    re.IGNORECASE,
)
_FORM = re.compile(r"\b(?:tablets?|capsules?|injection|suspension|solution|usp|extended-release|delayed-release)\b,?")


def contraindications_of(label: Label, passages: Sequence[Passage]) -> list[Contraindication]:
    """What the label's Contraindications (34070-3) and Boxed Warning (34066-1) forbid, in the order of these.

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
    """Finds any name of the label's drug in a text, salts and forms left out, ignoring case."""
    return names_pattern((label.drug_name, *label.aliases, *label.substances))


@lru_cache(maxsize=4096)
def telling_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names in lower case, each as it is, without salt and form, and by its long words."""
    wanted: dict[str, None] = {}
    for name in names:
        bare = without_salts(name)
        for one in (name.strip(), bare, *re.findall(r"[A-Za-z]{5,}", bare)):
            if len(one) > 3:
                wanted[one.lower()] = None
    return tuple(wanted)


@lru_cache(maxsize=4096)
def names_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of the `telling_names`, ignoring case; nothing where none tells."""
    several = "|".join(re.escape(one) for one in sorted(telling_names(names), key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{several})(?!\w)", re.IGNORECASE) if several else re.compile(r"(?!)")


def without_salts(name: str) -> str:
    """A drug's name without the salt, the form and words of the form: "Naproxen Sodium Tablets" is "Naproxen"."""
    return " ".join(_SALT.sub(" ", name).split()).strip(" ,/-")


def key_of(subject: str, substances: Sequence[str]) -> frozenset[str]:
    """What makes two subjects the same: their telling words, but for the drug's own name and form."""
    text = _FORM.sub(" ", names_pattern(tuple(substances)).sub(" ", subject).lower())
    return frozenset(stems(one_name(plain(text)))) - _SAYS_LITTLE


_SAYS_LITTLE = frozenset(stems("known patients previous previously prior history demonstrated active product drug any"))
