"""Pairs that labels give for training a verifier, and their split by substance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fdarx_core.evaluation.verifier_scores import MarkedPair
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.tuning.verifier_training import aliases_of, changed_statements, label_pairs, split_by_substance
from fdarx_core.verify import verify
from jobs import cli
from tests.conftest import REPOSITORY

TEXT = "The recommended dose is 5 mg once daily. Zalvo is not recommended in adults with renal impairment."


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDirectory]:
    out = str(tmp_path_factory.mktemp("builds") / "build")
    labels = str(REPOSITORY / "examples" / "labels")
    assert cli.main(["build", "--labels", labels, "--out", out, "--executor", "local", "--quiet"]) == 0
    yield open_build(out)


def test_each_kind_of_change_contradicts_its_text() -> None:
    dose = dict(changed_statements("The recommended dose is 5 mg once daily.", TEXT, "0"))
    assert dose.keys() == {"number", "unit", "polarity"}
    assert dose["unit"] == "The recommended dose is 5 mcg once daily."
    assert dose["polarity"] == "The recommended dose is not 5 mg once daily."
    use = dict(changed_statements("Zalvo is not recommended in adults with renal impairment.", TEXT, "0"))
    assert use.keys() == {"polarity", "population"}
    assert "not recommended" not in use["polarity"] or "without" in use["polarity"]
    exact = verify([(TEXT, one) for one in (dose["number"], dose["unit"], dose["polarity"])], "exact")
    assert [one.verdict for one in exact] == ["undecided"] * 3


def test_an_amount_that_the_text_has_as_well_is_no_change() -> None:
    doses = "Take 5 mg, 10 mg, 15 mg, 50 mg or 2.5 mg, or 5 mcg."
    assert not {"number", "unit"} & dict(changed_statements("Take 5 mg.", doses, "0")).keys()


def test_labels_give_pairs_of_the_three_classes(build: RunDirectory) -> None:
    pairs = list(label_pairs(build, 0))
    marks = [one.mark for one in pairs]
    assert {"supported", "contradicted", "unsupported"} == set(marks)
    assert marks.count("supported") >= marks.count("contradicted") > 0
    supported = {one.statement: one.text for one in pairs if one.mark == "supported"}
    for one in pairs:
        assert one.text and one.drug == one.drug.lower()
        if one.mark == "contradicted":
            assert one.statement not in supported and one.text in supported.values()
        if one.mark == "unsupported":
            assert supported[one.statement] != one.text
    assert pairs == list(label_pairs(build, 0))


def test_a_substance_is_in_one_part_by_all_its_names(build: RunDirectory) -> None:
    aliases = aliases_of(build)
    drug = next(iter(aliases.values()))
    names = [name for name, substances in aliases.items() if substances == drug]
    pairs = [MarkedPair("text", f"statement {name}", "supported", "file", name.upper()) for name in names]
    pairs += [MarkedPair(f"text {number}", "statement", "unsupported", "file") for number in range(200)]
    parts, left_out = split_by_substance(pairs, 0, aliases)
    assert not left_out
    assert sum(any(one.drug == drug for one in held) for held in parts.values()) == 1
    assert sum(map(len, parts.values())) == len(pairs)


def test_pairs_that_no_part_can_take_are_counted() -> None:
    drugs = [MarkedPair("text", f"s{number}", "supported", "file", f"drug {number}") for number in range(200)]
    parts, _ = split_by_substance(drugs, 0, {})
    train, test = parts["train"][0].drug, parts["test"][0].drug
    both = MarkedPair("text", "both", "supported", "file", f"{train}; {test}")
    binary = [MarkedPair("text", "binary", mark, "other", train) for mark in ("not_supported", "supported")]
    again, left_out = split_by_substance([*drugs, both, *binary], 0, {})
    assert again == parts and left_out == {"several_parts": 1, "two_classes": 2}
    with pytest.raises(ValueError, match="part; give more drugs"):
        split_by_substance(drugs[:1], 0, {})
