"""Runs of text inside a block: white space and invisible characters."""

from __future__ import annotations

import re

from lxml import etree

from fdarx_core.labels.xml import Element

_SYMBOL_FONT = {0xF0B7: "•", 0xF0A7: "•", 0xF0B1: "±", 0xF0B3: "≥", 0xF0A3: "≤", 0xF06D: "μ", 0xF0B0: "°", 0xF0B4: "×"}
_INVISIBLE = [0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF, 0xFFFC]
_PRIVATE_USE = range(0xE000, 0xF900)  # no meaning outside its font
_CHARACTERS: dict[int, str | None] = {**dict.fromkeys(_PRIVATE_USE), **_SYMBOL_FONT, **dict.fromkeys(_INVISIBLE)}
_ODD = re.compile("[\ue000-\uf8ff" + "".join(map(chr, _INVISIBLE)) + "]")


def clean(text: str) -> str:
    """One line of text: white space of every kind as single spaces, soft hyphens and zero-width characters gone."""
    if text.isascii():
        if not ("\n" in text or "  " in text or "\t" in text or "\r" in text):
            return text.strip()  # twice as fast as to take apart what is in order
    elif _ODD.search(text):
        text = text.translate(_CHARACTERS)
    return " ".join(text.split())


def raw_text(element: Element) -> str:
    """All text under an element, tags aside, in C when there are child elements."""
    if not len(element):
        return element.text or ""
    return etree.tostring(element, method="text", encoding="unicode", with_tail=False)
