"""Labels of invented drugs for the safety checks: the examples, and sections as labels write them."""

from __future__ import annotations

from functools import cache

from fdarx_core.factuality.contraindications import contraindications_of
from fdarx_core.labels import parse_document
from fdarx_core.records import Contraindication, Label, Passage, Section
from tests.conftest import EXAMPLES

CONTRAINDICATIONS = "34070-3"
BOXED_WARNING = "34066-1"


@cache
def examples() -> tuple[tuple[Label, list[Passage]], ...]:
    return tuple(parse_document(file.read_bytes(), file.name) for file in sorted(EXAMPLES.glob("*.xml")))


def label_of(*texts: str, code: str = CONTRAINDICATIONS) -> tuple[Label, list[Passage]]:
    """A label of ortavelin (TELVANTO) with one section, a passage a text."""
    title = "CONTRAINDICATIONS" if code == CONTRAINDICATIONS else "BOXED WARNING"
    template = next(label for label, _ in examples() if label.drug_name == "TELVANTO")
    passages = [Passage("made", at, at, code, code, "4", title, title, text) for at, text in enumerate(texts)]
    sections = [Section(code, code, "4", title, title, 0)]
    fields = {name: getattr(template, name) for name in template.__slots__}
    return Label(**fields | {"set_id": "made", "sections": sections}), passages


def forbidden_in(*texts: str, code: str = CONTRAINDICATIONS) -> list[Contraindication]:
    return contraindications_of(*label_of(*texts, code=code))


def subjects_in(*texts: str, code: str = CONTRAINDICATIONS) -> list[tuple[str, str]]:
    """Kind and subject of each row."""
    return [(row.kind, row.subject) for row in forbidden_in(*texts, code=code)]
