"""Superscripts, footnotes, breaks and odd characters: nothing glues to a number that does not belong to it."""

from __future__ import annotations

import pytest

from tests.labels.spl import cells, lines_of, table


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
