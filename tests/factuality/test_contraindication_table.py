"""Contraindications of many labels together, by ingredient."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

from fdarx_core.factuality.safety import ContraindicationTable, contraindications_of
from fdarx_core.storage import Location
from tests.factuality.made_labels import label_of


def table() -> ContraindicationTable:
    texts = {
        "a": "TELVANTO is contraindicated in patients with known anuria and in pregnancy.",
        "b": "TELVANTO should not be given to patients with anuria.",
    }
    rows = []
    for set_id, text in texts.items():
        label, passages = label_of(text)
        rows += contraindications_of(replace(label, set_id=set_id), passages)
    other, passages = label_of("Otherol is contraindicated in patients with anuria.")
    other = replace(other, set_id="c", drug_name="Otherol", aliases=["Otherol"], substances=["otherol"], uniis=["X1"])
    return ContraindicationTable([*rows, *contraindications_of(other, passages)])


def test_labels_of_one_ingredient_are_put_together_with_who_says_it() -> None:
    first, second = table().of("ortavelin")
    assert (first.kind, first.labels, first.of_labels, first.set_ids) == ("condition", 2, 2, ["a", "b"])
    assert (second.subject, second.labels, second.set_ids) == ("pregnancy", 1, ["a"])
    assert "anuria" in first.subject


def test_a_drug_is_found_by_any_name_in_any_case() -> None:
    made = table()
    assert made.of("telvanto") == made.of("Ortavelin") == made.of("ORTAVELIN HYDROCHLORIDE")
    assert [entry.ingredients for entry in made.of("otherol")] == [["otherol"]]
    assert made.of("nothing") == []


def test_what_is_saved_is_loaded_again_and_reads_as_csv(tmp_path: Path) -> None:
    made = table()
    made.save(Location(tmp_path))
    assert ContraindicationTable.load(Location(tmp_path)).rows == made.rows
    rows = list(csv.DictReader(io.StringIO((tmp_path / "contraindications.csv").read_text())))
    assert [row["subject"] for row in rows] == [entry.subject for entry in made.entries]
    assert {row["set_ids"] for row in rows} == {"a; b", "a", "c"}
