"""Relative clauses that state something of their own, of a subject or a name that is certain."""

from __future__ import annotations

import re
from dataclasses import replace

from fdarx_core.factuality.claims.readings import joined
from fdarx_core.factuality.claims.scene import Clause, Scene
from fdarx_core.factuality.claims.words import Core, agree, finite, has_verb, is_simple, plain, spoken

CONDITION = re.compile(
    r"\b(?:if|unless|until|when|whenever|while|because|since|although|though|where|wherever|whether|how|why|what|"
    r"in case|provided that)\b",
    re.IGNORECASE,
)
_SUBJECT_WHICH = re.compile(r"(?P<subject>[^,;:]{1,80}),\s+which\s+(?P<rest>[^,;:]{1,200}),\s+(?=\w)", re.IGNORECASE)


def relative_of_subject(scene: Scene) -> tuple[Clause, Scene] | None:
    """Of "Ibuprofen, which is an NSAID, is used …" the first statement, and the scene past it."""
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


def _core(shown: str, found: re.Match[str]) -> Core | None:
    """Of the clause around, where both verbs ask for the same subject."""
    within, beyond = spoken(shown, found.start("rest"), found.end("rest")), spoken(shown, found.end())
    first, second = (finite(words, 0) if words else None for words in (within, beyond))
    if first is None or second is None or not agree(first, second):
        return None
    return Core(found.start("subject"), beyond[0].start(), beyond[0].end(), plain(beyond[0]), second or first)


def relative_of_name(scene: Scene, joint: re.Match[str]) -> Scene | None:
    """The scene past the comma of "… is metabolised by CYP3A4, which …": the end of a sentence, on a name."""
    words = spoken(scene.shown, scene.own, joint.start())
    after = spoken(scene.shown, joint.end())
    if len(words) < 4 or len(after) < 3 or words[-1].end() != joint.start() or "," in scene.shown[joint.end() :]:
        return None
    name, before = words[-1][0], plain(words[-2])
    named = any(character.isupper() or character.isdigit() for character in name)
    if not named or before not in ("by", "with", "to", "against", "called") or finite(after, 0) is None:
        return None
    return replace(scene, core=None, subject="", start=joint.end(), own=joint.end(), lead=f"{name} ")
