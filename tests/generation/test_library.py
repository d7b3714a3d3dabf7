"""The libraries of question generation are whole: every name that one part of a file uses, another part defines."""

from __future__ import annotations

import re

from fdarx_core.generation.library import load_library, section_pairs
from fdarx_core.generation.multihop import MULTIHOP_KINDS, NAMED_TOPICS
from fdarx_core.generation.pairing import WORDINGS
from fdarx_core.generation.terminology import KINDS

SECTIONS: dict[str, list[str]] = load_library("section_pairs")["sections"]


def test_section_pairs_are_of_known_roles_and_no_code_has_two_roles() -> None:
    codes = [code for listed in SECTIONS.values() for code in listed]
    assert len(codes) == len(set(codes))
    assert {role for pair in section_pairs() for role in (pair.a, pair.b)} <= SECTIONS.keys()
    assert len({(pair.a, pair.b) for pair in section_pairs()}) == len(section_pairs())


def test_every_kind_of_topic_has_its_wordings() -> None:
    wordings = load_library("topic_questions")
    assert wordings.keys() == {*KINDS, *MULTIHOP_KINDS}
    for kind, listed in wordings.items():
        if isinstance(listed, dict):
            assert set(listed) == set(NAMED_TOPICS[kind])
        for texts in listed.values() if isinstance(listed, dict) else [listed]:
            assert len(texts) == len(set(texts)) == WORDINGS


def test_wordings_hold_the_names_that_are_put_in_and_no_other() -> None:
    for kind, listed in load_library("topic_questions").items():
        for texts in listed.values() if isinstance(listed, dict) else [listed]:
            for text in texts:
                slots = sorted(re.findall(r"{(\w+)}", text))
                compared = ["anchor"] if kind.endswith("comparison") else []
                assert slots == [*compared, "drug", "term"], text
                assert text.endswith("?") and len(text) < 130
