"""Server-sent events and covered text come out the same, however the bytes and the pieces are cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm.sse import Event, Events
from fdarx_core.llm.veil import Veil

STREAMS = {
    "one": (b"data: a\n\n", [("", b"a")]),
    "carriage returns and line feeds": (b"event: e\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [("e", b"a"), ("", b"b")]),
    "carriage returns": (b"data: a\r\rdata: b\r\r", [("", b"a"), ("", b"b")]),
    "lines of data": (b"data: a\ndata:\ndata:  b\n\n", [("", b"a\n\n b")]),
    "no space": (b"data:a:b\n\n", [("", b"a:b")]),
    "comments and other fields": (b": ping\n\n:\nid: 7\nretry: 9\nnonsense\ndata: a\n\n", [("", b"a")]),
    "no data": (b"event: e\n\ndata: a\n\n", [("", b"a")]),
    "no blank line at the end": (b"data: a\n\ndata: b", [("", b"a"), ("", b"b")]),
    "characters of several bytes": ("data: µg é 漢 🧪\n\n".encode(), [("", "µg é 漢 🧪".encode())]),
    "nothing": (b"", []),
    "blank lines": (b"\n\r\n\r\r\n\n", []),
}
LINES = st.sampled_from(
    [b"data: a", b"data:\xc2\xb5", b"data", b"event: e", b": c", b"id: 1", b"", b"", b"\xff", b"x:y"]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def read(portions: Sequence[bytes]) -> list[Event]:
    events = Events()
    found = [event for portion in portions for event in events.of(portion)]
    return [*found, *events.rest()]


def cut(whole: bytes, places: Sequence[int]) -> list[bytes]:
    borders = sorted({0, len(whole), *(place % (len(whole) + 1) for place in places)})
    return [whole[start:end] for start, end in pairwise(borders)]


@pytest.mark.parametrize("name", STREAMS)
def test_events_of_a_stream(name: str) -> None:
    stream, expected = STREAMS[name]
    found = [(event.name, event.data) for event in read([stream])]
    assert found == expected
    assert found == [(event.name, event.data) for event in read([stream[at : at + 1] for at in range(len(stream))])]


@given(lines=st.lists(st.tuples(LINES, ENDS), max_size=20), places=st.lists(st.integers(0, 400), max_size=40))
def test_any_cut_gives_the_same_events(lines: list[tuple[bytes, bytes]], places: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    assert read(cut(stream, places)) == read([stream])


@given(stream=st.binary(max_size=200), places=st.lists(st.integers(0, 200), max_size=20))
def test_any_bytes_are_read(stream: bytes, places: list[int]) -> None:
    assert read([*cut(stream, places), b""]) == read([stream])


@given(data=st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))), end=ENDS)
def test_data_come_back_as_they_were(data: list[str], end: bytes) -> None:
    stream = b"".join(b"data: " + one.encode() + end + end for one in data)
    assert [event.data.decode() for event in read([stream])] == data


def shown(secret: str, pieces: Sequence[str]) -> str:
    veil = Veil(secret)
    return "".join(veil.over(piece) for piece in pieces) + veil.rest()


@given(secret=st.text("ab", min_size=1, max_size=5), pieces=st.lists(st.text("ab[", max_size=6), max_size=12))
def test_a_secret_is_covered_however_it_is_cut(secret: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    assert secret not in shown(secret, pieces)
    if secret not in text:
        assert shown(secret, pieces) == text
    assert shown(secret, pieces) == shown(secret, list(text)) == text.replace(secret, "[key]")


@given(st.lists(st.text(max_size=5)))
def test_without_a_secret_nothing_is_held_back(pieces: list[str]) -> None:
    veil = Veil("")
    assert [veil.over(piece) for piece in pieces] == pieces
