"""Tokens and normal forms of text, as the rules compare them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import yaml

_TOKEN = re.compile(r"[^\W_]+(?:[.,]\d+)*")  # "2.5" and "CYP3A4" are one token each


@cache
def vocabulary(package: str = __package__, name: str = "vocabulary.yaml") -> dict[str, Any]:
    """Return the contents of a YAML file of a package, which explains its entries."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(files(package).joinpath(name).read_text(encoding="utf-8"), loader)  # type: ignore[no-any-return]


def word_set(name: str) -> frozenset[str]:
    """Return the words of a list in `vocabulary.yaml`."""
    return frozenset(vocabulary()[name].split())


_NAMED = re.compile(r"(?<!\?P)<([a-z_]+)>")


def expand(text: str | Sequence[str], entries: Mapping[str, Any]) -> str:
    """Return a part of a regular expression, or a list of alternatives, in which `<name>` stands for an entry."""
    text = text if isinstance(text, str) else "|".join(text)
    return _NAMED.sub(lambda found: f"(?:{expand(entries[found[1]], entries)})", text)


def pattern(
    name: str, flags: re.RegexFlag = re.NOFLAG, *, file: str = "vocabulary.yaml", package: str = __package__
) -> re.Pattern[str]:
    """Return an entry of a YAML file of a package as a regular expression, as `expand` reads it."""
    entries = vocabulary(package, file)
    return re.compile(expand(entries[name], entries), flags)


_TRADEMARKS = re.compile(r"[®™©℠\u00ad\u200b-\u200d\ufeff]")
_POSSESSIVE = re.compile(r"['’ʼ]s\b")
_NOT_WORD = re.compile(r"[\W_]+")
_WORD_STOP = word_set("stop_words")
_SEE_SQUARE = re.compile(r"\s*\[\s*(?:also )?see\b[^\[\]]*\]?", re.I)
_SEE_ROUND = re.compile(r"\s*\(\s*(?:also |please )?(?:see|refer to)\b(?:[^()]|\([^()]*\)){0,300}\)", re.I)
_SECTION_NUMBERS = re.compile(
    r"\s*[(\[]\s*\d{1,2}(?:\.\d{1,2}){0,2}(?:\s*(?:,|and|-)\s*\d{1,2}(?:\.\d{1,2}){0,2})*\s*[)\]]"
)
_LABEL_MARKS = re.compile(r"[®™†‡§¶\u200b\u200c\u200d\ufeff\u00ad]")
_SPACES = re.compile(r"[ \t\u00a0]+")
_BEFORE_STOP = re.compile(r"\s+(?=[.,;](?:\s|$))")
_DOUBLE_STOP = re.compile(r"(?<!\.)\.\s?\.(?=\s|$)")

_SIGNS = str.maketrans({**dict.fromkeys("‐‑‒–—−", "-"), **dict.fromkeys("®™©℠†‡*", " "), "’": "'", "≦": "≤", "≧": "≥"})
_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
_REFERENCE = re.compile(
    r"[\[(]\s*(?:also |please )?(?:see|refer to)\b[^\])]*[\])]"
    r"|\(\s*\d{1,2}\.\d{1,2}(?:\s*[,-]\s*\d{1,2}(?:\.\d{1,2})?)*\s*\)"
)
_MARK = re.compile(r"\((?:\d|[a-e]|i{1,3}|iv|vi?)\)|(?:^|\n)\s*\d[.)]\s")
_SURFACE = re.compile(r"\s*/?\s*(?:per )?1\.73\s*m(?:\^?2)\b")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMBER_WORDS: dict[str, int] = vocabulary()["number_words"]
_SPELT = re.compile(
    rf"(?<!-)\b(?:(?P<ten>\w+ty)-(?P<one>one|{'|'.join(_NUMBER_WORDS)})|(?P<word>{'|'.join(_NUMBER_WORDS)}))\b"
    r"(?:\s*\(\d+\))?"
)
_HUNDRED = re.compile(r"\b(?P<many>\d+|a|one) (?P<size>hundred|thousand)(?: (?:and )?(?P<more>\d+))?\b")
_ONE = pattern("one_in_words")
_PARTS = [(re.compile(part), number) for number, part in vocabulary()["parts_of_one"].items()]
_DEGREES = re.compile(r"\s*(?:°|º|degrees?)\s*([cf])\w*")
_AT_MOST = pattern("at_most")
_SHORT_FORMS: dict[str, str] = vocabulary()["short_forms"]


def tokenize(text: str) -> list[str]:
    """Return the words and numbers of a text in order, unchanged."""
    return _TOKEN.findall(text)


def words_of(text: str) -> list[str]:
    """Return lower-case words and numbers in order, without plural s."""
    return [_singular(token) for token in tokenize(_TRADEMARKS.sub("", text).lower())]


@lru_cache(maxsize=1024)
def content_words(text: str) -> frozenset[str]:
    """Return the distinct words that are not stop words; all words where there is no other."""
    found = frozenset(words_of(text))
    return found - _WORD_STOP or found


def word_overlap(answer: str, context: str) -> float:
    """Return the share of the answer's content words that are in the context, 0 to 1; 0 for an answer without words."""
    words = content_words(answer)
    return len(words & content_words(context)) / len(words) if words else 0.0


def normalize_words(text: str) -> str:
    """Return lower-case words with one space between and around: "Zalvo®-XR's dose" gives " zalvo xr dose "."""
    return f" {_NOT_WORD.sub(' ', _POSSESSIVE.sub('', _TRADEMARKS.sub('', text)).lower()).strip()} "


def contains_name(text: str, name: str) -> bool:
    """Return whether the text has the name as whole words, ignoring case and punctuation; False for an empty name."""
    wanted = normalize_words(name)
    return any(char.isalnum() for char in wanted) and wanted in normalize_words(text)


def contains_entity(entity: str, text: str) -> bool:
    """Return whether the entity's words follow each other in the text, singular or plural, ignoring case."""
    parts = [part if entity.isupper() else _singular(part) for part in normalize_words(entity).split()]
    lowered = _lower(text)
    # A label's text is long, and its absent entities are many: the longest word alone settles most of them.
    if not parts or max(parts, key=len) not in lowered:
        return False
    words = r"(?:['’]?s)?[\W_]+".join(map(re.escape, parts))
    return re.search(rf"(?<!\w){words}(?:e?s)?(?!\w)", lowered) is not None


@lru_cache(maxsize=4)
def _lower(text: str) -> str:
    return text.lower()


def _singular(token: str) -> str:
    return token[:-1] if len(token) > 3 and token.endswith("s") and not token.endswith("ss") else token


def normalize(text: str, *, literal: bool = False) -> str:
    """Return a text in the form in which grades and verdicts compare it.

    Lower case, one kind of dash, figures for small numbers, no thousands separators and, unless it is to be `literal`,
    "at most" for all wordings of an upper bound, and no list marks or cross-references.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).replace("μ", "u")
    text = text.translate(_SIGNS).lower()
    for written, short in _SHORT_FORMS.items():
        text = text.replace(written, short)
    if not literal:
        if "(" in text or "[" in text:
            text = _REFERENCE.sub(" ", text)
        text = _MARK.sub(" ", text)
    text = _THOUSANDS.sub("", _SURFACE.sub(" ", text) if "1.73" in text else text)
    for pattern, number in _PARTS if "half" in text or "quarter" in text or "and a" in text else ():
        text = pattern.sub(number, text)
    text = _ONE.sub("1", _SPELT.sub(_spelt, text))
    if "hundred" in text or "thousand" in text:
        text = _HUNDRED.sub(_hundreds, text)
    if not literal:
        text = _AT_MOST.sub("at most ", text)
    return _DEGREES.sub(r" °\1", text) if "°" in text or "º" in text or "degree" in text else text


def _spelt(found: re.Match[str]) -> str:
    if found["word"]:
        return str(_NUMBER_WORDS[found["word"]])
    ten = _NUMBER_WORDS.get(found["ten"])
    return found[0] if ten is None else str(ten + _NUMBER_WORDS.get(found["one"], 1))


def _hundreds(found: re.Match[str]) -> str:
    many = int(found["many"]) if found["many"].isdigit() else 1
    return str(many * (100 if found["size"] == "hundred" else 1000) + int(found["more"] or 0))


def strip_references(text: str) -> str:
    """Return one line of a label without cross-references, such as "(2.1, 5.3)", and signs of trademarks and footnotes.

    Several spaces become one.
    """
    text = _SECTION_NUMBERS.sub("", text)
    if "ee " in text or "efer to" in text:
        text = _SEE_ROUND.sub("", _SEE_SQUARE.sub("", text))
    text = _LABEL_MARKS.sub("", text).replace(".; ", ". ")
    return _DOUBLE_STOP.sub(".", _BEFORE_STOP.sub("", _SPACES.sub(" ", text))).strip()


def with_full_stop(text: str) -> str:
    """Return the text with a full stop, unless it ends with a closing mark."""
    return text if text.endswith((".", "!", "?", ")", "]", '."', ".”")) else f"{text.rstrip(' ;,:')}."
