"""Invented labels of drugs in classes."""

from __future__ import annotations

from fdarx_core.records import Chunk, LabelVersion, Product

INDICATED, BOXED, CONTRAINDICATED = "34067-9", "34066-1", "34070-3"
INTERACTIONS, MECHANISM, WARNINGS = "34073-7", "43679-0", "43685-7"
_TITLES = {
    INDICATED: "INDICATIONS AND USAGE",
    BOXED: "BOXED WARNING",
    CONTRAINDICATED: "CONTRAINDICATIONS",
    INTERACTIONS: "DRUG INTERACTIONS",
    MECHANISM: "MECHANISM OF ACTION",
    WARNINGS: "WARNINGS AND PRECAUTIONS",
}
PROFENS = [f"{stem}profen" for stem in ("kalo", "melo", "nivo", "oru", "piva", "quelo", "rumo", "silo", "tavo", "uro")]
PROFENS += [f"{stem}profen" for stem in ("vano", "weto", "xilo", "yaro")]
"""Fourteen drugs of one class."""


def _label(set_id: str, drug: str, date: str, passages: list[tuple[str, str]]) -> list[Chunk]:
    product = Product([drug.upper(), drug], [drug], [""], [drug], [""])
    label = LabelVersion(1, date, "34391-3", f"Maker of {drug}", [drug], [""], [product], ["NDA"])
    return [
        Chunk(
            f"{set_id}-{at}", set_id, drug, "", _TITLES[code], text, at, -1, set_id, drug, code, None if at else label
        )
        for at, (code, text) in enumerate(passages)
    ]


def class_chunks() -> list[Chunk]:
    """Return the chunks of the labels: fourteen profens, two plegines, a dilator, and a thinner."""
    chunks: list[Chunk] = []
    for at, drug in enumerate(PROFENS):
        passages = [
            (MECHANISM, f"{drug.capitalize()} is a nonsteroidal pain relieving drug (NPRD) that inhibits the enzyme."),
            (INTERACTIONS, f"The effects of thinarol on bleeding are increased by {drug}."),
        ]
        chunks += _label(f"profen-{at}", drug, f"20{at + 10}-01-01", passages)
    for at, drug in enumerate(("alplegine", "beplegine")):
        passages = [
            (INDICATED, f"{drug.capitalize()} is indicated for relapsing forms of nerval sclerosis (NS) in adults."),
            (BOXED, "Exposure during pregnancy can cause fetal harm."),
            (WARNINGS, "NPRDs may reduce its effect in patients with anuria."),
        ]
        chunks += _label(f"plegine-{at}", drug, f"2020-0{at + 1}-01", passages)
    dilator = [
        (INDICATED, "Widorel is indicated for raised pressure."),
        (CONTRAINDICATED, "Widorel is contraindicated in anuria and in the following patients:\n- those with gout."),
    ]
    chunks += _label("dilator-0", "widorel", "2021-05-01", dilator)
    chunks += _label("dilator-1", "widorel", "2023-05-01", dilator)
    thinner = [
        (INDICATED, "Thinarol is indicated for clots."),
        (INTERACTIONS, "Thinarol bleeds more with drugs for pain; thinarol is stopped before surgery."),
    ]
    return chunks + _label("thinner-0", "thinarol", "2022-01-01", thinner)
