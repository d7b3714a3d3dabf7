"""Text blocks: inline marks, passages and Highlights."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.labels import parse_document
from fdarx_core.labels.parse import LONGEST_SENTENCE, MAX_WORDS, MIN_WORDS
from fdarx_core.records import Highlight
from tests.conftest import EXAMPLES
from tests.labels.spl import FILLER, cells, document, lines_of, passages_of, read, section, table


def paragraph(content: str) -> str:
    return "\n".join(lines_of(f"<paragraph>{content}</paragraph>"))


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("for 4 weeks<sup>1</sup>.", "for 4 weeks [1]."),
        ("4.8%<sup>2</sup>", "4.8% [2]"),
        ("12<sup>1,2</sup> more", "12 [1,2] more"),
        ("0.9 <sup>3</sup>", "0.9 [3]"),
        ("Dose<sup>a</sup>", "Dose [a]"),
        ("Dose<sup>a,b</sup>", "Dose [a,b]"),
        ("Dose<sup>1</sup>and", "Dose [1] and"),
        ("rate<sup>*</sup>", "rate*"),
        ("rate<sup>†</sup>", "rate†"),
        ("<sup>1</sup>Estimated", "[1] Estimated"),
        ("<sup>a</sup> All doses", "[a] All doses"),
        ("below 1 x 10<sup>9</sup>/L", "below 1 x 10^9/L"),
        ("below 1 × 10 <sup>9</sup>/L", "below 1 × 10^9/L"),
        ("10<sup>-6</sup> M", "10^-6 M"),
        ("10<sup>−6</sup> M", "10^-6 M"),
        ("<content>10<sup>5</sup></content> units", "10^5 units"),
        ("110<sup>2</sup>", "110 [2]"),
        ("1.73 m<sup>2</sup>", "1.73 m2"),
        ("1.73 m <sup>2</sup>basis", "1.73 m2 basis"),
        ("mg/m<sup>2 </sup>is", "mg/m2 is"),
        ("5 mm<sup>3</sup>", "5 mm3"),
        ("from<sup>2</sup>", "from [2]"),
        ("25<sup>o</sup>C", "25°C"),
        ("20 <sup>0</sup> to 25<sup>º</sup>C", "20° to 25°C"),
        ("a 90<sup>o</sup> angle", "a 90° angle"),
        ("<sup>14</sup>C-inventol", "14C-inventol"),
        ("of <sup>51</sup>Cr and (<sup>99m</sup>Tc)", "of 51Cr and (99mTc)"),
        ("the 5<sup>th</sup> day", "the 5th day"),
        ("Inventa<sup>®</sup> is", "Inventa® is"),
        ("Inventa<sup>TM</sup> is", "Inventa TM is"),
        ("C<sub>max</sub> and CO<sub>2</sub>", "Cmax and CO2"),
        ("a<sup/>b<sup> </sup>c", "ab c"),
        ("e<sup>x<sup>2</sup></sup>", "ex2"),
        ("12<sup>1*</sup>", "12 [1*]"),
        ("12<sup>*,2</sup>.", "12 [*,2]."),
        ("Related<sup>†3</sup>", "Related [†3]"),
        ("5<sup>1-3</sup>", "5 [1-3]"),
        ("5<sup>1–3, 5</sup> weeks", "5 [1–3, 5] weeks"),
        ("2 x 10<sup>9/L</sup>", "2 x 10^9/L"),
        ("2 x 10<sup>6 cells</sup>/kg", "2 x 10^6 cells/kg"),
        ("10 [1]<sup>2</sup>", "10 [1] [2]"),
        ("10<sup>1,2</sup> patients", "10 [1,2] patients"),
        ("tromethamine<sup>IV/IM</sup>and", "tromethamine IV/IM and"),
        ("0.9 h<sup>-1</sup>", "0.9 h^-1"),
        ("mL min<sup>−1</sup> kg<sup>–1</sup>", "mL min^-1 kg^-1"),
        ("mg/m<sup>2*</sup> in", "mg/m2 [*] in"),
        ("mg/m<sup>2a</sup>", "mg/m2 [a]"),
        ("Ca<sup>2+</sup> and Na<sup>+</sup>", "Ca2+ and Na+"),
        ("in<content styleCode='italics'>vi</content>tro", "invitro"),
    ],
)
def test_superscripts(source: str, shown: str) -> None:
    assert paragraph(source) == shown


def test_footnotes_leave_their_number_and_follow_the_text() -> None:
    text = (
        '<paragraph>4 weeks<footnote ID="f1">Of <content>five</content>.</footnote> or 6'
        '<footnote>Or eight.</footnote> or 7<footnoteRef IDREF="f1"/>.</paragraph><paragraph>End.</paragraph>'
    )
    assert lines_of(text) == ["4 weeks [1] or 6 [2] or 7 [1].", "End.", "[1] Of five.", "[2] Or eight."]


def test_a_reference_to_no_footnote_leaves_nothing() -> None:
    assert paragraph('dose<footnoteRef IDREF="gone"/> of 5') == "dose of 5"


def test_footnotes_in_tables() -> None:
    rows = [cells("a", "5<footnote>Of ten.</footnote>"), cells("b", "6<sup>c</sup>")]
    assert lines_of(table(rows, head=[cells("Name", "Weeks")])) == [
        "Name: a | Weeks: 5 [1]",
        "b | Weeks: 6 [c]",
        "[1] Of ten.",
    ]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("5\u00a0mg", "5 mg"),
        ("5\u2009mg\u3000daily", "5 mg daily"),
        ("in\u200bven\u00adtol\ufeff \u2060x", "inventol x"),
        ("\uf0b7 one", "- one"),
        ("5 \uf06dg \uf0b3 2", "5 μg ≥ 2"),
        ("a\ue123b", "ab"),
        ("&lt;5 &amp; &gt;3", "<5 & >3"),
        ("a&#13;b", "a\nb"),
        ("  a \n\t b  ", "a b"),
        ("20&#150;25 &#176;C, the patient&#146;s &#147;dose&#148;&#133;", "20–25 °C, the patient’s “dose”…"),
        ("<![CDATA[one<br/>twice & more]]><br/>x", "one<br/>twice & more\nx"),
    ],
)
def test_odd_characters(source: str, shown: str) -> None:
    assert paragraph(source) == shown


@pytest.mark.parametrize("bullet", ["•", "●", "○", "▪", "–", "*", "o", "\uf0b7"])
def test_literal_bullets_become_one_mark(bullet: str) -> None:
    assert lines_of(f"{bullet} one<br/>{bullet}\u00a0\u00a0two") == ["- one", "- two"]


@pytest.mark.parametrize("line", ["-5 °C", "o-xylene", "•", "* * *", "organ"])
def test_what_only_looks_like_a_bullet_stays(line: str) -> None:
    assert lines_of(line)[0].split()[-1] == line.split()[-1]


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


@pytest.mark.parametrize(
    ("style", "marks"),
    [
        ("", ["1.", "2.", "3."]),
        ("Arabic", ["1.", "2.", "3."]),
        ("LittleAlpha", ["a.", "b.", "c."]),
        ("BigAlpha", ["A.", "B.", "C."]),
        ("LittleRoman", ["i.", "ii.", "iii."]),
        ("BigRoman", ["I.", "II.", "III."]),
    ],
)
def test_items_of_ordered_lists_keep_their_numbers(style: str, marks: list[str]) -> None:
    items = "<item>Wash hands.</item><item>Inject.</item><item><paragraph>Repeat step 1.</paragraph></item>"
    lines = lines_of(f"<list listType='ordered' styleCode='{style}'>{items}</list>")
    assert lines == [f"{marks[0]} Wash hands.", f"{marks[1]} Inject.", f"{marks[2]} Repeat step 1."]


def test_ordered_lists_in_lists_and_with_marks_of_their_own() -> None:
    inner = "<list listType='ordered'><item>Press.</item><item>Hold.</item></list>"
    assert lines_of(f"<list><item>Inject:{inner}</item></list>") == ["- Inject:", "  1. Press.", "  2. Hold."]
    items = "<item><caption>1)</caption>Mix.</item><item>(b) Shake.</item><item>• Wait.</item><item>* Cold.</item>"
    assert lines_of(f"<list listType='ordered'>{items}</list>") == ["1) Mix.", "(b) Shake.", "- Wait.", "- Cold."]


def test_ordered_lists_in_cells() -> None:
    steps = "<list listType='ordered'><item>Mix</item><item>Shake</item></list>"
    figures = "<list listType='ordered'><item>917</item><item>701</item></list>"
    alone = "<list listType='ordered'><item>Adults</item></list>"
    rows = [cells("A", "B", "C", tag="th"), cells(alone, figures, steps)]
    assert lines_of(table(rows))[-1] == "A: Adults | B: 917; 701 | C: 1. Mix; 2. Shake"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Take <content styleCode='strikethrough'>10 mg</content> <content>5 mg</content> daily.", "Take 5 mg daily."),
        ("Take <content revised='delete'>10 mg</content><content revised='insert'>5 mg</content>.", "Take 5 mg."),
        ("Take <content styleCode='bold line-through'>10 <sub>x</sub></content> 5 mg.", "Take 5 mg."),
    ],
)
def test_deleted_text_is_left_out(source: str, shown: str) -> None:
    assert paragraph(source) == shown


def test_deleted_blocks_are_left_out() -> None:
    items = "<item styleCode='Strikethrough'>Old.</item><item>New.</item>"
    assert lines_of(f"<paragraph revised='delete'>Gone.</paragraph><list>{items}</list>") == ["- New."]


@pytest.mark.parametrize(
    ("text", "described", "shown"),
    [
        ("CrCl {} 30 mL/min", "less than or equal to", "CrCl [image: less than or equal to] 30 mL/min"),
        ("CrCl{}30 mL/min", "", "CrCl [image] 30 mL/min"),
        ("CrCl {} 30", "image-01.jpg", "CrCl [image] 30"),
        ("CrCl {} 30", "705cc8a-5055-412c", "CrCl [image] 30"),
        ("CrCl {} 30", "Image", "CrCl [image] 30"),
        ("Bottle label <content>{}</content>", "Bottle label", "Bottle label [image]"),
        ("{}", "structural formula", ""),
        ("Figure 1<br/>{}", "structural formula", "Figure 1"),
    ],
)
def test_images_in_a_line_leave_a_mark(text: str, described: str, shown: str) -> None:
    content = text.format("<renderMultiMedia referencedObject='M1'/>")
    media = f"<component><observationMedia ID='M1'><text>{described}</text></observationMedia></component>"
    passages = read(document(section(f"<paragraph>{content}</paragraph>", inner=media)))[1]
    assert "\n".join(passage.text for passage in passages) == shown


def test_an_image_alone_in_its_cell_leaves_a_mark() -> None:
    rows = [cells("Sign", "Meaning", tag="th"), cells("<renderMultiMedia/>", "Stop")]
    assert lines_of(table(rows))[-1] == "Sign: [image] | Meaning: Stop"


def test_footnotes_of_titles_follow_the_text() -> None:
    title = "Warnings<footnote>Not for children.</footnote>"
    label, [passage] = read(document(section("<paragraph>Stop.</paragraph>", title)))
    assert (label.sections[0].title, passage.text) == ("Warnings [1]", "Stop.\n[1] Not for children.")
    nested = section("<paragraph>Stop.</paragraph>", "Rash", "")
    _, [passage] = read(document(section("", title, inner=nested)))
    assert passage.text == "Stop.\n[1] Not for children."
    label, _ = read(document(section("", title)))
    assert label.sections[0].title == "Warnings (Not for children.)"


def test_text_of_a_section_outside_its_text_is_kept() -> None:
    outside = "<paragraph>Before.</paragraph>loose words"
    xml = document(section("Inside.", inner=f"{outside}<list><item>After.</item></list>"))
    assert [passage.text for passage in read(xml)[1]] == ["Inside.", "Before.\nloose words", "- After."]


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


@given(blocks=st.lists(BLOCKS, min_size=1, max_size=12))
def test_every_word_is_kept_in_order(blocks: list[str]) -> None:
    source = "<br/>".join(blocks)
    found = passages_of(source)
    assert re.findall(r"\w+", "\n".join(found)) == re.findall(r"\w+", re.sub(r"<[^>]*>", " ", source))


@given(texts=st.lists(st.lists(SENTENCES, min_size=1, max_size=30).map(" ".join), min_size=1, max_size=20))
def test_bounds(texts: list[str]) -> None:
    sizes = [len(passage.split()) for passage in passages_of(paragraphs(*texts))]
    assert all(size < MAX_WORDS + MIN_WORDS for size in sizes)
    assert len(sizes) == 1 or min(sizes) >= MIN_WORDS


def test_bounds_in_the_examples() -> None:
    for path in sorted(EXAMPLES.glob("*.xml")):
        by_section: dict[int, list[int]] = {}
        section_number = 0
        for passage in parse_document(path.read_bytes())[1]:
            section_number += passage.section_chunk_index == 0
            by_section.setdefault(section_number, []).append(len(passage.text.split()))
        for sizes in by_section.values():
            assert max(sizes) < LONGEST_SENTENCE
            assert len(sizes) == 1 or min(sizes) >= MIN_WORDS - 3


def highlights_of(text: str, title: str = "5 WARNINGS AND PRECAUTIONS", code: str = "43685-7") -> list[Highlight]:
    excerpt = f"<excerpt><highlight><text>{text}</text></highlight></excerpt>"
    return read(document(section(FILLER, title, code, inner=excerpt)))[0].highlights


def test_highlights_are_no_part_of_the_body() -> None:
    excerpt = "<excerpt><highlight><text>Short form. (5)</text></highlight></excerpt>"
    label, passages = read(document(section(FILLER, "5 WARNINGS", "43685-7", inner=excerpt)))
    assert [one.text for one in passages] == [FILLER]
    assert label.highlights == [Highlight("43685-7", "WARNINGS", "", "Short form. (5)", ["5"])]


def test_a_section_may_have_highlights_alone() -> None:
    excerpt = "<excerpt><highlight><text>Dosage (2.1) 1/2024</text></highlight></excerpt>"
    label, passages = read(document(section("", "RECENT MAJOR CHANGES", "43683-2", inner=excerpt)))
    assert passages == []
    assert [(one.code, one.text) for one in label.highlights] == [("43683-2", "Dosage (2.1) 1/2024")]


def test_one_statement_an_outermost_item() -> None:
    text = "<list><item>Rash: Stop. (5.1)<list><item>Wash</item></list></item><item>Fever. (5.2)</item></list>"
    assert [one.text for one in highlights_of(text)] == ["Rash: Stop. (5.1)\n- Wash", "Fever. (5.2)"]


def test_table_rows_and_paragraphs_are_statements_too() -> None:
    rows = "<table><tbody><tr><td>Boxed Warning</td><td>5/2016</td></tr></tbody></table>"
    assert [one.text for one in highlights_of(f"{rows}<paragraph>More.</paragraph>")] == [
        "Boxed Warning | 5/2016",
        "More.",
    ]


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("Lactic Acidosis: See boxed warning. (5.1)", "Lactic Acidosis"),
        ("Lactic Acidosis (5.1): See it.", "Lactic Acidosis"),
        ("OA: 200 mg once daily (2.1)", "OA"),
        ("Inventa (inventol) Tablets: 5 mg (3)", "Inventa (inventol) Tablets"),
        ("Adults: 500 mg", "Adults"),
        ("WARNING: LACTIC ACIDOSIS", ""),
        ("Stop the drug. Note: wait.", ""),
        ("lower case: no", ""),
        ("Take the following:", ""),
    ],
)
def test_topics(text: str, topic: str) -> None:
    assert highlights_of(f"<paragraph>{text}</paragraph>")[0].topic == topic


@pytest.mark.parametrize(
    ("text", "references"),
    [
        ("Stop (2.1, 5.3).", ["2.1", "5.3"]),
        ("Stop [see 4 and 8.1]", ["4", "8.1"]),
        ("A (2.1). B (5.3; 2.1)", ["2.1", "5.3"]),
        ('A (<linkHtml href="#a">2.1</linkHtml>)', ["2.1"]),
        ("Give 5 mg (10 mL) to adults (n = 20)", []),
        ("Give (100 mg)", []),
    ],
)
def test_references(text: str, references: list[str]) -> None:
    assert highlights_of(f"<paragraph>{text}</paragraph>")[0].references == references


def test_marks_are_rewritten_in_highlights() -> None:
    assert (
        highlights_of("<paragraph>below 10<sup>9</sup>/L<footnote>Twice.</footnote></paragraph>")[0].text
        == "below 10^9/L [1]"
    )
