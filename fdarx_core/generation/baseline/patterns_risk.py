"""How labels state adverse reactions, risks and overdose."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Groups, Rule, topic_of
from fdarx_core.generation.baseline.scene import Scene

_RISK = frozenset(
    {"43685-7", "34071-1", "42232-9", "34066-1", "34084-4", "34073-7", "34072-9", "34088-5", "34068-7", "43684-0"}
)

_BARE = re.compile(
    r"(?:the )?(?:serious |other |common |possible )*(?:signs? (?:and|or) symptoms?|symptoms?|side"
    r" effects|examples|results|adverse (?:reactions|events|effects)|these|medicines)$",
    re.I,
)


def _listed(groups: Groups, scene: Scene) -> Groups | None:
    return None if _BARE.match(groups["np"]) and not topic_of(scene) else groups


RULES = (
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
        "associated",
        ("been associated with",),
        re.compile(r"^(?P<np>[^;:]{3,110}?) (?P<aux>has|have) been associated with (?=.{12})"),
        "What {aux} {np} been associated with",
        "factual",
        2.4,
    ),
    Rule(
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
    Rule(
        "antidote",
        ("antidote",),
        re.compile(r"\bantidotes?\b", re.I),
        "Is there a specific antidote for {drug} overdosage",
        "factual",
        2.6,
        codes=frozenset({"34088-5"}),
    ),
    Rule(
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
