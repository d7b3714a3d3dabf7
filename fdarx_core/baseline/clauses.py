"""Splitting a sentence into clauses that can be read by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fdarx_core.baseline.claim_text import intro_end, joined
from fdarx_core.baseline.grammar import (
    AUXILIARIES,
    MODALS,
    PREPOSITIONS,
    ClauseCore,
    agree,
    commands,
    core_of,
    finite,
    frame_end,
    has_verb,
    is_adverb,
    is_base,
    is_simple,
    number_of,
    plain,
    spoken,
    third_to_base,
)

_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|“[^”]*”|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class Clause:
    """`text[start:end]`, and how it reads by itself: what it shares with the clause before it put in front."""

    start: int
    end: int
    reading: str


@dataclass(frozen=True, slots=True)
class ClauseState:
    """Where a splitting stands: in which sentence, `shown` with what is bracketed or quoted blotted out, and in which
    clause of it.

    `frame` stands before the subject, which begins at `main`, and holds for all clauses ("In children, "). The clause
    at hand begins at `start`, and reads as `lead` and what it says from `own` on; `core` is None of a command.
    """

    said: str
    shown: str
    frame: str
    subject: str
    core: ClauseCore | None
    main: int
    start: int = 0
    own: int = 0
    lead: str = ""

    @property
    def told(self) -> int:
        """Return the position from which another clause can follow."""
        return self.core.verb_end if self.core else self.own

    def clause(self, end: int) -> Clause:
        return Clause(self.start, end, joined(self.lead, self.said[self.own : end]))


def opening(said: str) -> ClauseState:
    """Return the state at the beginning of a sentence."""
    shown = _BRACKETED.sub(lambda found: "_" * len(found[0]), said)
    begun = intro_end(shown)
    main = frame_end(shown, begun)
    core = core_of(shown, main)
    return ClauseState(said, shown, said[begun:main], subject_of(said, core), core, main)


def subject_of(said: str, core: ClauseCore | None) -> str:
    """Return the subject of a clause, with the space that follows it."""
    if core is None:
        return ""
    words = spoken(said, core.start, core.verb)
    end = core.verb
    while len(words) > 1 and is_adverb(plain(words[-1])):
        end = words.pop().start()
    return f"{said[core.start : end].rstrip()} "


_PREPOSITION = re.compile(r"\b(?:in|on|at|for|with|against|by|to|from|during|after|before|of)\b", re.IGNORECASE)
_PARTICIPLE = re.compile(r"\s*(?:\w+ly\s+)?[^\W\d_]+(?:ed|en|wn)\b", re.IGNORECASE)
_FIRST = re.compile(r"\s*[^\W\d_]+\b")
_TO_BE = frozenset(["is", "are", "was", "were"])


def negated(verb: str, before: str, denied: str) -> str | None:
    """Return the negated verb, with the words of `before` that remain before `denied`.

    None if it is not certain which words are replaced: they must follow the only preposition, or the verb.
    """
    denial = _denial(verb)
    kept = _kept(verb, before, denied)
    return None if denial is None or kept is None else f"{denial}{kept} "


def _denial(verb: str) -> str | None:
    if verb in _TO_BE or (verb in MODALS and "n" + "'t" not in verb and verb != "cannot"):
        return "cannot" if verb == "can" else f"{verb} not"
    if base := third_to_base(verb):
        return f"does not {base}"
    return f"do not {verb}" if is_base(verb) else None


def _kept(verb: str, before: str, denied: str) -> str | None:
    prepositions = list(_PREPOSITION.finditer(before))
    if own := _PREPOSITION.match(denied):
        same = [found for found in prepositions if found[0].lower() == own[0].lower()]
        return before[: same[0].start()].rstrip() if len(same) == 1 else None
    if len(prepositions) == 1:
        return before[: prepositions[0].end()]
    if prepositions or not before.strip():
        return None
    if verb in _TO_BE:
        participle = _PARTICIPLE.match(before)
        return None if participle else ""
    modal = _FIRST.match(before) if verb in MODALS else None
    return modal[0] if modal else ""


CONDITION = re.compile(
    r"\b(?:if|unless|until|when|whenever|while|because|since|although|though|where|wherever|whether|how|why|what|"
    r"in case|provided that)\b",
    re.IGNORECASE,
)
_SUBJECT_WHICH = re.compile(r"(?P<subject>[^,;:]{1,80}),\s+which\s+(?P<rest>[^,;:]{1,200}),\s+(?=\w)", re.IGNORECASE)


def relative_of_subject(scene: ClauseState) -> tuple[Clause, ClauseState] | None:
    """Split "Ibuprofen, which is an NSAID, is used …" into its first clause and the state after it."""
    found = _SUBJECT_WHICH.match(scene.shown, scene.main)
    if not found or CONDITION.search(found["rest"]):
        return None
    subject = scene.said[found.start("subject") : found.end("subject")]
    core = _core(scene.shown, found)
    if core is None or not is_simple(subject) or has_verb(subject):
        return None
    lead = f"{scene.frame}{subject} "
    clause = Clause(0, found.end("rest"), joined(lead, scene.said[found.start("rest") : found.end("rest")]))
    return clause, replace(scene, subject=f"{subject} ", core=core, start=found.end(), own=found.end(), lead=lead)


def _core(shown: str, found: re.Match[str]) -> ClauseCore | None:
    """Return the core of the outer clause, where both verbs agree with the same subject."""
    within, beyond = spoken(shown, found.start("rest"), found.end("rest")), spoken(shown, found.end())
    first, second = (finite(words, 0) if words else None for words in (within, beyond))
    if first is None or second is None or not agree(first, second):
        return None
    return ClauseCore(found.start("subject"), beyond[0].start(), beyond[0].end(), plain(beyond[0]), second or first)


def relative_of_name(scene: ClauseState, joint: re.Match[str]) -> ClauseState | None:
    """Return the state after the comma of "… is metabolised by CYP3A4, which …": the end of a sentence, on a name."""
    words = spoken(scene.shown, scene.own, joint.start())
    after = spoken(scene.shown, joint.end())
    if len(words) < 4 or len(after) < 3 or words[-1].end() != joint.start() or "," in scene.shown[joint.end() :]:
        return None
    name, before = words[-1][0], plain(words[-2])
    named = any(character.isupper() or character.isdigit() for character in name)
    if not named or before not in ("by", "with", "to", "against", "called") or finite(after, 0) is None:
        return None
    return replace(scene, core=None, subject="", start=joint.end(), own=joint.end(), lead=f"{name} ")


_JOINT = re.compile(r"(?P<comma>[,;])?(?<!\s)\s+(?P<word>and|but|while|whereas|yet)\s+|(?P<mark>;)\s+", re.IGNORECASE)
_WHICH = re.compile(r",\s+which\s+", re.IGNORECASE)
_SPLICE = re.compile(r",\s+(?=(?:it|they)\s)", re.IGNORECASE)
_ENCLOSED = re.compile(r",\s*(?:which|who|whose)\b[^,]*,")
_PAIRED = re.compile(r"\b(?:both|between|not only|either|neither|whether|rather than)\b", re.IGNORECASE)
_RELATIVE = re.compile(r"\b(?:that|which|who|whom|whose)\b", re.IGNORECASE)
_REPORTED = re.compile(
    r"\b(?:suggest\w*|show\w*|indicat\w*|report\w*|found|finds?|known|know\w*|believ\w*|think|thought|reveal\w*|likely|"
    r"unlikely|possible|important|recommend\w*|advis\w*|mean\w*|confirm\w*|demonstrat\w*|conclud\w*|say|says|said|so|"
    r"such)\s+that\b",
    re.IGNORECASE,
)
_NOT = re.compile(r"not\s+", re.IGNORECASE)


def clauses_of(text: str, start: int, end: int) -> list[Clause]:
    """Return the clauses of the sentence `text[start:end]`, in order and without overlap."""
    return [Clause(start + one.start, start + one.end, one.reading) for one in _split(opening(text[start:end]))]


def _split(scene: ClauseState) -> Iterator[Clause]:
    if parted := relative_of_subject(scene):
        first, scene = parted
        yield first
    for joint in _joints(scene):
        if joint.start() >= scene.told and (following := _following(scene, joint)):
            yield scene.clause(joint.start())
            scene = following
    yield scene.clause(len(scene.said))


def _joints(scene: ClauseState) -> list[re.Match[str]]:
    if scene.core is None and not commands(scene.shown[scene.main :]):
        return []
    found = [one for pattern in (_JOINT, _WHICH, _SPLICE) for one in pattern.finditer(scene.shown, scene.own)]
    return sorted(found, key=lambda one: one.start())


def _following(scene: ClauseState, joint: re.Match[str]) -> ClauseState | None:
    """Return the state after a conjunction, where a new clause begins there."""
    if scene.core is None:
        return _second_command(scene, joint)
    if joint.re is _WHICH:
        return relative_of_name(scene, joint)
    before = _ENCLOSED.sub("", scene.shown[scene.core.verb_end : joint.start()])
    paired = _PAIRED.search(scene.shown, scene.own, joint.start())
    if paired or CONDITION.search(before) or _REPORTED.search(before):
        return None
    relative = _RELATIVE.search(before)
    bare = _named(joint, "word") == "and" and not _named(joint, "comma")
    own = None if relative and bare else _own_subject(scene, joint, bare=bare)
    if own or relative:
        return own
    return _shared_subject(scene, joint) or _but_not(scene, joint, before)


def _own_subject(scene: ClauseState, joint: re.Match[str], *, bare: bool) -> ClauseState | None:
    """Return the state at a clause with its own subject, after ", and", ";" or "but".

    After a bare "and" the subject must be short, and the verb an auxiliary.
    """
    word, comma = _named(joint, "word"), _named(joint, "comma")
    if joint.re is _JOINT and not comma and word in ("while", "whereas"):
        return None
    main = joint.end() if bare else frame_end(scene.shown, joint.end())
    core = core_of(scene.shown, main)
    if core is None or _is_adverbial(scene, core) or (bare and not _stands_out(scene, core)):
        return None
    if _means(scene, core):
        return replace(scene, core=core, start=joint.end(), own=core.verb, lead=f"{scene.frame}{scene.subject}")
    frame = "" if main > joint.end() or not word or word == "but" else scene.frame
    return replace(
        scene,
        frame=frame,
        subject=subject_of(scene.said, core),
        core=core,
        start=joint.end(),
        own=joint.end(),
        lead=frame,
    )


def _is_adverbial(scene: ClauseState, core: ClauseCore) -> bool:
    """Return whether the words before the verb ("most commonly") are not a subject."""
    words = [plain(word) for word in spoken(scene.shown, core.start, core.verb)]
    return words not in (["most"], ["more"]) and all(map(is_adverb, words))


def _means(scene: ClauseState, core: ClauseCore) -> bool:
    """Return whether "they" refers to the subject of the clause before."""
    told = number_of(scene.subject, scene.core.number if scene.core else "")
    return scene.shown[core.start : core.verb].strip().lower() == "they" and told == "plural"


def _stands_out(scene: ClauseState, core: ClauseCore) -> bool:
    subject = [plain(word) for word in spoken(scene.shown, core.start, core.verb)]
    return core.word in AUXILIARIES and len(subject) <= 4 and not (PREPOSITIONS | {"and", "or"}).intersection(subject)


def _shared_subject(scene: ClauseState, joint: re.Match[str]) -> ClauseState | None:
    """Return the state at a verb after "and" or "but" whose subject is that of the clause before."""
    if scene.core is None or _named(joint, "word") not in ("and", "but", "yet") or _no_subject(scene.subject):
        return None
    words = spoken(scene.shown, joint.end(), min(len(scene.shown), joint.end() + 120))
    at = next((at for at, word in enumerate(words) if not is_adverb(plain(word))), None)
    number = None if at is None else finite(words, at)
    if at is None or number is None or len(words) < at + 2 or not agree(number, scene.core.number):
        return None
    verb = plain(words[at])
    if CONDITION.search(scene.shown, joint.end()) and _alike(verb, scene.core.word):
        return None
    core = ClauseCore(scene.core.start, words[at].start(), words[at].end(), verb, number or scene.core.number)
    return replace(scene, core=core, start=joint.end(), own=joint.end(), lead=f"{scene.frame}{scene.subject}")


def _no_subject(subject: str) -> bool:
    """Return whether a subject ("It is important to", "There is", "What matters is") can have no second verb."""
    return subject.strip().lower() in ("", "there", "here", "what", "who", "which", "that")


def _alike(verb: str, other: str) -> bool:
    """Return whether two verbs have the same mood, so that a following condition may apply to both."""
    return verb == other or (verb in MODALS) == (other in MODALS)


def _second_command(scene: ClauseState, joint: re.Match[str]) -> ClauseState | None:
    before = scene.shown[scene.own : joint.start()]
    after = scene.shown[joint.end() :]
    if _named(joint, "word") != "and" or not commands(after) or len(spoken(before)) < 3 or len(spoken(after)) < 3:
        return None
    if any(pattern.search(before) or pattern.search(after) for pattern in (CONDITION, _RELATIVE, _PAIRED)):
        return None
    return replace(scene, start=joint.end(), own=joint.end(), lead=scene.frame)


def _but_not(scene: ClauseState, joint: re.Match[str], before: str) -> ClauseState | None:
    """Return the clause "A does not treat C" of "A treats B, but not C"."""
    if scene.core is None or _named(joint, "word") != "but" or _no_subject(scene.subject):
        return None
    denied = _NOT.match(scene.shown, joint.end())
    rest = scene.shown[denied.end() :] if denied else ""
    if denied is None or has_verb(rest) or CONDITION.search(rest) or "," in before:
        return None
    said = negated(scene.core.word, before, rest)
    if said is None:
        return None
    return replace(scene, start=joint.end(), own=denied.end(), lead=f"{scene.frame}{scene.subject}{said}", subject="")


def _named(joint: re.Match[str], name: str) -> str:
    return (joint.groupdict().get(name) or "").lower()
