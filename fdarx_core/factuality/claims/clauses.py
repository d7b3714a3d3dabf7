"""A sentence taken apart where a coordination adds a fact of its own, and nowhere else.

"X is contraindicated in pregnancy and should be taken with food" says two things; "nausea and vomiting" are parts of
one. Where it is not certain what belongs to what (a condition that may govern both sides, a relative clause that is
still open, an "or"), the sentence stays whole: a claim that says two things is better than one that says another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from fdarx_core.factuality.claims.lexicon import AUXILIARIES, MODALS, PREPOSITIONS
from fdarx_core.factuality.claims.negation import negated
from fdarx_core.factuality.claims.relatives import CONDITION, relative_of_name, relative_of_subject
from fdarx_core.factuality.claims.scene import Clause, Scene, opening, subject_of
from fdarx_core.factuality.claims.words import (
    Core,
    agree,
    commands,
    core_of,
    finite,
    frame_end,
    has_verb,
    is_adverb,
    number_of,
    plain,
    spoken,
)

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
    """The clauses of the sentence `text[start:end]`, in order and apart."""
    return [Clause(start + one.start, start + one.end, one.reading) for one in _split(opening(text[start:end]))]


def _split(scene: Scene) -> Iterator[Clause]:
    if parted := relative_of_subject(scene):
        first, scene = parted
        yield first
    for joint in _joints(scene):
        if joint.start() >= scene.told and (following := _following(scene, joint)):
            yield scene.clause(joint.start())
            scene = following
    yield scene.clause(len(scene.said))


def _joints(scene: Scene) -> list[re.Match[str]]:
    if scene.core is None and not commands(scene.shown[scene.main :]):
        return []
    found = [one for pattern in (_JOINT, _WHICH, _SPLICE) for one in pattern.finditer(scene.shown, scene.own)]
    return sorted(found, key=lambda one: one.start())


def _following(scene: Scene, joint: re.Match[str]) -> Scene | None:
    """The scene past a joint, where a clause of its own begins there."""
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


def _own_subject(scene: Scene, joint: re.Match[str], *, bare: bool) -> Scene | None:
    """Past ", and", ";", "but": a subject with its verb. Past a bare "and" it must be short, and the verb an "is"."""
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


def _is_adverbial(scene: Scene, core: Core) -> bool:
    """Whether what stands before the verb ("most commonly") is no subject."""
    words = [plain(word) for word in spoken(scene.shown, core.start, core.verb)]
    return words not in (["most"], ["more"]) and all(map(is_adverb, words))


def _means(scene: Scene, core: Core) -> bool:
    """Whether "they" are those of whom the clause before speaks."""
    told = number_of(scene.subject, scene.core.number if scene.core else "")
    return scene.shown[core.start : core.verb].strip().lower() == "they" and told == "plural"


def _stands_out(scene: Scene, core: Core) -> bool:
    subject = [plain(word) for word in spoken(scene.shown, core.start, core.verb)]
    return core.word in AUXILIARIES and len(subject) <= 4 and not (PREPOSITIONS | {"and", "or"}).intersection(subject)


def _shared_subject(scene: Scene, joint: re.Match[str]) -> Scene | None:
    """Past "and" or "but": a verb, of which the subject is that of the clause before."""
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
    core = Core(scene.core.start, words[at].start(), words[at].end(), verb, number or scene.core.number)
    return replace(scene, core=core, start=joint.end(), own=joint.end(), lead=f"{scene.frame}{scene.subject}")


def _no_subject(subject: str) -> bool:
    """ "It is important to", "There is", "What matters is": nothing that a second verb could be said of."""
    return subject.strip().lower() in ("", "there", "here", "what", "who", "which", "that")


def _alike(verb: str, other: str) -> bool:
    """Verbs of one mood, which a condition that follows may govern both."""
    return verb == other or (verb in MODALS) == (other in MODALS)


def _second_command(scene: Scene, joint: re.Match[str]) -> Scene | None:
    before = scene.shown[scene.own : joint.start()]
    after = scene.shown[joint.end() :]
    if _named(joint, "word") != "and" or not commands(after) or len(spoken(before)) < 3 or len(spoken(after)) < 3:
        return None
    if any(pattern.search(before) or pattern.search(after) for pattern in (CONDITION, _RELATIVE, _PAIRED)):
        return None
    return replace(scene, start=joint.end(), own=joint.end(), lead=scene.frame)


def _but_not(scene: Scene, joint: re.Match[str], before: str) -> Scene | None:
    """ "A treats B, but not C": "A does not treat C"."""
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
