"""Plain-text tools of the rule-based question writer: cleaning, sentences, numbers and names."""

from __future__ import annotations

import re

_SEE_SQUARE = re.compile(r"\s*\[\s*(?:also )?see\b[^\[\]]*\]?", re.I)
_SEE_ROUND = re.compile(r"\s*\(\s*(?:also |please )?(?:see|refer to)\b(?:[^()]|\([^()]*\)){0,300}\)", re.I)
_SECTION_NUMBERS = re.compile(
    r"\s*[(\[]\s*\d{1,2}(?:\.\d{1,2}){0,2}(?:\s*(?:,|and|-)\s*\d{1,2}(?:\.\d{1,2}){0,2})*\s*[)\]]"
)
_MARKS = re.compile(r"[®™†‡§¶\u200b\u200c\u200d\ufeff\u00ad]")
_SPACES = re.compile(r"[ \t\u00a0]+")
_BEFORE_STOP = re.compile(r"\s+(?=[.,;](?:\s|$))")
_DOUBLE_STOP = re.compile(r"(?<!\.)\.\s?\.(?=\s|$)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_FIGURES = re.compile(r"\d+(?:\.\d+)?")
_BREAK = re.compile(r"[.!?][\"”')\]]*\s+(?=[\"“(\[]?[A-Z0-9])")
_SHORT_FORMS = """e.g i.e vs etc approx max min inj no fig dr st mr mrs ms ref refs vol avg temp resp viz cf wt conc ca
u.s u.s.a"""
_ABBREVIATIONS = frozenset(_SHORT_FORMS.split())
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]+|\d[\d.,]*")
_LITTLE_WORDS = """
a an the of in on at to for from by with and or as is are was were be been has have had that which who whom whose
this these those it its their there than then may can could should would must not no if when what how does do did
into per about about during between after before following under over within without also such other any all each
more most
"""
_STOP_WORDS = frozenset(_LITTLE_WORDS.split())


def clean(text: str) -> str:
    """One line without cross-references, trademark signs, footnote marks and doubled spaces."""
    if "ee " in text or "efer to" in text:
        text = _SEE_ROUND.sub("", _SEE_SQUARE.sub("", text))
    text = _MARKS.sub("", text).replace(".; ", ". ")
    return _DOUBLE_STOP.sub(".", _BEFORE_STOP.sub("", _SPACES.sub(" ", text))).strip()


def strip_references(text: str) -> str:
    """`clean`, and without bare section numbers in brackets: "(2.1, 5.3)"."""
    return clean(_SECTION_NUMBERS.sub("", text))


def answer_numbers(text: str) -> set[str]:
    """The numbers of a text, thousands separators taken out: "1,500 mg in 2.5 mL" gives 1500 and 2.5."""
    return {_plain_number(found) for found in _NUMBER.findall(text)}


def _plain_number(found: str) -> str:
    parts = found.split(",")
    grouped = len(parts) > 1 and all(len(part.split(".")[0]) == 3 for part in parts[1:])
    return "".join(parts) if grouped else found.replace(",", " ")


def written_numbers(text: str) -> set[str]:
    """The figures of a text as they are printed: "1,000" is 1 and 000, not the 1000 of another spelling."""
    return set(_FIGURES.findall(text))


def numbers_stand_in(answer: str, context: str) -> bool:
    """Whether every number of the answer is a number of the context."""
    return answer_numbers(answer) <= answer_numbers(context)


def sentences(text: str) -> list[str]:
    """The sentences of one line. Abbreviations, initials and decimal points do not end one."""
    found, start = [], 0
    for stop in _BREAK.finditer(text):
        before = text[start : stop.start()].rsplit(None, 1)[-1:] or [""]
        word = before[0].lstrip("(").lower()
        if text[stop.start()] == "." and (word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha())):
            continue
        found.append(text[start : stop.end()].strip())
        start = stop.end()
    rest = text[start:].strip()
    return [*found, rest] if rest else found


def words(text: str) -> list[str]:
    """Lower-case words and numbers that carry meaning."""
    return [word for word in (found.lower() for found in _WORD.findall(text)) if word not in _STOP_WORDS]


def decapitalise(phrase: str, keep: str = "") -> str:
    """The phrase as it stands inside a sentence; acronyms, formulas and the words of `keep` stay as they are."""
    head = phrase.split(None, 1)[0] if phrase.split() else ""
    if not head[1:].islower() and head not in ("A", "I"):
        return phrase
    return phrase if head.lower() in keep.lower().split() else phrase[0].lower() + phrase[1:]


def capitalise(phrase: str) -> str:
    """The phrase as it stands at the start of a sentence."""
    return phrase[:1].upper() + phrase[1:]


def plain_case(phrase: str, drug: str) -> str:
    """A heading in the case of running text: capitals and Title Case go, acronyms and the drug's name stay."""
    if phrase.isupper():
        return phrase.lower() if max(map(len, phrase.split())) > 6 else phrase
    own = drug.lower().split()
    return " ".join(_plain_word(word, own) for word in phrase.split())


def _plain_word(word: str, own: list[str]) -> str:
    proper = "'" in word or "’" in word or word.lower() in own
    return word if proper or not word[1:].islower() else word.lower()


def closed(text: str) -> str:
    """The text with a full stop, if it has no closing mark."""
    return text if text.endswith((".", "!", "?", ")", "]", '."', ".”")) else f"{text.rstrip(' ;,:')}."
