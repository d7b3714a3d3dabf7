"""How labels state the results of studies, and use in special populations."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Groups, Rule
from fdarx_core.generation.baseline.scene import Scene, sound

_NUMBER_NEXT = r"(?:\s?\([^)]{1,40}\))?"


def _share(groups: Groups, scene: Scene) -> Groups | None:
    people, deed = groups["who"], groups["vp"].rstrip(" ,.")
    fine = (
        sound(people, 110)
        and sound(deed, 110)
        and "%" not in people + deed
        and not re.search(r"\bcompared\b|\bversus\b|\brespectively\b", people)
    )
    return {**groups, "who": people, "vp": deed} if fine else None


def _study(groups: Groups, scene: Scene) -> Groups | None:
    return {**groups, "aux": groups["aux"].split()[0], "been": " been" if " been" in groups["aux"] else ""}


def _average(groups: Groups, scene: Scene) -> Groups | None:
    phrase = groups["np"]
    if not re.search(r" (?:of|for|in|on|to|between|from) ", phrase):
        return None
    return {**groups, "np": phrase if phrase.startswith("the ") else f"the {phrase}"}


RULES = (
    Rule(
        "share",
        ("%", "percent"),
        re.compile(
            rf"^(?:[^,;:]{{0,60}}?, )?(?:a total of |approximately |about |up to |nearly |an? (?:estimated"
            r"|average of) |less than |more than |over |at least )*(?P<amt>[<>≤≥~]?\s?\d+(?:\.\d+)?\s?(?:%"
            rf"|percent)){_NUMBER_NEXT} of (?P<who>[^,;:%]{{4,110}}?) "
            r"(?P<vp>(?:were|was|is|are|had|have|has|experienced|discontinued|reported|developed|achieved"
            r"|showed|received|withdrew|completed|met|maintained|improved|responded|remained|do|did) [^,;:%]{4,100}?"
            r"|experienced|discontinued)(?=,|;|:|\.?$| compared| versus| while| and \d)",
            re.I,
        ),
        "What percentage of {who} {vp}",
        "numeric",
        2.9,
        True,
        shape=_share,
    ),
    Rule(
        "share_of",
        ("%", "percent"),
        re.compile(
            r"^Of (?P<who>[^,;:%]{5,110}), (?:approximately |about |nearly )?\d+(?:\.\d+)?\s?(?:%|percent)"
            r"(?:\s?\([^)]{1,40}\))? (?P<vp>(?:were|had|experienced|discontinued|reported|developed|received"
            r"|completed) [^,;:%]{3,100}?)(?=,|;|:|\.?$| compared| while| and \d)"
        ),
        "What percentage of {who} {vp}",
        "numeric",
        2.9,
        True,
        shape=_share,
    ),
    Rule(
        "occurred_in",
        ("%",),
        re.compile(
            r"^(?P<np>[^;:%\d]{4,110}?) (?:occurred|occurs|occur|was reported|were reported|has been reported"
            r"|have been reported|was observed|were observed|was seen|were seen|developed|was noted|were"
            r" noted|may occur) in (?:approximately |about |up to |less than |more than |only )*"
            rf"[<>≤≥~]?\s?\d+(?:\.\d+)?\s?%(?: to \d+\s?%)?{_NUMBER_NEXT} of (?P<who>[^,;:%]{{4,110}}?)(?=,"
            r"|;|:|\.?$| compared| versus| and )",
            re.I,
        ),
        "In what percentage of {who} did {np} occur",
        "numeric",
        2.9,
        True,
        shape=lambda groups, scene: groups if sound(groups["who"], 110) else None,
    ),
    Rule(
        "defined",
        ("defined as",),
        re.compile(r"^(?P<np>[^;:]{5,110}?) (?P<aux>was|were|is|are) (?:prospectively )?defined (?:as|by) (?=.{10})"),
        "How {aux} {np} defined",
        "factual",
        2.5,
        placed=True,
    ),
    Rule(
        "geriatric_share",
        ("65",),
        re.compile(r"\b\d+(?:\.\d+)?\s?(?:%|percent)[^.]{0,60}?65"),
        "What proportion of patients in clinical studies of {drug} were aged 65 years or older",
        "numeric",
        2.9,
        True,
        codes=frozenset({"34082-8", "43684-0", "42232-9"}),
    ),
    Rule(
        "geriatric",
        ("elderly", "geriatric", "65"),
        re.compile(
            r"\b(?:did not include sufficient|no overall differences|overall differences|dose selection for"
            r" an elderly|greater sensitivity|dosage for an? (?:elderly|geriatric)|at greater risk)\b",
            re.I,
        ),
        "What does the {drug} label say about {matter} in geriatric patients",
        "factual",
        2.3,
        codes=frozenset({"34082-8"}),
        shape=lambda groups, scene: {
            **groups,
            "matter": "dose selection"
            if "selection" in scene.low or "dosage for" in scene.low
            else "risk of adverse reactions"
            if "risk" in scene.low
            else "differences in response",
        },
    ),
    Rule(
        "milk",
        ("milk", "breast"),
        re.compile(
            r"\b(?:excreted|present|secreted|detected|found|distributed|pass(?:es)?|concentrations?|levels?"
            r"|appears?)\b[^.]{0,60}\b(?:human |breast |maternal )*milk\b",
            re.I,
        ),
        "What does the {drug} label say about presence in human milk",
        "factual",
        2.5,
        codes=frozenset({"34080-2", "77290-5", "43684-0", "42232-9", "34076-0", "42228-7"}),
    ),
    Rule(
        "pregnancy_studies",
        ("pregnan",),
        re.compile(
            r"\b(?:no|not|insufficient|limited|available)\b[^.]{0,60}?\b(?:adequate|well.controlled|data"
            r"|studies)\b[^.]{0,90}?pregnan",
            re.I,
        ),
        "What human data on the use of {drug} in pregnancy does the label describe",
        "factual",
        2.3,
        codes=frozenset({"42228-7", "34079-4", "43684-0", "34076-0", "42232-9", "77290-5", "34077-8"}),
    ),
    Rule(
        "pregnancy_category",
        ("pregnancy category",),
        re.compile(r"pregnancy category:? [A-DX]\b", re.I),
        "Which pregnancy category does the {drug} label state",
        "factual",
        2.3,
    ),
    Rule(
        "evaluated_in",
        ("evaluated", "studied", "established", "demonstrated", "assessed", "investigated"),
        re.compile(
            r"^(?P<np>(?:The )?(?:[\w-]+ ){0,3}?(?:efficacy|effectiveness|safety|effects?|use)\b[^;:]{3,130}?)"
            r" (?P<aux>was|were|has been|have been|is) (?P<v>evaluated|studied|established|demonstrated|assessed"
            r"|investigated|supported)\b (?=.{10})",
        ),
        "How {aux} {np}{been} {v}",
        "factual",
        2.5,
        shape=_study,
    ),
    Rule(
        "endpoint",
        ("endpoint", "end point", "outcome", "efficacy measure", "efficacy variable"),
        re.compile(
            r"^(?P<np>The (?:co-)?(?:primary|secondary|key)[^,;:]{0,100}?(?:endpoints?|end points?|outcomes?"
            r"|measures?|variables?)[^,;:]{0,60}?) (?P<aux>was|were|is|are) (?=.{8})",
            re.I,
        ),
        "What {aux} {np}",
        "factual",
        2.6,
    ),
    Rule(
        "mean_of",
        ("mean ", "median ", "average "),
        re.compile(r"^(?P<np>(?:The )?(?:mean|median|average) [^,;:]{4,110}?) (?P<aux>was|were|is|are) (?=.*\d)", re.I),
        "What {aux} {np}",
        "numeric",
        2.2,
        True,
        codes=frozenset({"34092-7", "34084-4", "43685-7", "34090-1", "43682-4"}),
        shape=_average,
    ),
)
