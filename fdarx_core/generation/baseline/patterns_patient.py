"""How Medication Guides and patient leaflets speak to the patient."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Rule

_LEAFLETS = frozenset({"42231-1", "42230-3", "68498-5", "59845-8", "88436-1", "34076-0"})


RULES = (
    Rule(
        "leaflet_do_not_take",
        ("do not take", "do not use", "should not take", "should not use", "do not start"),
        re.compile(
            r"^(?:Do not|You should not|Never) (?P<v>take|use|start) (?P<s>[^,;:]{2,50}?)(?: (?:if|unless"
            r"|with|for|during|right|after|before)\b|:)(?=.{6}|$)"
        ),
        "When should a patient not {v} {s}",
        weight=2.4,
        codes=_LEAFLETS,
    ),
    Rule(
        "leaflet_tell",
        ("tell your", "talk to your"),
        re.compile(
            r"^(?:Before (?:taking|using|you (?:take|use|start|receive))\b[^,:]{3,80}, )?[Tt]ell your (?P<who>healthca"
            r"re provider|health care provider|doctor)\b(?=.{10})"
        ),
        "What should patients tell their {who} in connection with taking {drug}",
        weight=2.2,
        codes=_LEAFLETS,
        shape=lambda groups, scene: groups if scene.lead.startswith("before") or scene.unit.items else None,
    ),
    Rule(
        "leaflet_emergency",
        ("emergency help", "medical help", "emergency medical", "medical attention"),
        re.compile(
            r"^(?:Get|Seek)\b[^.:]{0,30}(?:emergency|medical)\b[^.:]{0,30}(?:help|attention|care|treatment)\b"
            r"(?=.{10})"
        ),
        "When should patients taking {drug} get emergency medical help",
        "list",
        2.5,
        codes=_LEAFLETS,
    ),
    Rule(
        "leaflet_call",
        ("call your", "call the"),
        re.compile(
            r"^(?P<stop>Stop (?:taking|using) [^.;:]{3,50}? and )?[Cc]all (?:your|the) (?P<who>healthcare"
            r" provider|health care provider|doctor)\b[^.:]{0,40}\bif\b(?=.{10})"
        ),
        "When should patients taking {drug} {stop}call their {who}",
        "list",
        2.4,
        codes=_LEAFLETS,
        shape=lambda groups, scene: {**groups, "stop": "stop treatment and " if groups["stop"] else ""},
    ),
)
