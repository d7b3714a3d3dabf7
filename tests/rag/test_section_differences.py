"""What differs between a section of two labels."""

from __future__ import annotations

from fdarx_core.rag.section_differences import SectionDifference, section_differences
from fdarx_core.records import LabelVersion, Product
from fdarx_core.retrieval.index.label_drugs import names_of_label

FIRST = "Velocimab is a tablet.\nTake velocimab 10 mg twice a day.\nDo not crush it."
SECOND = "Ostrelin is a tablet.\nTake OSTRELIN  SODIUM 20 mg twice a day.\nDo not crush it.\nShake the bottle."


def test_sentences_that_differ_are_returned_in_order() -> None:
    second = {"Ostrelin"} | names_of_label(
        LabelVersion(products=[Product(["Ostrelin"], ["ostrelin sodium"], [""], ["x"])])
    )
    assert second == {"Ostrelin", "ostrelin sodium", "x"}
    assert section_differences(FIRST, SECOND, ["Velocimab"], second) == [
        SectionDifference("Take velocimab 10 mg twice a day.", "Take OSTRELIN  SODIUM 20 mg twice a day."),
        SectionDifference("", "Shake the bottle."),
    ]


def test_texts_that_differ_in_case_space_and_own_name_are_the_same() -> None:
    assert (
        section_differences(FIRST, FIRST.upper().replace("VELOCIMAB", "New  Name"), ["velocimab"], ["NEW  NAME"]) == []
    )
    assert section_differences("", "", [], []) == []


def test_name_of_the_other_drug_is_a_difference() -> None:
    assert section_differences("Not with ostrelin.", "Not with velocimab.", ["velocimab"], ["ostrelin"])
