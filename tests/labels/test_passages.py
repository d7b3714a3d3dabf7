"""How the blocks of a section become passages."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from fdarx_core.labels import parse_label
from fdarx_core.labels.passages import LONGEST_SENTENCE, MAX_WORDS, MIN_WORDS
from tests.conftest import EXAMPLES
from tests.labels.spl import FILLER, document, lines_of, passages_of, read, section


def words(count: int, start: str = "Word") -> str:
    return " ".join([start, *["word"] * (count - 1)])


def paragraphs(*texts: str) -> str:
    return "".join(f"<paragraph>{text}</paragraph>" for text in texts)


def test_a_passage_ends_before_a_heading() -> None:
    texts = ("First part", FILLER, "<content styleCode='bold'>Second part</content>", FILLER)
    assert passages_of(paragraphs(*texts)) == [f"First part\n{FILLER}", f"Second part\n{FILLER}"]


def test_short_fragments_join_their_neighbours() -> None:
    assert passages_of(paragraphs("Storage", "Keep dry.", "Handling", FILLER)) == [
        f"Storage\nKeep dry.\nHandling\n{FILLER}"
    ]
    assert passages_of(paragraphs(FILLER, "Closing", "Keep dry.")) == [f"{FILLER}\nClosing\nKeep dry."]


def test_a_short_section_is_a_short_passage() -> None:
    assert passages_of(paragraphs("None.")) == ["None."]
    texts = [one.text for one in read(document(section("None.", title="4") + section("None.", title="5")))[1]]
    assert texts == ["None.", "None."]


def test_a_passage_does_not_outgrow_the_bound() -> None:
    found = passages_of(paragraphs(*[words(100) + "."] * 5))
    assert [len(passage.split()) for passage in found] == [200, 200, 100]


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentences = [words(60, f"S{number}") + "." for number in range(8)]
    found = passages_of(paragraphs(" ".join(sentences)))
    assert " ".join(found) == " ".join(sentences)
    assert all(passage.endswith(".") and len(passage.split()) <= MAX_WORDS for passage in found)


def test_a_wall_of_text_is_cut_after_a_comma() -> None:
    wall = ", ".join([words(30)] * 40)
    found = passages_of(paragraphs(wall))
    assert " ".join(found) == wall
    assert all(passage.endswith(",") for passage in found[:-1])
    assert max(len(passage.split()) for passage in found) <= LONGEST_SENTENCE


def test_lists() -> None:
    inner = "<list><item>deep<list><item>deeper</item></list></item></list>"
    text = f"<list><caption>Take:</caption><item>one</item><item><caption>a.</caption>two {inner} after</item></list>"
    assert lines_of(text) == ["Take:", "- one", "- a. two", "  - deep", "    - deeper", "after"]


def test_items_of_several_paragraphs_and_of_a_table() -> None:
    grid = "<table><tbody><tr><td>a</td><td>b</td></tr></tbody></table>"
    text = f"<list><item><paragraph>one</paragraph><paragraph>more</paragraph></item><item>{grid}</item></list>"
    assert lines_of(text) == ["- one", "more", "- a | b"]


def test_blocks_inside_inline_content() -> None:
    text = "before<content>bold<paragraph>one</paragraph>between<list><item>two</item></list></content>after"
    assert lines_of(text) == ["before", "bold", "one", "between", "- two", "after"]


def test_links_and_revision_marks_leave_their_text() -> None:
    assert lines_of('See <linkHtml href="#x">5.1</linkHtml> <content revised="xmChange">now</content>.') == [
        "See 5.1 now."
    ]


def test_empty_items_and_images_leave_nothing() -> None:
    assert lines_of('<list><item/><item>one</item></list><renderMultiMedia referencedObject="x"/>') == ["- one"]


WORDS = st.text(alphabet="abcdefgh", min_size=1, max_size=6)
SENTENCES = st.lists(WORDS, min_size=1, max_size=30).map(lambda some: " ".join(some).capitalize() + ".")


def as_paragraph(text: str) -> str:
    return f"<paragraph>{text}</paragraph>"


def as_list(items: list[str]) -> str:
    return f"<list>{''.join(f'<item>{item}</item>' for item in items)}</list>"


BLOCKS = st.recursive(
    SENTENCES.map(as_paragraph) | SENTENCES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4).map(as_list)
        | st.lists(inner, min_size=1, max_size=3).map("<br/>".join)
        | inner.map(lambda one: f"<content styleCode='italics'>{one}</content>")
    ),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(blocks=st.lists(BLOCKS, min_size=1, max_size=12))
def test_every_word_is_kept_in_order(blocks: list[str]) -> None:
    source = "<br/>".join(blocks)
    found = passages_of(source)
    assert re.findall(r"\w+", "\n".join(found)) == re.findall(r"\w+", re.sub(r"<[^>]*>", " ", source))


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.lists(SENTENCES, min_size=1, max_size=30).map(" ".join), min_size=1, max_size=20))
def test_bounds(texts: list[str]) -> None:
    sizes = [len(passage.split()) for passage in passages_of(paragraphs(*texts))]
    assert all(size < MAX_WORDS + MIN_WORDS for size in sizes)
    assert len(sizes) == 1 or min(sizes) >= MIN_WORDS


def test_bounds_in_the_examples() -> None:
    for path in sorted(EXAMPLES.glob("*.xml")):
        by_section: dict[int, list[int]] = {}
        section_number = 0
        for passage in parse_label(path.read_bytes())[1]:
            section_number += passage.section_chunk_index == 0
            by_section.setdefault(section_number, []).append(len(passage.text.split()))
        for sizes in by_section.values():
            assert max(sizes) < LONGEST_SENTENCE
            assert len(sizes) == 1 or min(sizes) >= MIN_WORDS - 3
