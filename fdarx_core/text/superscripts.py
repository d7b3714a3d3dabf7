"""Superscripts in plain text: powers, units, degree signs, isotopes, and marks of notes in brackets."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"[-−–]?\d+")
_SYMBOLS = r"[*†‡§¶#]"
_NOTE_MARK = re.compile(
    rf"[1-9]\d*(?:\s*[,–-]\s*\d+)*(?:\s*,?\s*{_SYMBOLS}+)?|{_SYMBOLS}+\s*,?\s*[1-9]\d*|[a-z](?:\s*,?\s*[a-z]){{0,3}}"
)
_EXPONENT = re.compile(r"([-−–]?\d+)(?=\s*/|\s+[a-zA-Z])")
_UNIT_AND_NOTE = re.compile(rf"([23])\s*,?\s*([a-z]|{_SYMBOLS}+|\d)")
_NEGATIVE = re.compile(r"[-−–]\d")
_ISOTOPE = re.compile(r"m?[A-Z][a-z]?(?![A-Za-z])")  # 51Cr, 14C-labeled
_DEGREE = ("0", "o", "º", "O")
_ORDINAL = {"st", "nd", "rd", "th"}
_POWER_OF_TEN = re.compile(r"(?:[x×X*·•]\s*|^|[^\d.])10$")
_AREA_OR_VOLUME = re.compile(r"(?:^|[^A-Za-z])[cmdkμµn]?m$")


def superscript(mark: str, before: str, after: str) -> tuple[str, bool]:
    """Return what to print for a superscript, and whether to remove the white space before it.

    A power becomes "10^9", a unit "m2", a degree sign "°", the mark of a note "4 weeks [1]": no mark sticks to a number
    or a word before it.

    Args:
        mark: the text of the superscript.
        before: the text just before it, without white space at its end.
        after: the text just after it.
    """
    if mark in _DEGREE and before[-1:].isdigit() and not (mark == "0" and _POWER_OF_TEN.search(before)):
        return "°", True
    if mark.lower() in _ORDINAL and before[-1:].isdigit():
        return mark, True
    bracketed = " " * bool(before) + f"[{mark}]" + " " * after[:1].isalnum()
    following = after[:1]
    if _DIGITS.fullmatch(mark):
        if before.endswith("10") and _POWER_OF_TEN.search(before) and (mark != "1" or following.isalpha()):
            return _power(mark), True
        if mark in ("2", "3") and _AREA_OR_VOLUME.search(before):
            return mark + " " * following.isalpha(), True
        if _NEGATIVE.match(mark) and before[-1:].isalpha():
            return _power(mark), True
        return (mark if _ISOTOPE.match(after) or before[-1:] in ("^", "(") else bracketed), False
    if (exponent := _EXPONENT.match(mark)) and before.endswith("10") and _POWER_OF_TEN.search(before):
        return _power(exponent[0]) + mark[exponent.end() :], True
    if (unit := _UNIT_AND_NOTE.fullmatch(mark)) and _AREA_OR_VOLUME.search(before):
        return f"{unit[1]} [{unit[2]}]" + " " * following.isalnum(), True
    if _NOTE_MARK.fullmatch(mark):
        return bracketed, False
    if mark[:1].isalpha() and mark[1:2].isalpha():  # a word of its own, or a trademark
        return f" {mark}" + " " * following.isalnum(), False
    return mark, False


def _power(exponent: str) -> str:
    return "^" + exponent.replace("−", "-").replace("–", "-")
