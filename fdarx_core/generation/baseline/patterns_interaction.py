"""How labels state the effect of one thing on another, and interactions."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Groups, Rule
from fdarx_core.generation.baseline.scene import Scene, sound

_EFFECT_VERB = (
    r"(?:increase|decrease|reduce|enhance|potentiate|diminish|prolong|inhibit|blunt|alter|impair"
    r"|lower|raise|elevate|worsen|exacerbate"
    r"|augment|mask|antagonize|attenuate|interfere with|affect|delay|slow)"
)


def _effect(groups: Groups, scene: Scene) -> Groups | None:
    target = groups["z"].strip()
    if (
        not sound(target, 90)
        or len(target.split()) < 2
        or re.match(r"(?:or|and|to|in|by|from|at|with|after|during|but|until|as|over)\b", target)
        or re.search(r"\d", target)
    ):
        return None
    return {**groups, "z": target}


RULES = (
    Rule(
        "may_effect",
        ("may ", "can ", "could "),
        re.compile(
            rf"^(?P<np>[^;:]{{3,90}}?) (?P<aux>may|can|could) (?:also |significantly |further )?{_EFFECT_VERB}"
            rf" (?P<z>(?:the |an? )?[^.;:]{{6,90}}?)"
            r"(?=,|\.|;|:|\(|(?<!plasma)(?<!exposure)(?<!serum) and\b| (?:by|when|in|which|leading"
            r"|resulting|if|due|because|to|as|with|or|for"
            r"|during|through)\b|$)",
        ),
        "What effect {aux} {np} have on {z}",
        "factual",
        2.5,
        shape=_effect,
    ),
    Rule(
        "does_effect",
        (
            "increases",
            "decreases",
            "reduces",
            "prolongs",
            "inhibits",
            "enhances",
            "potentiates",
            "lowers",
            "raises",
            "impairs",
        ),
        re.compile(
            r"^(?P<np>[^;:%]{3,110}?) (?:significantly |also |slightly |markedly )?(?:increases|decreases"
            r"|reduces|prolongs|inhibits|enhances|potentiates|lowers|raises|impairs) (?P<z>(?:the )?[^.;:%\d]{6,80}?)"
            r"(?=(?<!plasma)(?<!exposure)(?<!serum) and\b| (?:by|from|to|in|when|compared"
            r"|\d|approximately|with|leading)\b|[.;:(,]|$)",
        ),
        "What effect does {np} have on {z}",
        "factual",
        2.3,
        shape=_effect,
    ),
    Rule(
        "did_effect",
        ("increased", "decreased", "reduced", "prolonged", "lowered"),
        re.compile(
            r"^(?P<np>[^;:%]{5,110}?) (?:significantly |also |slightly |markedly )?(?:increased|decreased"
            r"|reduced|prolonged|lowered) (?P<z>(?:the )?[^.;:%\d]{6,80}?)(?= (?:by|from|to|in|when|compared"
            r"|and|\d|approximately|with|of approximately)\b|[.;:(,]|$)",
        ),
        "What effect did {np} have on {z}",
        "factual",
        2.5,
        shape=_effect,
    ),
    Rule(
        "coadministration",
        ("administ", "concomitant", "concurrent", "use of"),
        re.compile(
            r"^(?P<np>(?:The )?(?:co-?administration|concomitant (?:use|administration|treatment|therapy)"
            r"|concurrent (?:use|administration|treatment|therapy)|simultaneous administration|combined use"
            r"|use)"
            r" (?:of|with) [^;:]{3,110}?) (?P<v>is not recommended|should be avoided|is contraindicated|is"
            r" not generally recommended|is generally not recommended|should be undertaken|may|can|has|have"
            r"|did|does|was|is|results?|resulted|increases?|increased|decreases?|decreased)\b(?=.{0,})",
            re.I,
        ),
        "What does the {drug} label say about {np}",
        "factual",
        2.3,
    ),
)
