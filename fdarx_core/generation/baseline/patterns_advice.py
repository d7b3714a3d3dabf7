"""How labels advise for conditions and patients, and what patients are to be told."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Groups, Rule, topic_of
from fdarx_core.generation.baseline.scene import Scene, sound
from fdarx_core.generation.baseline.text import decapitalise

_ADVICE = re.compile(
    r"\b(?:should|must|recommend|is (?:not )?recommended|are (?:not )?recommended|advis(?:e|able"
    r"|ed)|not necessary|required|consider|initiate|contraindicated)\b|"
    r"^(?:discontinue|stop|consider|monitor|reduce|avoid|use|do not|initiate|start|withhold|interrupt"
    r"|administer|seek|institute|evaluate|assess|"
    r"adjust|increase|decrease|obtain|perform|take|give|treat|advise|inform|instruct|refer|resume"
    r"|hold|delay|titrate|limit|promptly|immediately|"
    r"temporarily|permanently|carefully|closely)\b",
    re.I,
)


def _advised(groups: Groups, scene: Scene) -> Groups | None:
    lead = scene.lead
    if not lead or not _ADVICE.search(scene.clause) or not sound(lead, 140) or len(lead.split()) < 3:
        return None
    return {**groups, "when": lead}


def _if_lead(groups: Groups, scene: Scene) -> Groups | None:
    return (
        _advised(groups, scene)
        if re.match(r"(?:if|when|should|before|prior|once|after|upon|until|during|while)\b", scene.lead)
        else None
    )


def _patients_lead(groups: Groups, scene: Scene) -> Groups | None:
    fit = re.match(
        r"(?:in|for|among|with) .*\b(?:patient|adult|child|infant|women|female|male|elderly|pediatric"
        r"|impair|individual|neonat|people|use|case|event|treatment)",
        scene.lead,
    )
    return _advised(groups, scene) if fit else None


def _who(groups: Groups, scene: Scene) -> Groups | None:
    who = groups["who"].rstrip(" ,")
    whole = len(who.split()) > 1 and who.split()[-1] not in ("who", "which", "that", "and", "or", "with", "of")
    return {**groups, "who": decapitalise(who)} if whole and sound(who, 120) else None


def _with_topic(groups: Groups, scene: Scene) -> Groups | None:
    topic = topic_of(scene)
    return {**groups, "topic": topic} if topic else None


RULES = (
    Rule(
        "if_then",
        ("if ", "when ", "should ", "before ", "prior to", "once ", "after ", "upon ", "until ", "during ", "while "),
        re.compile(r"^(?=.{12})"),
        "What does the {drug} label advise {lead}",
        "factual",
        2.6,
        shape=_if_lead,
    ),
    Rule(
        "in_patients",
        ("in ", "for ", "among ", "with "),
        re.compile(r"^(?=.{12})"),
        "What does the {drug} label advise {lead}",
        "factual",
        2.5,
        shape=_patients_lead,
    ),
    Rule(
        "imperative",
        ("before ", "prior to ", "in patients ", "if ", "when ", "during ", "after ", "following ", "upon "),
        re.compile(
            r"^(?:(?:Closely m|M)onitor|(?:Carefully c|C)onsider|Obtain|Perform|Assess|Measure|Test|Evaluate|Check"
            r"|Use(?! of\b)|Provide|Reassess|Review|Initiate|Ensure|Screen|Observe|Follow)\b[^;:]{5,200}? "
            r"(?P<where>(?:before|prior to|in patients (?:with|who|at|receiving|taking|on|whose)|if|when"
            r"|during|after|following|upon) [^;:.]{8,110})\.?$"
        ),
        "What does the {drug} label advise {where}",
        "factual",
        2.4,
        shape=lambda groups, scene: groups if sound(groups["where"], 120) else None,
    ),
    Rule(
        "patients_should",
        ("should", "must", "may require", "may need"),
        re.compile(
            r"^(?P<who>(?:(?:[A-Z][\w-]+ )?(?:[Pp]atients|[Ww]omen)|Females|Males|Infants|Neonates|Physicians"
            r"|Prescribers|Adults|Children|Individuals|Caregivers)\b[^;:]{0,120}?) (?:should|must|may require"
            r"|may need)\b(?=.{10})"
        ),
        "What does the {drug} label advise for {who}",
        "factual",
        2.4,
        shape=_who,
    ),
    Rule(
        "patients_risk",
        ("patients", "risk"),
        re.compile(
            r"^(?P<who>(?:Patients|Women|Elderly patients|Infants|Neonates|Children|Individuals)\b (?:with"
            r"|who|receiving|taking|treated|on) [^;:]{3,110}?) (?:may|are|can|have|had)\b(?=.{10})"
        ),
        "What does the {drug} label say about {who}",
        "factual",
        2.0,
        shape=_who,
    ),
    Rule(
        "advise_if",
        ("advise", "instruct", "inform", "counsel", "warn", "tell", "caution", "encourage"),
        re.compile(
            r"^(?:Advise|Instruct|Inform|Counsel|Warn|Tell|Caution|Encourage) (?:the |all )?(?:\w+ )?(?:patients?"
            r"|women|females|caregivers|parents)\b[^;:]{0,140}?\b(?P<when>(?:if|when) [^;:,]{8,110}?)\.?$"
        ),
        "What should patients taking {drug} be advised to do {when}",
        "factual",
        2.5,
        shape=lambda groups, scene: groups if sound(groups["when"], 120) else None,
    ),
    Rule(
        "advise_topic",
        ("advise", "instruct", "inform", "counsel", "warn", "tell", "caution", "encourage", "should be"),
        re.compile(
            r"^(?:(?:Advise|Instruct|Inform|Counsel|Warn|Tell|Encourage|Caution (?=patients|women))\b|Patients"
            r" should be (?:advised|informed|instructed|told|warned|cautioned|counseled|made aware|alerted)\b)"
            r"(?=.{15})"
        ),
        "What should patients taking {drug} be told about {topic}",
        "factual",
        2.3,
        shape=_with_topic,
    ),
)
