"""Clauses by closed word classes alone: which read as sentences, and which refer to a sentence before them.

No list of nouns, verbs or adjectives is used: a verb is known as finite if it is an auxiliary, follows a personal
pronoun, or ends in s before a determiner. What these do not show stays together.
"""

from __future__ import annotations

import re

from fdarx_core.baseline.tokens import pattern, word_set

_AUXILIARIES = word_set("auxiliaries")
_ARTICLES = word_set("articles")
_DETERMINERS = word_set("determiners")
_PREPOSITIONS = word_set("prepositions")
_SUBORDINATORS = word_set("subordinators")
_PERSONS = word_set("persons")
_ANAPHORS = word_set("anaphors")
"""Words that may refer to an earlier sentence."""
_BEFORE_NOUNS = _PREPOSITIONS | _SUBORDINATORS | _AUXILIARIES | word_set("before_nouns")

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|“[^”]*”|\"[^\"]*\"")
_S_VERB = re.compile(r"(?!(?:always|besides|perhaps|sometimes|towards)\b)\w+[^\Wsui]s")
_JOINT = pattern("clause_joint")
_MOST_JOINTS = 50
_THIS_DRUG = re.compile(r"this (?:drug|medication|medicine|product)\b(?!-)", re.IGNORECASE)
_WITHIN = pattern("within_sentence", re.I)
_EXPLETIVE = pattern("expletive", re.I)


def lower_words(text: str) -> list[str]:
    """Return the words of a text in lower case; an apostrophe ends a word: "It’s" gives "it" and "s"."""
    return _WORD.findall(text.lower())


def finite_at(words: list[str]) -> int | None:
    """Return the position of the first of some lower-case words that is certainly a finite verb, None without one."""
    for at, word in enumerate(words):
        before, noun = words[at - 1] if at else "", not _DETERMINERS.isdisjoint(words[at + 1 : at + 2])
        ending = at and noun and _S_VERB.fullmatch(word) and word not in _DETERMINERS | _PREPOSITIONS
        person = (before in _PERSONS or (at == 1 and before == "it")) and word not in _SUBORDINATORS
        if (word in _AUXILIARIES and before != "to") or person or ending:
            return at
    return None


def refers_back(reading: str) -> bool:
    """Return whether a word before the first noun refers to an earlier sentence: "They …", "If it …", "For that …".

    "This drug …" does not: it refers to the drug of the answer.
    """
    for found in _WORD.finditer(reading):
        word = found[0].lower()
        if word in _ANAPHORS:
            return not any(one.match(reading, found.start()) for one in (_WITHIN, _EXPLETIVE, _THIS_DRUG))
        if word not in _BEFORE_NOUNS and not word.isdigit():
            return False
    return False


def clauses_of(sentence: str) -> list[tuple[int, int, str]]:
    """Return the clauses of a sentence that read as sentences: start, end, and the subject to put in front.

    Semicolons, coordinating conjunctions, "while" and "whereas" separate them. A clause that refers to the one before,
    or that a subordinator in it may govern ("if …, and …"), stays with it. The subject is "" unless two verbs share it.
    """
    shown = _BRACKETED.sub(lambda found: "_" * len(found[0]), sentence)
    joints = list(_JOINT.finditer(shown))[:_MOST_JOINTS]
    clauses, start, subject = list[tuple[int, int, str]](), 0, ""
    for at, joint in enumerate(joints):
        end = joints[at + 1].start() if at + 1 < len(joints) else len(shown)
        first = subject + sentence[start : joint.start()]
        opening = _opening(joint, first, shown[joint.end() : end])
        if opening is not None:
            clauses.append((start, joint.start(), subject))
            start, subject = joint.end(), opening
    return [*clauses, (start, len(sentence), subject)]


def _opening(joint: re.Match[str], first: str, second: str) -> str | None:
    """Return the subject that the clause behind a joint shares with the one before, "" if none, None if it is none."""
    before, after = lower_words(first), lower_words(second)
    verb, second_verb = finite_at(before), finite_at(after)
    orders = after[:1] == ["never"] or after[:2] in (["do", "not"], ["don", "t"])
    if joint["stop"] and len(before) > 2 and not refers_back(second):
        return "" if orders or (second_verb and _SUBORDINATORS.isdisjoint(after[:second_verb])) else None
    governed = not (_SUBORDINATORS | {"only", "not"}).isdisjoint(before) or not _PREPOSITIONS.isdisjoint(before[:1])
    if not verb or governed or second_verb is None or not _ANAPHORS.isdisjoint(after):
        return None
    if second_verb == 0 and not orders:
        subject = first[: list(_WORD.finditer(first))[verb].start()]
        return None if re.search("[,;:]", subject) or not _ANAPHORS.isdisjoint(before) else subject
    clear = _SUBORDINATORS.isdisjoint(after[:second_verb]) and _PREPOSITIONS.isdisjoint(after[:1])
    return "" if clear and (joint["comma"] or after[0] in _ARTICLES) else None
