"""Tables as lines in which every value stands with the headers of its row and of its column."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.labels.spl import cells, document, lines_of, passages_of, read, section, table

NAMES = ["Reaction", "Inventa", "Placebo"]
ROWS = [cells("Nausea", "5 %", "2 %"), cells("Rash", "1 %", "0 %")]
WRITTEN = ["Reaction: Nausea | Inventa: 5 % | Placebo: 2 %", "Rash | Inventa: 1 % | Placebo: 0 %"]
BOLD = [f'<content styleCode="bold">{name}</content>' for name in NAMES]


def test_header_in_a_thead() -> None:
    assert lines_of(table(ROWS, head=[cells(*NAMES, tag="th")])) == WRITTEN
    assert lines_of(table(ROWS, head=[cells(*NAMES)])) == WRITTEN


def test_header_of_th_without_thead() -> None:
    assert lines_of(table([cells(*NAMES, tag="th"), *ROWS])) == WRITTEN


def test_header_in_bold() -> None:
    assert lines_of(table([cells(*BOLD), *ROWS])) == WRITTEN
    nested = [f'<paragraph><content styleCode="italics Bold">{name}</content></paragraph>' for name in NAMES]
    assert lines_of(table([cells(*nested), *ROWS])) == WRITTEN


def test_plain_labels_over_figures() -> None:
    assert lines_of(table([cells(*NAMES), *ROWS])) == WRITTEN


def test_capitals_over_words() -> None:
    rows = [cells("RISK", "ACTION"), cells("Rash", "Stop"), cells("Fever", "Wait")]
    assert lines_of(table(rows)) == ["RISK: Rash | ACTION: Stop", "Fever | ACTION: Wait"]


def test_words_alone_have_no_header() -> None:
    assert lines_of(table([cells("nausea", "rash"), cells("itching", "fever")])) == ["nausea | rash", "itching | fever"]


def test_columns_under_a_common_header_share_it() -> None:
    head = ['<td rowspan="2">Reaction</td><td colspan="2">Inventa</td><td colspan="2">Placebo</td>']
    head.append(cells("n", "%", "n", "%"))
    assert lines_of(table([cells("Nausea", "5", "2.5", "1", "0.5")], head=head)) == [
        "Reaction: Nausea | Inventa n: 5; %: 2.5 | Placebo n: 1; %: 0.5"
    ]
    assert lines_of(table([*head, cells("Nausea", "5", "2.5", "1", "0.5")])) == [
        "Reaction: Nausea | Inventa n: 5; %: 2.5 | Placebo n: 1; %: 0.5"
    ]


def test_a_row_of_units_belongs_to_the_header() -> None:
    rows = [cells(*NAMES, tag="th"), cells("", "(n=141)", "(n=145)"), *ROWS]
    assert lines_of(table(rows))[0] == "Reaction: Nausea | Inventa (n=141): 5 % | Placebo (n=145): 2 %"


def test_a_bold_row_of_figures_does_not() -> None:
    count = cells(
        "<content styleCode='bold'>No. of patients</content>",
        *(f"<content styleCode='bold'>{n}</content>" for n in (90, 80)),
    )
    assert lines_of(table([cells(*BOLD), count, *ROWS]))[:2] == [
        "Reaction: No. of patients | Inventa: 90 | Placebo: 80",
        "Nausea | Inventa: 5 % | Placebo: 2 %",
    ]


def test_a_value_that_spans_columns_has_the_headers_of_all() -> None:
    rows = ['<td>Death</td><td colspan="2">none</td>', ROWS[0]]
    assert lines_of(table(rows, head=[cells(*NAMES)]))[0] == "Reaction: Death | Inventa / Placebo: none"


def test_a_cell_that_spans_rows_stands_in_each() -> None:
    rows = [
        '<td rowspan="2">Adults</td><td>oral</td><td>5 mg</td>',
        cells("rectal", "10 mg"),
        cells("Children", "oral", "1 mg"),
    ]
    assert lines_of(table(rows, head=[cells("Who", "How", "Dose")])) == [
        "Who: Adults | How: oral | Dose: 5 mg",
        "Adults | How: rectal | Dose: 10 mg",
        "Children | How: oral | Dose: 1 mg",
    ]


def test_a_long_text_that_spans_rows_is_written_once() -> None:
    long = " ".join(["advice"] * 20)
    rows = [f'<td>a</td><td>1</td><td rowspan="2">{long}</td>', cells("b", "2")]
    assert lines_of(table(rows)) == [f"a | 1 | {long}", "b | 2"]


def test_group_rows_are_headings_at_which_a_passage_may_begin() -> None:
    rows = ['<td colspan="3">Skin</td>', *ROWS * 3, cells("Heart", "", ""), *ROWS * 3]
    text = passages_of(table(rows, head=[cells(*NAMES)]))
    assert [passage.split("\n")[0] for passage in text] == ["Skin", "Heart"]


def test_a_title_row_over_the_header() -> None:
    rows = ['<td colspan="3">Table 1. Reactions</td>', cells(*BOLD), *ROWS]
    assert lines_of(table(rows)) == ["Table 1. Reactions", *WRITTEN]
    assert lines_of(table(rows[1:], head=rows[:1])) == ["Table 1. Reactions", *WRITTEN]


def test_the_header_of_a_table_for_layout_does_not_grow_with_its_rows() -> None:
    long = "Tell your doctor about all the medicines that you take. " * 8
    rows = [f'<td colspan="2">{"What is Inventa? " if at % 2 else long} {at}</td>' for at in range(60)]
    text = table([*rows, cells("Morning", "1 tablet " * 200)], caption="Medication Guide")
    heads = [passage.table_header for passage in read(document(section(text)))[1]]
    assert len(heads) > 5
    assert heads[-1].split("\n")[0] == "Medication Guide" and heads[-1].split("\n")[-1] == "What is Inventa? 59"
    assert max(head.count("\n") for head in heads) == 2 and max(map(len, heads)) < 100


def test_the_heading_of_the_first_group_does_not_stand_over_the_next_group() -> None:
    """Tables of interactions have no headers, and begin with a drug: "Warfarin" stood over the rows of digoxin."""
    effect = cells("Clinical Impact:", "It rises. " * 150)
    rows = ['<td colspan="2">Warfarin</td>', effect, '<td colspan="2">Digoxin</td>', effect]
    for first, caption in (("", "Table 7"), ("", ""), ('<td colspan="2">Table 7</td>', "")):
        text = table([first, *rows] if first else rows, caption=caption)
        passages = read(document(section(text)))[1]
        after = next(at for at, one in enumerate(passages) if "Digoxin" in one.text)
        assert not any("Warfarin" in one.table_header for one in passages[after:])
        assert any("Warfarin" in one.table_header + one.text for one in passages[:after])


def test_caption_first_and_foot_last() -> None:
    lines = lines_of(
        table(ROWS, head=[cells(*NAMES)], foot=["<td colspan='3'>* Of 90.</td>"], caption="Table 2. <br/>What")
    )
    assert lines == ["Table 2. What", *WRITTEN, "* Of 90."]


def test_headers_over_no_value_are_kept() -> None:
    assert lines_of(table([cells("a", "", "1")], head=[cells("Name", "Route", "Dose")])) == [
        "Route",
        "Name: a | Dose: 1",
    ]


def test_a_header_alone_is_kept() -> None:
    assert lines_of(table([], head=[cells(*NAMES)])) == ["Reaction | Inventa | Placebo"]


def test_blocks_in_a_cell_do_not_run_together() -> None:
    listed = "Take<list><item>one</item><item><caption>•</caption>two<list><item>b</item></list></item></list>daily"
    row = cells("<paragraph>a</paragraph><paragraph>b</paragraph>c", f"x<paragraph>y</paragraph><br/>z {listed}", "1|2")
    assert lines_of(table([row])) == ["a b c | x y z Take one; two b daily | 1/2"]


def test_rows_of_equal_cells_are_all_kept() -> None:
    rows = [cells("0", "0"), cells("0", "0"), cells("0", "0")]
    assert lines_of(table(rows)) == ["0 | 0"] * 3


def test_a_frame_round_running_text_is_no_table() -> None:
    framed = "<paragraph>What is Inventa?</paragraph><list><item>a tablet</item><item>for adults</item></list>"
    assert lines_of(table([f"<td>{framed}</td>", "<td>Ask your doctor.</td>"], caption="Guide")) == [
        "Guide",
        "What is Inventa?",
        "- a tablet",
        "- for adults",
        "Ask your doctor.",
    ]


def test_a_table_within_a_table() -> None:
    inner = table([cells("in1", "in2"), cells("in3", "in4")])
    text = "\n".join(lines_of(table([cells("out1", inner, "out2")])))
    assert re.findall(r"\w+", text) == ["out1", "in1", "in2", "in3", "in4", "out2"]


SPANS = st.tuples(st.integers(1, 3), st.integers(1, 3))
GRIDS = st.lists(st.lists(SPANS, min_size=1, max_size=5), min_size=1, max_size=7)


@given(grid=GRIDS, head=st.integers(0, 3), tag=st.sampled_from(["td", "th"]), bold=st.booleans())
def test_no_cell_is_lost_and_no_two_run_together(
    grid: list[list[tuple[int, int]]], head: int, tag: str, bold: bool
) -> None:
    rows = [
        "".join(
            f'<{tag} colspan="{width}" rowspan="{height}">'
            + (
                f"<content styleCode='bold'>r{y}c{x}</content>"
                if bold and y < 2
                else f"<paragraph>r{y}c{x}</paragraph>"
            )
            + f"</{tag}>"
            for x, (width, height) in enumerate(row)
        )
        for y, row in enumerate(grid)
    ]
    lines = lines_of(table(rows[head:], head=rows[:head]))
    words = Counter(word for line in lines for word in re.findall(r"\w+", line))
    assert set(words) == {f"r{y}c{x}" for y, row in enumerate(grid) for x in range(len(row))}


@given(size=st.tuples(st.integers(2, 6), st.integers(2, 6)), data=st.data())
def test_every_value_stands_in_its_row_under_its_header(size: tuple[int, int], data: st.DataObject) -> None:
    height, width = size
    filled = data.draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width))
    rows = [
        cells(f"row{y}", *(f"v{y}x{x}" if filled[y * width + x] else "" for x in range(width))) for y in range(height)
    ]
    lines = lines_of(table(rows, head=[cells("Name", *(f"head{x}" for x in range(width)))]))
    for y in range(height):
        line = next(line for line in lines if re.search(rf"\brow{y}\b", line))
        for x in range(width):
            assert (f"head{x}: v{y}x{x}" in line) == filled[y * width + x]
            assert sum(other.count(f"v{y}x{x}") for other in lines) == filled[y * width + x]
