"""Words by what they do in a clause: English auxiliaries, and the verbs that answers on drugs and diseases use."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.baseline.tokens import token_matches, vocabulary


def _words(name: str) -> frozenset[str]:
    return frozenset(vocabulary()["grammar"][name].split())


SINGULAR = _words("singular")
PLURAL = _words("plural")
PAST_AUXILIARIES = _words("past_auxiliaries")
MODALS = _words("modals")
AUXILIARIES = SINGULAR | PLURAL | PAST_AUXILIARIES | MODALS
VERBS = _words("verbs")
NOUNS_WITH_S = _words("nouns_with_s")
"""Verbs whose forms with s are nouns too: verbs only where an object or an adverbial follows."""
NOUNS = NOUNS_WITH_S | _words("nouns")
"""The same for forms without s."""
OBJECT_NEXT = _words("object_next")
PAST = _words("past")
CONTRACTED = _words("contracted")
COMMANDS = _words("commands")
SUBORDINATORS = _words("subordinators")
NO_SUBJECT = _words("no_subject")
PREPOSITIONS = _words("prepositions")
CONJUNCTIONS = _words("conjunctions")
ADVERBS = _words("adverbs")
PERSONS = _words("persons")
PRONOUNS = _words("pronouns")


def _third(verb: str) -> str:
    if verb.endswith(("s", "x", "sh", "ch", "go", "undergo")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2] not in "aeiou" else f"{verb}s"


_THIRD = {_third(verb): verb for verb in VERBS}
_WH = re.compile(
    r"(?:what|who|whose|which|where|why|how)\b(?!,)|when (?:should|can|do|does|is|are|will|to)\b", re.IGNORECASE
)
_FRAME = re.compile(
    r"(?!at (?:most|least)\b)(?:in|for|during|after|before|at|among|when|if|with|without|on|under|following|unless|"
    r"because|due to|once|while|"
    r"although|though|since|as|by|to|like|unlike|despite|upon|prior to|compared)\b[^,;:]{1,140},\s+",
    re.IGNORECASE,
)
_LONGEST_SUBJECT = 9


@dataclass(frozen=True, slots=True)
class ClauseCore:
    """A clause's subject `text[start:verb]`, and its finite verb `word`; `number` is singular, plural or ""."""

    start: int
    verb: int
    verb_end: int
    word: str
    number: str


def spoken(text: str, start: int = 0, end: int | None = None) -> list[re.Match[str]]:
    """Return the words of `text[start:end]` with their positions in the text."""
    return token_matches(text, "clause", start, end)


def plain(word: re.Match[str]) -> str:
    """Return a word in lower case, with a plain apostrophe."""
    return word[0].lower().replace("’", "'")


def finite(words: list[re.Match[str]], at: int) -> str | None:
    """Return the grammatical number of a finite verb: singular, plural or "" (a modal). None for other words."""
    word = plain(words[at])
    if word in MODALS or word in PAST_AUXILIARIES:
        return ""
    if word in SINGULAR:
        return "singular"
    if word in PLURAL:
        return "plural"
    if word in _THIRD:
        return "singular" if _THIRD[word] not in NOUNS_WITH_S or _object_follows(words, at) else None
    if word in VERBS and at and not _to_before(words, at):
        return "plural" if word not in NOUNS or _object_follows(words, at) else None
    return None


def _object_follows(words: list[re.Match[str]], at: int) -> bool:
    following = plain(words[at + 1]) if at + 1 < len(words) else ""
    return following in OBJECT_NEXT or following[:1].isdigit()


def _to_before(words: list[re.Match[str]], at: int) -> bool:
    """Return whether a word is an infinitive ("to reduce", "can also reduce"), or a noun after an article."""
    return any(
        plain(word) in MODALS | {"to", "not", "the", "a", "an", "does", "do", "did"}
        for word in words[max(0, at - 2) : at]
    )


def core_of(text: str, start: int = 0, end: int | None = None) -> ClauseCore | None:
    """Return subject and verb of the clause at the start of `text[start:end]`; None if they are not certain."""
    words = spoken(text, start, end)
    for at, word in enumerate(words):
        if at > _LONGEST_SUBJECT or (at and plain(word) in SUBORDINATORS):
            return None
        number = finite(words, at)
        if number is None:
            continue
        if not at or plain(words[at - 1]) in NO_SUBJECT:
            if number != "" and at and plain(words[at - 1]) in ("the", "a", "an", "of"):
                continue
            return None
        between = text[words[0].start() : word.start()]
        if "," in between or ";" in between or ":" in between or between.count("(") != between.count(")"):
            return None
        return ClauseCore(words[0].start(), word.start(), word.end(), plain(word), number)
    return None


def frame_end(text: str, start: int = 0) -> int:
    """Return where an adverbial before the subject ("In children, ") ends; `start` without one."""
    found = _FRAME.match(text, start)
    if not found:
        return start
    words = spoken(text, start, found.end())
    clause = plain(words[0]) in CONJUNCTIONS
    return found.end() if not clause or any(finite(words, at) is not None for at in range(1, len(words))) else start


def has_verb(text: str) -> bool:
    """Return whether a text has a finite verb or an imperative."""
    words = spoken(text)
    return any(_says(words, at) for at in range(len(words))) or commands(text) or commands(text[frame_end(text) :])


def _says(words: list[re.Match[str]], at: int) -> bool:
    """Return whether a word is a finite verb, or very probably one: "it's", or an -s or -ed form before an article."""
    word = plain(words[at])
    if finite(words, at) is not None or word in CONTRACTED or (at > 0 and word in PAST):
        return True
    ending = word.endswith("ed") or (word.endswith("s") and not word.endswith(("ss", "us", "is")))
    return 0 < at < len(words) - 1 and ending and plain(words[at + 1]) in ("the", "a", "an", "that", "why", "how")


def commands(text: str) -> bool:
    """Return whether a text begins with an imperative ("Do not use …", "Avoid …")."""
    words = spoken(text)
    return len(words) > 1 and plain(words[0]) in COMMANDS


def begins_question(text: str) -> bool:
    """Return whether a line begins with a question word ("What are the side effects"), as headings of answers do."""
    return bool(_WH.match(text.lstrip("*_ \t")))


def asks(text: str) -> bool:
    """Return whether a sentence ends with a question mark."""
    return text.rstrip("*_\"”’')] \t").endswith("?")


def is_adverb(word: str) -> bool:
    """Return whether a word may be between a subject and its verb."""
    return word in ADVERBS or (word.endswith("ly") and len(word) > 4)


def is_simple(subject: str) -> bool:
    """Return whether a subject is a short noun phrase without a second noun that a pronoun could refer to."""
    words = [plain(word) for word in spoken(subject)]
    return 0 < len(words) <= 5 and not PREPOSITIONS.intersection(words) and not SUBORDINATORS.intersection(words)


def number_of(subject: str, verb_number: str = "") -> str:
    """Return "singular" or "plural", from the verb or else from the ending of the subject's noun; "" for no subject."""
    words = [plain(word) for word in spoken(subject)]
    if verb_number or not words:
        return verb_number
    head = next((at for at, word in enumerate(words) if word in PREPOSITIONS), len(words))
    noun = words[max(0, head - 1)]
    plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is", "as", "os", "ics"))
    return "plural" if plural or "and" in words[:head] or noun in PERSONS else "singular"


def agree(one: str, other: str) -> bool:
    """Return whether two verbs can have the same subject, by their grammatical numbers."""
    return not one or not other or one == other


def third_to_base(verb: str) -> str | None:
    """Return "treat" for "treats"; None for a word that is not in the lists of verbs."""
    return _THIRD.get(verb)


def is_base(verb: str) -> bool:
    return verb in VERBS


def is_said(text: str) -> bool:
    """Return whether a text contains a word."""
    return bool(spoken(text))
