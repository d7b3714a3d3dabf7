"""Drugs as sets of active moieties, and the drugs that texts name: made labels, and real ones where they are."""

from __future__ import annotations

import pickle
import random
import zipfile
from collections import Counter
from functools import cache
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest
from rapidfuzz.distance import OSA

import fdarx_core as fdarx
from fdarx_core.labels import parse_document
from fdarx_core.labels.drugs import Drug, DrugNames, Mention, drug_of
from fdarx_core.labels.rxnorm import read_rxnorm
from fdarx_core.records import Label, Passage
from fdarx_core.storage import StorageError
from tests.conftest import EXAMPLES
from tests.labels.rrf import RXNCONSO, RXNREL
from tests.labels.spl import document, product, read, section, subject, substance

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TUNED, REPORTED = 0, 1
"""The halves of the moieties, by the hash of their names: bounds were chosen on the first."""


def made(name: str, generic: str, text: str, *ingredients: str) -> tuple[Label, list[str]]:
    one = product(name, generic, "1-1", "".join(ingredients))
    label, passages = read(document(section(f"<paragraph>{text}</paragraph>"), subject=subject(one)))
    return label, [passage.text for passage in passages]


def salt(moiety: str, salt: str = "hydrochloride") -> str:
    return substance(f"{moiety} {salt}".strip(), f"{moiety}-{salt}", moiety, moiety.upper())


LABELS = [
    made("Velora", "ortavelin", "Velora holds ortavelin. Keep the balance of salts with sodium.", salt("ortavelin")),
    made("Miran", "sertolone", "Miran is for pain relief today. See brelotine.", salt("sertolone", "sodium")),
    made("Today", "fexamide", "Today holds fexamide.", salt("fexamide", "")),
    made("Pain Relief", "sertalone", "It is taken today for pain, and for relief. A balance.", salt("sertalone", "")),
    made("Duo", "ortavelin and sertolone", "Both drugs, today.", salt("ortavelin"), salt("sertolone", "sodium")),
]
PRODUCTS = [(label.products, texts) for label, texts in LABELS]
NAMES = DrugNames(PRODUCTS)


def named(text: str, names: DrugNames = NAMES) -> list[tuple[str, list[str], bool]]:
    return [(one.text, one.moieties, one.exact) for one in names.find(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is the dose of VELORA®?", [("VELORA", ["ortavelin"], True)]),
        ("Ortavelin-hydrochloride or ortavelin", [("Ortavelin-hydrochloride", ["ortavelin"], True),
                                                   ("ortavelin", ["ortavelin"], True)]),
        ("sertolone sodium", [("sertolone sodium", ["sertolone"], True)]),
        ("Is Duo ortavelin and sertolone?", [("Duo", ["ortavelin", "sertolone"], True),
                                              ("ortavelin and sertolone", ["ortavelin", "sertolone"], True)]),
        ("Compare Velora with miran.", [("Velora", ["ortavelin"], True), ("miran", ["sertolone"], True)]),
        ("sodium and hydrochloride", []),
        ("", []),
    ],
)  # fmt: skip
def test_names_of_products_substances_and_moieties(text: str, found: list[tuple[str, list[str], bool]]) -> None:
    assert named(text) == found
    for one in NAMES.find(text):
        assert text[one.start : one.end] == one.text


@pytest.mark.parametrize("typo", ["velra", "veloora", "velura", "vleora", "ortavlein", "ortevelinn", "xrtavelin"])
def test_a_typing_error(typo: str) -> None:
    assert named(f"the dose of {typo}") == [(typo, ["ortavelin"], False)]


@pytest.mark.parametrize(
    "text",
    [
        "the dose of xelora",  # the first letter of a short name
        "the dose of sertxlone",  # as near to sertolone as to sertalone
        "the dose of brelotine",  # a word of a label
        "the dose of nelora",
        "the dose of ortav",
        "velora1",
    ],
)
def test_what_is_no_typing_error(text: str) -> None:
    assert named(text) == []


def test_two_names_within_two_edits_are_never_confused() -> None:
    assert named("sertolone, sertalone") == [("sertolone", ["sertolone"], True), ("sertalone", ["sertalone"], True)]


def test_a_product_is_known_by_the_first_word_of_its_name() -> None:
    more = [
        made("Mirsolve ER", "pelcanidine", "Mirsolve ER holds pelcanidine.", salt("pelcanidine", "")),
        made("Salts Forte", "fexamide", "Salts Forte holds fexamide.", salt("fexamide", "")),
        made("Rivan Plus", "ortavelin", "Rivan Plus holds ortavelin.", salt("ortavelin")),
        made("Rivan Cold", "sertolone", "Rivan Cold holds sertolone.", salt("sertolone")),
    ]
    names = DrugNames([*PRODUCTS, *((label.products, texts) for label, texts in more)])
    assert named("What is the dose of Mirsolve?", names) == [("Mirsolve", ["pelcanidine"], True)]
    assert named("mirsolve ER", names) == [("mirsolve ER", ["pelcanidine"], True)]
    assert named("Are Salts kept?", names) == [], "labels of other drugs have the word"
    assert named("Is Rivan safe?", names) == [], "products of two drugs begin with the word"


def test_a_name_that_is_an_ordinary_word_needs_capitals() -> None:
    assert named("What is known today on pain relief?") == []
    assert named("Today is a day.") == []
    assert named("Is Today taken with food?") == [("Today", ["fexamide"], True)]
    assert named("What is the dose of Pain Relief?") == [("Pain Relief", ["sertalone"], True)]


def test_words_of_other_documents_are_no_typing_errors() -> None:
    assert named("It is a miron.", DrugNames(PRODUCTS)) == [("miron", ["sertolone"], False)]
    assert named("It is a miron.", DrugNames([*PRODUCTS, ([], ["A miron is a bird."])])) == []


def test_a_drug_is_its_set_of_moieties() -> None:
    [combined] = NAMES.find("Duo")
    [drug] = combined.drugs
    assert drug == drug_of(*LABELS[4][0].products) == Drug(frozenset({"ORTAVELIN", "SERTOLONE"}))
    assert combined.uniis == ["ORTAVELIN", "SERTOLONE"]
    bare, _ = made("Bareol", "x", "", salt("nemol", "").replace("NEMOL", "").replace("nemol-", ""))
    assert drug_of(*bare.products) == Drug(frozenset({"nemol"}))


def test_further_names_are_used_where_labels_have_none() -> None:
    drug = Drug.of([("sertolone", "SERTOLONE")])
    names = DrugNames(PRODUCTS, [("Miravex", drug), ("Velora", drug)])
    assert named("miravex, velora", names) == [("miravex", ["sertolone"], True), ("velora", ["ortavelin"], True)]


def rxnorm(folder: Path, zipped: bool) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    files = {"rrf/RXNCONSO.RRF": RXNCONSO, "rrf/RXNREL.RRF": RXNREL}
    if zipped:
        with zipfile.ZipFile(folder / "RxNorm.zip", "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        return folder / "RxNorm.zip"
    (folder / "rrf").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("zipped", [False, True])
def test_names_of_rxnorm(tmp_path: Path, zipped: bool) -> None:
    found = {name: (drug.moieties, drug.uniis) for name, drug in read_rxnorm(rxnorm(tmp_path / "names", zipped))}
    one, both = (("kestrelol",), ("KESTRELOL UNII",)), (("kestrelol", "ortavelin"), ("KESTRELOL UNII", ""))
    assert found == {
        "kestrelol": one,
        "kestrelol besylate": one,
        "Kestra": one,
        "Kestra Duo": both,
        "ortavelin": (("ortavelin",), ("",)),
        "Ortabrand": (("ortavelin",), ("",)),
        "kestrelol / ortavelin": both,
    }
    duo = DrugNames(PRODUCTS, read_rxnorm(tmp_path / "names")).find("kestra duo")[0]
    assert duo.uniis == ["KESTRELOL UNII", "ORTAVELIN"]


def test_a_place_without_the_files_of_rxnorm(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="fdarx fetch --names"):
        read_rxnorm(tmp_path)


def test_drugs_of_a_text_by_labels_of_any_kind(example_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = fdarx.read_labels(EXAMPLES)
    monkeypatch.setenv("XDG_CACHE_HOME", str(example_build / "none"))
    for given in (EXAMPLES, str(EXAMPLES / "telvanto-tablets.xml"), example_build, labels):
        [found] = fdarx.find_drugs("How is telvnto taken?", given)
        assert (found.text, found.moieties, found.exact) == ("telvnto", ["ortavelin"], False)
        assert (found.start, found.end, len(found.uniis)) == (7, 14, 1)


def test_drugs_of_a_text_by_the_names_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    with pytest.raises(ValueError, match=r"give labels=…, or run `fdarx fetch --names`"):
        fdarx.find_drugs("Kestra")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rxnorm(tmp_path / "fdarx" / "names", zipped=True)
    assert [one.moieties for one in fdarx.find_drugs("Kestra, and kestrelol besylate")] == [["kestrelol"]] * 2
    assert [one.text for one in fdarx.find_drugs("Kestrra is kestrelal")] == ["kestrelal"]


def test_an_index_is_pickled() -> None:
    assert named("velra", pickle.loads(pickle.dumps(NAMES))) == named("velra")


@cache
def read_all(archive: Path) -> list[tuple[Label, list[Passage]]]:
    with zipfile.ZipFile(archive) as outer:
        inner = [zipfile.ZipFile(outer.open(name)) for name in outer.namelist()]
        return [parse_document(one.read(name)) for one in inner for name in one.namelist() if name.endswith(".xml")]


@cache
def real_names(archive: Path) -> DrugNames:
    return DrugNames((label.products, [one.text for one in passages]) for label, passages in read_all(archive))


def half_of(name: str) -> int:
    return int(sha256(name.encode()).hexdigest(), 16) % 2


def real_drugs(archive: Path) -> dict[str, list[str]]:
    """Brand, generic, substance and moiety names of one or two words, of at least five letters, with their moieties."""
    names = real_names(archive)
    found: dict[str, list[str]] = {}
    for label, _ in read_all(archive):
        for one in label.products:
            for name in {*one.names, *one.substances, *one.moieties} - {""}:
                [*mentions] = names.find(name)
                if len(name.split()) <= 2 and len(name) >= 5 and len(mentions) == 1 and mentions[0].text == name:
                    found[name.lower()] = mentions[0].moieties
    return found


def mistyped(name: str, source: random.Random) -> str:
    """The name with one letter lost, added, changed, or two swapped."""
    while True:
        at, letter = source.randrange(len(name)), source.choice(LETTERS)
        after = name[at + 1 :]
        kinds = [name[:at] + after, name[:at] + letter + name[at:], name[:at] + letter + after]
        typo = source.choice([*kinds, name[:at] + after[:1] + name[at] + after[1:]])
        if typo != name and name[at].isalpha() and not (after[:1] == " " and len(typo) == len(name)):
            return typo


@pytest.mark.slow
def test_real_names_with_a_typing_error(real_labels: Path) -> None:
    names, source, counts = real_names(real_labels), random.Random(0), Counter[str]()
    for name, moieties in sorted(real_drugs(real_labels).items()):
        if {half_of(one) for one in moieties} != {REPORTED}:
            continue
        for _ in range(8):
            found = [one for mention in names.find(f"the dose of {mistyped(name, source)}") for one in mention.moieties]
            counts["right" if {*found} == {*moieties} else "wrong" if {*found} - {*moieties} else "none"] += 1
    assert counts["right"] >= 0.93 * counts.total() > 500
    assert counts["wrong"] <= 0.002 * counts.total()


def test_real_names_within_two_edits_are_not_confused(real_labels: Path) -> None:
    names, drugs = real_names(real_labels), real_drugs(real_labels)
    near = [
        (one, other)
        for one, other in combinations(sorted(drugs), 2)
        if drugs[one] != drugs[other] and OSA.distance(one, other, score_cutoff=2) <= 2
    ]
    assert {("esomeprazole", "omeprazole"), ("fenoprofen", "ketoprofen")} <= {*near}
    for pair in near:
        for name in pair:
            assert named(f"the dose of {name}", names) == [(name, drugs[name], True)]


def test_names_of_drugs_that_the_labels_lack_are_no_typing_errors(real_labels: Path) -> None:
    def half(label: Label) -> set[int]:
        return {half_of(one) for one in drug_of(*label.products).moieties}

    read_half = [(label, passages) for label, passages in read_all(real_labels) if half(label) == {TUNED}]
    names = DrugNames((label.products, [one.text for one in passages]) for label, passages in read_half)
    absent = [name for name, found in real_drugs(real_labels).items() if {half_of(one) for one in found} == {REPORTED}]
    mentions = [mention for name in absent for mention in names.find(f"the dose of {name}")]
    assert len(absent) > 50 and not [one for one in mentions if not one.exact]


def test_words_of_label_text_are_seldom_taken_for_typing_errors(real_labels: Path) -> None:
    names, source = real_names(real_labels), random.Random(0)
    texts = [one.text for _, passages in read_all(real_labels) for one in passages]
    sentences = [line for text in source.sample(texts, 1500) for line in text.split(". ")]
    misspelt: list[Mention] = [one for line in sentences for one in names.find(line) if not one.exact]
    assert len(misspelt) <= len(sentences) / 500
