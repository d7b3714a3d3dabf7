"""Questions for several labels: the drugs that are found, and the answer with a row for each."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import fdarx_core as fdarx
from fdarx_core.rag.group_question import asks_for_labels
from fdarx_core.rag.label_groups import find_label_groups
from fdarx_core.records import LabelGroups
from fdarx_core.retrieval.index import ChunkFilter, IndexStore
from tests.rag.class_labels import PROFENS, class_chunks

ANY = ChunkFilter()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[fdarx.Index]:
    folder = str(tmp_path_factory.mktemp("classes"))
    store = IndexStore(folder)
    store.commit([store.write_segment(class_chunks())])
    yield fdarx.Index.open(folder)


def found(index: fdarx.Index, question: str, filter: ChunkFilter = ANY, most: int = 12) -> LabelGroups | None:
    mentions = index.reader.label_drugs.names.find(question)
    assert asks_for_labels(question, mentions)
    return find_label_groups(index.reader, question, filter, most)


def drugs(groups: LabelGroups | None) -> list[str]:
    return [group.moieties[0] for group in groups.groups] if groups else []


def test_drugs_of_a_class_are_those_whose_labels_say_so(index: fdarx.Index) -> None:
    groups = found(index, "Which NPRDs are in the collection?", most=20)
    # the labels of the plegines name the class, but as other drugs
    assert sorted(drugs(groups)) == sorted(PROFENS)
    assert groups and all("nonsteroidal pain relieving drug" in group.statements[0] for group in groups.groups)


def test_a_part_of_the_name_of_a_class_names_it(index: fdarx.Index) -> None:
    for question in ("Which NPRD drugs do you have?", "what nonsteroidal drugs do you have"):
        assert len(drugs(found(index, question, most=20))) == len(PROFENS)


def test_the_section_that_is_asked_for_must_say_it(index: fdarx.Index) -> None:
    groups = found(index, "Which of these labels contraindicate use in anuria?")
    assert drugs(groups) == ["widorel"]
    assert groups and (groups.drugs, groups.groups[0].labels, groups.groups[0].newest) == (1, 2, "2023-05-01")
    assert drugs(found(index, "which drugs have a boxed warning about fetal harm")) == ["alplegine", "beplegine"]
    assert found(index, "Which drugs have a boxed warning about gout?") is None


def test_an_abbreviation_of_the_question_is_what_the_labels_say_it_is(index: fdarx.Index) -> None:
    assert drugs(found(index, "Which drugs are indicated for relapsing NS?")) == ["alplegine", "beplegine"]


def test_labels_that_mention_a_drug_are_those_of_other_drugs(index: fdarx.Index) -> None:
    for question in ("which labels mention thinarol", "which drugs interact with thinarol"):
        groups = found(index, question)
        assert groups and (groups.drugs, groups.labels, len(groups.groups)) == (14, 14, 12)
        assert "thinarol" not in drugs(groups)


def test_a_filter_leaves_out_labels(index: fdarx.Index) -> None:
    groups = found(index, "which labels mention thinarol", ChunkFilter(labeler="Maker of kaloprofen"))
    assert drugs(groups) == ["kaloprofen"]
    assert found(index, "which labels mention thinarol", ChunkFilter(date_from="2030-01-01")) is None


@pytest.mark.parametrize(
    "question",
    [
        "What is the dose of thinarol?",
        "Does the label of widorel mention gout?",
        "Is widorel contraindicated in anuria?",
        "which patients should not take widorel",
        "and in renal impairment, what is the dose of alplegine?",
    ],
)
def test_a_question_on_one_drug_asks_for_no_groups(index: fdarx.Index, question: str) -> None:
    assert not asks_for_labels(question, index.reader.label_drugs.names.find(question))
    assert index.answer(question).groups == []


def test_the_answer_has_a_row_for_each_drug_and_says_how_many_more_match(index: fdarx.Index) -> None:
    answer = index.answer("Which NPRDs are in the collection?")
    assert len(answer.groups) == 12 and answer.matching_drugs == 14 and not answer.refused
    assert answer.text.endswith("Labels of 2 more drugs match.")
    assert not answer.gate.dropped and answer.gate.supported >= 12
    for group in answer.groups:
        [number] = group.citations
        context = answer.contexts[number - 1]
        assert context.moieties == list(group.moieties)
        row = next(part for part in answer.text.split("\n\n") if f"[{number}]" in part)
        assert row.startswith(f"{group.drug.capitalize()}, 1 label, of {group.newest}:\n")
        assert context.text.rstrip(".") in row


def test_items_of_a_list_are_cited(index: fdarx.Index) -> None:
    text = index.answer("Which of these labels contraindicate use in gout?").text
    assert re.search(
        r"2 labels, the newest of 2023-05-01:\n.*following patients \[1\]:\n- those with gout \[1\]\.$", text
    )


def test_words_that_no_label_says_are_named(index: fdarx.Index) -> None:
    answer = index.answer("Which quexanoids are indicated for relapsing NS?")
    assert [group.moieties for group in answer.groups] == [("alplegine",), ("beplegine",)]
    assert answer.text.endswith('No label has: "quexanoids".')


def test_a_class_that_no_label_says_of_its_drug_is_left_out_and_named(index: fdarx.Index) -> None:
    answer = index.answer("Which surgery drugs are indicated for relapsing NS?")
    assert [group.moieties for group in answer.groups] == [("alplegine",), ("beplegine",)]
    assert answer.text.endswith('No label was found to say of its drug: "surgery".')


def test_one_of_two_things_is_enough(index: fdarx.Index) -> None:
    assert drugs(found(index, "Which drugs are indicated for clots or raised pressure?")) == ["widorel", "thinarol"]
    assert drugs(found(index, "Which drugs are indicated for hiccups or raised pressure?")) == ["widorel"]


def test_forms_and_parts_of_words_are_found(index: fdarx.Index) -> None:
    assert drugs(found(index, "Which drugs have a boxed warning about harm in pregnant women?")) == [
        "alplegine",
        "beplegine",
    ]
    words = index.reader.passage_words
    assert "pregnancy" in words.forms("pregnant") and "surgery" not in words.forms("surgeon")
    [(first, second)] = words.compounds("nervesclerosis")
    assert (first, second) == ({"nerval"}, {"sclerosis"})


def test_a_medicine_without_a_label_is_looked_for_in_the_others(index: fdarx.Index) -> None:
    answer = index.answer("which labels mention ibuprofen")
    assert answer.groups == [] and "No label of ibuprofen is in this index." in answer.text
