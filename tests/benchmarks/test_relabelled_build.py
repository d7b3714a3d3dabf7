"""Labels under other names, on which builds of more labels than there are real ones are measured."""

from __future__ import annotations

import re

import pytest

from benchmarks.relabelled_build import relabelled
from fdarx_core.labels import parse_document
from tests.conftest import EXAMPLES

DOCUMENT = (EXAMPLES / "telvanto-tablets.xml").read_bytes()


def test_a_copy_is_a_label_of_another_drug_with_the_same_passages() -> None:
    first, passages = parse_document(DOCUMENT)
    copy, copied = parse_document(relabelled(DOCUMENT, 3))
    assert copy.set_id != first.set_id and copy.drug != first.drug
    assert not {*copy.aliases, *copy.substances} & {*first.aliases, *first.substances}
    assert [one.core_code for one in copied] == [one.core_code for one in passages]
    own = re.compile(rf"\b{re.escape(first.drug_name.split()[0])}\b", re.IGNORECASE)
    assert any(own.search(one.text) for one in passages)
    assert not any(own.search(one.text) for one in copied)


def test_labels_of_a_drug_stay_labels_of_one_drug_and_copies_differ() -> None:
    drugs = [parse_document(relabelled(DOCUMENT, copy))[0].drug for copy in (0, 1, 1, 27)]
    assert drugs[1] == drugs[2] and len(set(drugs)) == 3


@pytest.mark.parametrize("document", [b"not a label", b"<document/>"])
def test_what_is_no_label_is_copied_as_it_is(document: bytes) -> None:
    assert relabelled(document, 1) == document
    assert relabelled(DOCUMENT, 0) == DOCUMENT
