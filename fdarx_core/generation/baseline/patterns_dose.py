"""How labels state doses, their adjustment and administration."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Groups, Rule
from fdarx_core.generation.baseline.scene import Scene


def _whose_dose(groups: Groups, scene: Scene) -> Groups | None:
    phrase = groups["np"]
    if phrase.split()[0] not in ("the", "a", "an", "each"):
        phrase = f"the {phrase}"
    aux = groups["aux"].lower()
    limit = " not exceed" if "exceed" in aux else " be" if aux.endswith(" be") else ""
    return {**groups, "np": phrase, "aux": aux.split()[0], "end": limit}


def _adjustment(groups: Groups, scene: Scene) -> Groups | None:
    where = groups["where"]
    return None if len(where) > 110 or re.search(r"\b(?:this|these|such|it)\b", where) else groups


RULES = (
    Rule(
        "dose",
        ("dos",),
        re.compile(
            r"^(?P<np>(?:the |an? )?(?:(?:usual|recommended|maximum|initial|starting|total|maintenance|suggested"
            r"|daily|lowest|target|oral|loading|adult|pediatric|effective|minimum|single|intravenous)"
            r"(?:,? |/| and | or ))+[^,;:]{0,40}?\b(?:dos(?:e|es|age|ages|ing)|regimen|duration)\b[^;:]{0,110}?) "
            r"(?P<aux>is|are|was|were|should be|must not exceed|should not exceed) (?=.*(?:\d|\b(?:one|two"
            r"|three|half)\b))",
            re.I,
        ),
        "What {aux} {np}{end}",
        "numeric",
        3.2,
        shape=_whose_dose,
        placed=True,
    ),
    Rule(
        "start_at",
        ("start", "initiat", "begin"),
        re.compile(
            r"^(?:Start|Initiate|Begin)\b(?P<what>(?: (?:treatment|therapy|dosing))?(?: with)?(?: [^,;:]{0,40}?)?)"
            r" (?:at|with|using) .*?\d.*?(?:mg|mcg|tablet|capsule|mL|units|g)\b"
        ),
        "At what dose should {drug} be started",
        "numeric",
        3.0,
        True,
        codes=frozenset({"34068-7"}),
    ),
    Rule(
        "adjustment_needed",
        ("adjust", "modification", "reduction"),
        re.compile(
            r"\b(?:dos(?:e|age|ing)) (?:adjustments?|modifications?|reductions?)(?: of [^,;:]{3,40}?)? (?:is"
            r"|are|may be|should be|was) (?:not |generally )*(?:necessary|required|needed|recommended|considered"
            r"|warranted)"
            r"(?: (?:based on|for|in|when|with|due to|on the basis of) (?P<where>[^;:]{3,110}?))?[.;]?$",
            re.I,
        ),
        "What does the {drug} label say about dosage adjustment for {where}",
        "factual",
        2.8,
        shape=lambda groups, scene: _adjustment(groups, scene) if groups["where"] else None,
    ),
    Rule(
        "adjust_how",
        ("reduc", "decreas", "increas", "adjust", "limit", "lower"),
        re.compile(
            r"^(?:Reduce|Decrease|Increase|Adjust|Limit|Lower)\b[^,;:]{0,60}?\bdos(?:e|age|ing)\b[^;:]{0,80}?"
            r" (?P<where>(?:in|for|when|if|during) [^;:]{5,110}?)\.?$",
            re.I,
        ),
        "How should the dose of {drug} be adjusted {where}",
        "factual",
        2.8,
        shape=_adjustment,
    ),
    Rule(
        "not_studied",
        ("not been", "no information", "not known", "not available"),
        re.compile(
            r"^(?P<np>(?:The )?(?:safety|effectiveness|efficacy|pharmacokinetics|safe and effective use|use)\b[^;:]"
            r"{0,90}?) (?P<aux>has|have) not been (?:established|studied|evaluated|determined|demonstrated"
            r"|assessed|investigated)"
            r"(?P<where>(?: (?:in|for|below|with) [^;:]{3,100}?)?)[.;,]?$",
            re.I,
        ),
        "What does the {drug} label state about {np}{sep}{where}",
        "factual",
        2.2,
        shape=lambda groups, scene: (
            {**groups, "sep": " " if groups["where"] else ""} if len(groups["where"]) < 100 else None
        ),
    ),
    Rule(
        "administer_how",
        ("administer", "taken", "given", "swallow", "inject", "infus"),
        re.compile(
            r"^(?P<s>[^,;:]{3,70}?) (?P<aux>should|must|may|can) be (?P<v>administered|taken|given|swallowed"
            r"|injected|infused|instilled|applied)\b(?! (?:to|in) (?:patients|a patient|pregnant|women|children))"
            r"(?=.{8})",
        ),
        "How {aux} {s} be {v}",
        "factual",
        2.5,
        codes=frozenset({"34068-7"}),
    ),
    Rule(
        "take_imperative",
        ("take ", "administer ", "swallow ", "inject ", "instill", "infuse"),
        re.compile(
            r"^(?P<v>Take|Administer|Swallow|Inject|Instill|Infuse|Apply) (?P<s>[A-Z][^,;:]{2,60}?|the (?:capsules?"
            r"|tablets?)[^,;:]{0,30}?) (?=(?:with|orally|by|once|twice|at|as|whole|on|only|in|without|every"
            r"|intra|sub|over|immediately|after)\b)"
        ),
        "How should {s} be {done}",
        "factual",
        2.5,
        codes=frozenset({"34068-7"}),
        shape=lambda groups, scene: {
            **groups,
            "done": {
                "Take": "taken",
                "Administer": "administered",
                "Swallow": "swallowed",
                "Inject": "injected",
                "Instill": "instilled",
                "Infuse": "infused",
                "Apply": "applied",
            }[groups["v"]],
        },
    ),
)
