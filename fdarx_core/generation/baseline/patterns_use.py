"""How labels state indications, contraindications, and when to avoid or stop a drug."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Groups, Rule, topic_of
from fdarx_core.generation.baseline.scene import Scene, sound

_RISK = frozenset(
    {"43685-7", "34071-1", "42232-9", "34066-1", "34084-4", "34073-7", "34072-9", "34088-5", "34068-7", "43684-0"}
)


def _condition(groups: Groups, scene: Scene) -> Groups | None:
    where = groups["where"].rstrip(" .;")
    return {**groups, "where": where} if sound(where, 130) else None


RULES = (
    Rule(
        "indicated",
        ("indicated",),
        re.compile(r"^(?P<s>[^,;:]{3,90}?) (?P<aux>is|are) indicated\b(?=.{10})"),
        "What {aux} {s} indicated for",
        "factual",
        3.0,
        codes=frozenset({"34067-9"}),
    ),
    Rule(
        "not_indicated",
        ("not indicated", "not recommended"),
        re.compile(
            r"^(?P<s>[^,;:]{3,90}?) (?P<aux>is|are) not (?P<v>indicated|recommended) (?:for|in|as|to)\b(?=.{8})"
        ),
        "For whom or for what {aux} {s} not {v}",
        "factual",
        2.7,
    ),
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
        "avoided",
        ("should be avoided", "must be avoided"),
        re.compile(r"^(?P<np>[^;:]{3,100}?) (?:should|must) (?:generally )?be avoided\b (?=.{8})"),
        "When should {np} be avoided",
        "factual",
        2.7,
    ),
    Rule(
        "monitor",
        ("monitor",),
        re.compile(r"^(?:Closely |Carefully |Regularly )?[Mm]onitor (?P<what>[^;:]{5,200}?)\.?$"),
        "What monitoring does the {drug} label recommend in connection with {topic}",
        "factual",
        2.2,
        shape=lambda groups, scene: {**groups, "topic": topic_of(scene)} if topic_of(scene) else None,
    ),
    Rule(
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
    Rule(
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
