from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdarx_core.records import Label, QuestionAnswer
from fdarx_core.storage import RunDirectory, write_records
from fdarx_core.storage.splits import Splits, choose_splits
from tests.storage.test_benchmark_writer import label, question


def labels_of(drugs: dict[str, str], folder: Path, unasked: frozenset[str] = frozenset()) -> RunDirectory:
    """A build with a label of each drug by set id, in two parts, and a factual and a refusal question on each."""
    run = RunDirectory.begin(str(folder), job="build_benchmark", config={}, versions={})
    ids = sorted(drugs)
    for number, held in enumerate((ids[::2], ids[1::2])):
        labels = [label(set_id) for set_id in held]
        for one in labels:
            one.drug = drugs[one.set_id]
        asked = [question(one, kind, 1) for one in held if one not in unasked for kind in ("factual", "refusal")]
        write_records(run.part("labels", number), labels, Label)
        write_records(run.part("questions", number), asked, QuestionAnswer)
    return run


def drugs(count: int, labels_each: int = 2) -> dict[str, str]:
    return {f"label-{at:03d}-{copy}": f"UNII{at:03d}" for at in range(count) for copy in range(labels_each)}


def test_the_default_takes_one_of_twenty_drugs_and_five_at_most(tmp_path: Path) -> None:
    taken = {
        count: choose_splits(labels_of(drugs(count), tmp_path / str(count)), dev_drugs=None, seed=0)
        for count in (19, 20, 60, 200)
    }
    assert {count: splits.drugs for count, splits in taken.items()} == {19: 0, 20: 1, 60: 3, 200: 5}
    assert "19 drugs, fewer than 20; --dev-drugs makes one" in taken[19].note
    assert len(taken[60].dev) == 6 and not taken[60].note
    assert taken[60].questions == {"dev": {"factual": 6, "refusal": 6}, "test": {"factual": 114, "refusal": 114}}


def test_a_split_is_of_whole_drugs_whatever_the_seed_and_another_seed_takes_others(tmp_path: Path) -> None:
    held = drugs(60, labels_each=3)
    run = labels_of(held, tmp_path)
    chosen = [choose_splits(run, dev_drugs=4, seed=seed) for seed in range(5)]
    for splits in chosen:
        of_drug = {(drug, splits.of(set_id)) for set_id, drug in held.items()}
        assert Counter(split for _, split in of_drug) == {"dev": 4, "test": 56}
    assert len({splits.dev for splits in chosen}) > 1
    assert choose_splits(run, dev_drugs=4, seed=2) == chosen[2]


def test_a_combination_is_in_the_split_of_its_moieties(tmp_path: Path) -> None:
    held = drugs(40) | {"combined": "UNII001+UNII002", "also": "UNII002+UNII003"}
    run = labels_of(held, tmp_path)
    for seed in range(12):
        splits = choose_splits(run, dev_drugs=5, seed=seed)
        together = {splits.of(set_id) for set_id, drug in held.items() if {*drug.split("+")} & {"UNII001", "UNII002"}}
        assert len(together) == 1, seed


def test_labels_without_a_moiety_are_drugs_of_their_own(tmp_path: Path) -> None:
    splits = choose_splits(
        labels_of(dict.fromkeys((f"l{at:02d}" for at in range(40)), ""), tmp_path), dev_drugs=3, seed=0
    )
    assert (splits.drugs, len(splits.dev), splits.note) == (3, 3, "")


def test_what_was_asked_for_and_does_not_fit_is_said(tmp_path: Path) -> None:
    few = choose_splits(labels_of(drugs(8, labels_each=1), tmp_path / "few"), dev_drugs=3, seed=0)
    assert (few.drugs, len(few.dev)) == (1, 1)
    assert few.note.startswith("The dev split has 1 instead of 3 drugs: it takes a tenth of the labels, here 1,")
    large = choose_splits(labels_of(drugs(4, labels_each=9), tmp_path / "large"), dev_drugs=1, seed=0)
    assert not large.dev and large.note.startswith("There is no dev split: it takes")
    one = choose_splits(labels_of(drugs(1, labels_each=1), tmp_path / "one"), dev_drugs=1, seed=0)
    assert not one.dev and one.note
    none = choose_splits(labels_of(drugs(60), tmp_path / "none"), dev_drugs=0, seed=0)
    assert not none.dev and not none.note


def test_a_drug_without_questions_is_not_taken(tmp_path: Path) -> None:
    held = drugs(30, labels_each=1)
    asked = frozenset({"label-004-0", "label-017-0"})
    splits = choose_splits(labels_of(held, tmp_path, unasked=frozenset(held) - asked), dev_drugs=3, seed=0)
    assert splits.dev == asked and "2 instead of 3 drugs" in splits.note


def test_splits_are_kept_in_the_run_and_a_run_without_them_is_the_test_split(tmp_path: Path) -> None:
    splits = choose_splits(labels_of(drugs(40), tmp_path), dev_drugs=2, seed=0)
    kept = Splits.of_run({"splits": splits.summary()})
    assert (kept.dev, kept.drugs, kept.questions) == (splits.dev, 2, splits.questions)
    assert Splits.of_run({}).of("any") == "test"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moieties=st.lists(st.lists(st.sampled_from("ABCDEFGH"), max_size=3, unique=True), min_size=1, max_size=40),
    wanted=st.integers(0, 6),
    seed=st.integers(0, 5),
)
def test_no_moiety_is_in_both_splits(tmp_path: Path, moieties: list[list[str]], wanted: int, seed: int) -> None:
    held = {f"l{at:02d}": "+".join(sorted(one)) for at, one in enumerate(moieties)}
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    splits = choose_splits(labels_of(held, folder), dev_drugs=wanted, seed=seed)
    found = {split: {m for set_id, drug in held.items() if splits.of(set_id) == split for m in drug.split("+") if m}
             for split in ("test", "dev")}  # fmt: skip
    assert not found["test"] & found["dev"]
    assert len(splits.dev) <= max(1, len(held) // 10) and len(splits.dev) < len(held)
    assert splits.drugs <= wanted
