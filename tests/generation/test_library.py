"""The libraries of question generation are whole: every name that one part of a file uses, another part defines."""

from __future__ import annotations

import re

from fdarx_core.generation.library import load_library, section_pairs
from fdarx_core.generation.topic_questions import topic_wordings
from fdarx_core.generation.topic_sections import SECTION_TOPICS, TOPIC_KINDS
from fdarx_core.generation.topics import all_topics

SECTIONS: dict[str, list[str]] = load_library("section_pairs")["sections"]


def test_section_pairs_are_of_known_roles_and_no_code_has_two_roles() -> None:
    codes = [code for listed in SECTIONS.values() for code in listed]
    assert len(codes) == len(set(codes))
    assert {role for pair in section_pairs() for role in (pair.a, pair.b)} <= SECTIONS.keys()
    assert len({(pair.a, pair.b) for pair in section_pairs()}) == len(section_pairs())


def test_every_kind_of_topic_has_several_wordings() -> None:
    wordings = load_library("topic_questions")
    assert wordings.keys() == TOPIC_KINDS.keys()
    assert wordings["section"].keys() == set(SECTION_TOPICS)
    listed = [one for kind, one in wordings.items() if kind != "section"] + list(wordings["section"].values())
    assert all(len(texts) == len(set(texts)) >= 4 for texts in listed)
    assert len({text for texts in listed for text in texts}) >= 60


def test_wordings_hold_the_names_that_are_put_in_and_no_other() -> None:
    for topic in all_topics():
        for text in topic_wordings(topic):
            expected = ["drug"] if topic.kind == "section" else ["drug", "term"]
            assert sorted(re.findall(r"{(\w+)}", text)) == expected, text
            assert text.endswith("?") and len(text) < 130
            assert " {drug} is" not in text and " is {drug}" not in text  # a product may be "Velorin tablets"
