"""How labels state indications, contraindications, risks and advice."""

from __future__ import annotations

import re

from fdarx_core.baseline.passage_reader import SentenceContext, sound
from fdarx_core.baseline.question_rules import MatchGroups, QuestionRule, topic_of
from fdarx_core.baseline.tokens import decapitalise

_RISK = frozenset(
    {"43685-7", "34071-1", "42232-9", "34066-1", "34084-4", "34073-7", "34072-9", "34088-5", "34068-7", "43684-0"}
)


def _condition(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    where = groups["where"].rstrip(" .;")
    return {**groups, "where": where} if sound(where, 130) else None


USE_RULES = (
    QuestionRule(
        "indicated",
        ("indicated",),
        re.compile(r"^(?P<s>[^,;:]{3,90}?) (?P<aux>is|are) indicated\b(?=.{10})"),
        "What {aux} {s} indicated for",
        "factual",
        3.0,
        codes=frozenset({"34067-9"}),
    ),
    QuestionRule(
        "not_indicated",
        ("not indicated", "not recommended"),
        re.compile(
            r"^(?P<s>[^,;:]{3,90}?) (?P<aux>is|are) not (?P<v>indicated|recommended) (?:for|in|as|to)\b(?=.{8})"
        ),
        "For whom or for what {aux} {s} not {v}",
        "factual",
        2.7,
    ),
    QuestionRule(
        "contraindicated",
        ("contraindicated",),
        re.compile(
            r"^(?P<s>[^,;:]{2,90}?) (?P<aux>is|are) (?:also )?contraindicated (?:in|for|with|when|during"
            r"|if)\b(?=.{8})",
            re.I,
        ),
        "When {aux} {s} contraindicated",
        "factual",
        3.0,
    ),
    QuestionRule(
        "when_not",
        ("should not be", "must not be"),
        re.compile(
            r"^(?P<s>[^,;:]{3,70}?) (?P<aux>should|must) not be (?P<v>used|administered|given|started|initiated"
            r"|taken|prescribed|coadministered|co-administered)\b(?=.{10})",
        ),
        "When {aux} {s} not be {v}",
        "factual",
        2.7,
    ),
    QuestionRule(
        "when_stop",
        ("discontinue", "withhold", "stop", "interrupt"),
        re.compile(
            r"^(?P<v>Discontinue|Withhold|Stop|Interrupt|Permanently discontinue) (?:treatment with |therapy"
            r" with |use of |the use of )?(?P<s>[^,;:]{3,50}?) (?:if|at|when|in|until|for|upon|prior to|before"
            r"|immediately)\b(?=.{8})",
        ),
        "When does the {drug} label say to {v} {s}",
        "factual",
        2.8,
        shape=lambda groups, scene: {**groups, "v": groups["v"].lower()},
    ),
    QuestionRule(
        "should_stop",
        ("should be discontinued", "should be stopped", "should be withheld", "should be interrupted"),
        re.compile(
            r"^(?P<s>[^,;:]{3,60}?) should be (?:\w+ly )?(?P<v>discontinued|stopped|withheld|interrupted)\b"
            r"(?=.{10})",
        ),
        "When should {s} be {v}",
        "factual",
        2.8,
    ),
    QuestionRule(
        "caution_in",
        ("caution",),
        re.compile(
            r"^(?P<s>[^,;:]{3,70}?) should be (?:used|administered|given|prescribed|initiated|undertaken)"
            r" (?:with|only with) (?:\w+ )?caution\b(?=.{10})"
        ),
        "In which patients or situations should {s} be used with caution",
        "factual",
        2.7,
    ),
    QuestionRule(
        "caution_when",
        ("caution",),
        re.compile(
            r"^(?:Caution should be (?:used|exercised)|Use caution|Exercise caution|Caution is (?:advised"
            r"|recommended))\b(?=.{12})",
            re.I,
        ),
        "When does the {drug} label call for caution",
        "factual",
        2.2,
    ),
    QuestionRule(
        "avoid",
        ("avoid",),
        re.compile(
            r"^Avoid (?:the )?(?P<what>(?:concomitant |concurrent |co)?(?:use|administration|coadministration)"
            r" (?:of|with) [^,;:]{3,70}?) (?:in|during|with|for|unless|when|at|from|after|before)\b(?=.{8})"
        ),
        "When should {what} be avoided",
        "factual",
        2.7,
        shape=lambda groups, scene: groups if sound(groups["what"]) else None,
    ),
    QuestionRule(
        "avoided",
        ("should be avoided", "must be avoided"),
        re.compile(r"^(?P<np>[^;:]{3,100}?) (?:should|must) (?:generally )?be avoided\b (?=.{8})"),
        "When should {np} be avoided",
        "factual",
        2.7,
    ),
    QuestionRule(
        "monitor",
        ("monitor",),
        re.compile(r"^(?:Closely |Carefully |Regularly )?[Mm]onitor (?P<what>[^;:]{5,200}?)\.?$"),
        "What monitoring does the {drug} label recommend in connection with {topic}",
        "factual",
        2.2,
        shape=lambda groups, scene: {**groups, "topic": topic_of(scene)} if topic_of(scene) else None,
    ),
    QuestionRule(
        "recommended_when",
        ("recommended", "advised", "required", "advisable"),
        re.compile(
            r"^(?P<np>[^,;:]{8,90}?) (?:is|are) (?:recommended|advised|required|advisable|indicated) (?:if"
            r"|when|in|for|before|during|prior|every)\b"
        ),
        "When does the {drug} label call for {np}",
        "factual",
        2.3,
        codes=_RISK,
    ),
    QuestionRule(
        "do_not",
        ("do not ",),
        re.compile(
            r"^Do not [^;:]{5,120}? (?<!or )(?P<where>(?:in patients|in women|if|when|during|until) [^;:.]{5,110})\.?$"
        ),
        "What must not be done {where} according to the {drug} label",
        "factual",
        2.4,
        shape=_condition,
    ),
)


_BARE = re.compile(
    r"(?:the )?(?:serious |other |common |possible )*(?:signs? (?:and|or) symptoms?|symptoms?|side"
    r" effects|examples|results|adverse (?:reactions|events|effects)|these|medicines)$",
    re.I,
)


def _listed(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    return None if _BARE.match(groups["np"]) and not topic_of(scene) else groups


RISK_RULES = (
    QuestionRule(
        "most_common",
        ("most common", "most frequent"),
        re.compile(
            r"^(?P<np>(?:The )?most (?:common(?:ly)?|frequent(?:ly)?)[^;:]{0,140}?(?:reactions?|events?|effects?"
            r"|reported|complaints?|experiences?)[^;:]{0,90}?) (?P<aux>are|were|is|was|include[sd]?)\b(?=.{8})",
            re.I,
        ),
        "What {aux} {np}",
        "list",
        3.2,
        shape=lambda groups, scene: {
            **groups,
            "np": groups["np"] if groups["np"].lower().startswith("the ") else "the " + groups["np"],
            "aux": {"include": "are", "includes": "are", "included": "were"}.get(groups["aux"].lower(), groups["aux"]),
        },
    ),
    QuestionRule(
        "elsewhere",
        ("serious", "significant", "following"),
        re.compile(
            r"^The following (?P<np>(?:clinically significant |serious |important )*adverse (?:reactions"
            r"|events)) (?:are|is|have been) (?:also )?(?:described|discussed|reported)\b.*(?:label|section"
            r"|detail|elsewhere)"
        ),
        "Which {np} of {drug} are described in other sections of its labeling",
        "list",
        2.4,
        codes=frozenset({"34084-4"}),
    ),
    QuestionRule(
        "includes",
        ("include",),
        re.compile(
            r"^(?P<np>(?:The )?[A-Za-z][^,;:]{6,100}?) (?:may |can |could |also |would )?(?P<v>include|included"
            r"|have included)\b(?=.{4,}(?:,|;| and | or |:))"
        ),
        "What does the {drug} label list as {np}",
        "list",
        2.6,
        shape=_listed,
        placed=True,
    ),
    QuestionRule(
        "can_cause",
        ("cause", "result in", "lead to", "produce"),
        re.compile(
            r"^(?P<np>[^;:]{3,90}?) (?:(?P<aux>may|can|could) (?:also )?(?:cause|result in|lead to|produce)"
            r"|causes?) (?=.{12})",
        ),
        "What {aux} {np} cause",
        "factual",
        2.3,
        codes=_RISK | {"42231-1", "42230-3", "68498-5"},
        shape=lambda groups, scene: {**groups, "aux": groups["aux"] or "can"},
        placed=True,
    ),
    QuestionRule(
        "reported",
        ("been reported", "been observed", "been seen", "have occurred", "has occurred", "been associated"),
        re.compile(
            r"^(?P<np>[A-Z][^;:]{3,110}?) (?P<aux>has|have) (?P<been>been )?(?:also |rarely |infrequently"
            r" )?(?P<v>reported|observed|seen|occurred)\b (?:in|with|on|during|following|after|among) (?=.{8})"
        ),
        "Under what circumstances {aux} {np} {been} {v}",
        "factual",
        2.2,
        codes=_RISK,
    ),
    QuestionRule(
        "associated",
        ("been associated with",),
        re.compile(r"^(?P<np>[^;:]{3,110}?) (?P<aux>has|have) been associated with (?=.{12})"),
        "What {aux} {np} been associated with",
        "factual",
        2.4,
    ),
    QuestionRule(
        "symptoms",
        ("overdos",),
        re.compile(
            r"^(?P<np>(?:The )?(?:signs and symptoms|symptoms|signs|manifestations|effects)\b[^,;:]{0,80}?overdos"
            r"(?:e|es|age|ages|ing)?[^,;:]{0,30}?) (?P<aux>are|have been|were|may be|include[sd]?|may include"
            r"|can include)\b(?=.{8})",
            re.I,
        ),
        "What are {np}",
        "list",
        3.0,
        shape=lambda groups, scene: {
            **groups,
            "np": groups["np"] if groups["np"].lower().startswith("the") else "the " + groups["np"],
        },
    ),
    QuestionRule(
        "antidote",
        ("antidote",),
        re.compile(r"\bantidotes?\b", re.I),
        "Is there a specific antidote for {drug} overdosage",
        "factual",
        2.6,
        codes=frozenset({"34088-5"}),
    ),
    QuestionRule(
        "dialysis",
        ("dialy", "hemoperfusion", "diuresis"),
        re.compile(
            r"\b(?:h[ae]+modialysis|peritoneal dialysis|dialysis|dialyzable|hemoperfusion|forced diuresis"
            r"|dialyzed)\b",
            re.I,
        ),
        "Are dialysis or similar measures useful for removing {drug} after an overdose",
        "factual",
        2.4,
        codes=frozenset({"34088-5"}),
    ),
)


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


def _advised(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    lead = scene.lead
    if not lead or not _ADVICE.search(scene.clause) or not sound(lead, 140) or len(lead.split()) < 3:
        return None
    return {**groups, "when": lead}


def _if_lead(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    return (
        _advised(groups, scene)
        if re.match(r"(?:if|when|should|before|prior|once|after|upon|until|during|while)\b", scene.lead)
        else None
    )


def _patients_lead(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    fit = re.match(
        r"(?:in|for|among|with) .*\b(?:patient|adult|child|infant|women|female|male|elderly|pediatric"
        r"|impair|individual|neonat|people|use|case|event|treatment)",
        scene.lead,
    )
    return _advised(groups, scene) if fit else None


def _who(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    who = groups["who"].rstrip(" ,")
    whole = len(who.split()) > 1 and who.split()[-1] not in ("who", "which", "that", "and", "or", "with", "of")
    return {**groups, "who": decapitalise(who)} if whole and sound(who, 120) else None


def _with_topic(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    topic = topic_of(scene)
    return {**groups, "topic": topic} if topic else None


ADVICE_RULES = (
    QuestionRule(
        "if_then",
        ("if ", "when ", "should ", "before ", "prior to", "once ", "after ", "upon ", "until ", "during ", "while "),
        re.compile(r"^(?=.{12})"),
        "What does the {drug} label advise {lead}",
        "factual",
        2.6,
        shape=_if_lead,
    ),
    QuestionRule(
        "in_patients",
        ("in ", "for ", "among ", "with "),
        re.compile(r"^(?=.{12})"),
        "What does the {drug} label advise {lead}",
        "factual",
        2.5,
        shape=_patients_lead,
    ),
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
