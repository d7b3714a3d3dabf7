"""How labels state pharmacokinetics."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Groups, Rule
from fdarx_core.generation.baseline.naming import is_combination
from fdarx_core.generation.baseline.scene import Scene

_COPULA = r"(?P<aux>is|are|was|were|ranges?|ranged|averages?|averaged|approximates|has been)"

_PAST = frozenset({"ranged", "averaged"})
_PEOPLE = re.compile(r" in (?:patients|subjects|elderly|pediatric|healthy|children|adults|infants)\b[^,.;()]{0,60}")


def _of_drug(groups: Groups, scene: Scene) -> Groups | None:
    """Says whose quantity it is, and turns "ranges" and "averaged" into "is" and "was"."""
    phrase, aux = groups["np"], groups["aux"]
    if not re.search(r" (?:of|for) ", phrase):
        if is_combination(scene.drug) or not scene.about_drug:
            return None
        phrase = f"{phrase} of {scene.drug}"
    if phrase.split()[0] not in ("the", "a", "an"):
        phrase = f"the {phrase}"
    if re.search(r"\d ?(?:[nm]|mc|µ)g", phrase):
        return None
    people = _PEOPLE.search(scene.clause.partition(groups["np"])[2])
    if people and " in " not in phrase and scene.clause.count(" in ") == 1:
        phrase += people.group()
    plain = aux if aux in ("is", "are", "was", "were") else "was" if aux in _PAST else "is"
    return {**groups, "np": phrase, "aux": plain}


def _quantity(name: str, gate: tuple[str, ...], words: str, weight: float) -> Rule:
    pattern = re.compile(
        rf"^(?P<np>[^,;:]{{0,60}}?\b(?:{words})(?: \([^)]{{1,30}}\))?(?: [^,;:]{{1,80}}?)?) {_COPULA} "
        r"(?!not |unknown)(?=[^.;]{0,60}\d)",
        re.I,
    )
    return Rule(name, gate, pattern, "What {aux} {np}", "numeric", weight, True, shape=_of_drug)


RULES = (
    _quantity("half_life", ("half-li",), r"half-li(?:fe|ves)", 3.0),
    _quantity("clearance", ("clearance",), r"(?:renal|total|systemic|body|plasma|oral|apparent) clearance", 2.6),
    _quantity("volume", ("volume of distribution",), r"volume of distribution", 3.0),
    _quantity("bioavailability", ("bioavailab",), r"bioavailability", 3.0),
    _quantity(
        "time_to_peak", ("tmax", "time to"), r"tmax|time to (?:peak|maximum|reach)[^,;:]{0,50}?|time to onset", 2.8
    ),
    _quantity(
        "peak",
        ("cmax", "auc", "concentration"),
        r"Cmax|AUC\S*|(?:peak|maximum|steady.state)[^,;:]{0,30}? concentrations?",
        2.2,
    ),
    _quantity(
        "binding",
        ("bind", "bound"),
        r"protein binding|bound fraction|unbound fraction|binding to (?:plasma|serum) proteins?",
        3.0,
    ),
    Rule(
        "has_quantity",
        ("half-li", "volume of", "bioavailab", "clearance", "molecular weight"),
        re.compile(
            r"^(?P<s>[^,;:]{3,60}?) (?:has|have|had) an? (?P<q>[^,;:]{0,40}?(?:half-life|volume of distribution"
            r"|bioavailability|clearance|molecular weight)(?: \([^)]*\))?) of .*\d",
            re.I,
        ),
        "What is the {q} of {s}",
        "numeric",
        3.0,
        True,
    ),
    Rule(
        "eliminated_half_life",
        ("half-li",),
        re.compile(
            r"^(?P<s>[^,;:]{3,60}?) (?:is|are|was|were) (?:\w+ ){1,5}with an? (?P<q>[^,;:]{0,40}?half-life)"
            r" of .*\d",
            re.I,
        ),
        "What is the {q} of {s}",
        "numeric",
        3.0,
        True,
    ),
    Rule(
        "bound_to_protein",
        ("bound",),
        re.compile(
            r"^(?P<s>[^,;:(]{3,60}?) (?P<aux>is|are|was|were) [^;:]{0,70}?bound to (?P<what>(?:[\w-]+ ){0,3}?"
            r"(?:proteins?|albumin|globulins?))",
            re.I,
        ),
        "To what extent {aux} {s} bound to {what}",
        "factual",
        3.0,
    ),
    Rule(
        "peak_reached",
        ("peak", "maxim"),
        re.compile(
            r"^(?P<np>[^,;:\d]{0,30}?\b(?:peak|maxim(?:um|al))[^,;:\d]{0,60}?(?:concentrations?|levels?)"
            r"(?: \([^)]*\))?(?: (?:of|for) [^,;:\d]{3,50}?)?) "
            r"(?P<aux>is|are|was|were) (?:\w+ly )?(?P<v>reached|attained|achieved|observed|seen|obtained)\b.*\d.*"
            r"(?:hour|minute|\bhr?s?\b|day)",
            re.I,
        ),
        "When {aux} {np} {v}",
        "numeric",
        2.8,
        True,
    ),
    Rule(
        "peak_occurs",
        ("peak", "maxim"),
        re.compile(
            r"^(?P<np>[^,;:\d]{0,30}?\b(?:peak|maxim(?:um|al))[^,;:\d]{0,60}?(?:concentrations?|levels?)"
            r"(?: \([^)]*\))?(?: (?:of|for) [^,;:]{3,50}?)?) "
            r"(?:occur|occurs|occurred) .*\d.*(?:hour|minute|\bhr?s?\b|day)",
            re.I,
        ),
        "What is the time to {np}",
        "numeric",
        2.8,
        True,
    ),
    Rule(
        "metabolised",
        ("metaboli", "biotransform"),
        re.compile(
            r"^(?P<s>[^,;:]{3,60}?) (?P<aux>is|are|was|were) (?:\w+ly |also |not )*(?:metaboli[sz]ed|biotransformed)\b"
            r"(?=.{8})",
            re.I,
        ),
        "How {aux} {s} metabolized",
        "factual",
        2.6,
    ),
    Rule(
        "metabolism_enzymes",
        ("metabolism",),
        re.compile(
            r"^(?=.*\b(?:CYP|UGT|cytochrome|glucuronid|oxidati|hydroxyl|hydroly)).*?\bmetabolism of (?P<s>[^,;:"
            r"()]{3,40}?)(?= (?:is|was|by|occurs|via|to|in|involves)\b|,|\.)",
        ),
        "By which enzymes or pathways is {s} metabolized",
        "factual",
        2.4,
    ),
    Rule(
        "excreted",
        ("excreted", "eliminated", "recovered"),
        re.compile(
            r"^(?P<s>[^,;:%\d]{3,60}?) (?P<aux>is|are|was|were) (?:\w+ly |also )*(?P<v>excreted|eliminated)\b"
            r"(?!.{0,12}milk).{4,40}?(?:urine|feces|renal|bile|kidney|metabolism|hepatic)",
            re.I,
        ),
        "How {aux} {s} {v}",
        "factual",
        2.4,
    ),
    Rule(
        "food",
        ("food", "meal"),
        re.compile(
            r"^(?:The )?(?:presence of )?(?:food|administration with food|a (?:standard )?high.fat meal)\b"
            r"(?! (?:and|poison|pipe|allerg))",
            re.I,
        ),
        "What effect does food have on the absorption of {drug}",
        "factual",
        2.8,
        codes=frozenset({"34090-1", "43682-4", "34068-7", "34073-7"}),
    ),
)
