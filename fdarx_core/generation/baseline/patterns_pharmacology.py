"""How labels state what a drug is, how it acts, and what animal studies showed."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Rule

RULES = (
    Rule(
        "mechanism",
        ("mechanism of action", "mode of action", "mechanisms of action"),
        re.compile(
            r"\b(?:mechanisms?|mode) of action (?:of|by which) (?P<s>[^,;:()]{3,60}?)(?=,| (?:is|are|has"
            r"|have|like|exerts?|in)\b)",
            re.I,
        ),
        "What is known about the mechanism of action of {s}",
        "factual",
        2.8,
    ),
    Rule(
        "acts_by",
        ("inhibit", "block", "stimulat", "decreas", "bind", "antagon"),
        re.compile(
            r"^(?P<s>[^,;:]{3,60}?) (?:is thought to |is believed to |appears to )?(?:acts?|works?|exerts?"
            r"|inhibits?|blocks?|decreases hepatic|binds?)\b(?=.{20})",
        ),
        "How does {s} act",
        "factual",
        2.4,
        codes=frozenset({"34090-1", "43679-0", "43681-6"}),
    ),
    Rule(
        "class",
        (" is a", " are a", "class", "member of"),
        re.compile(
            r"^(?P<s>[^,;:]{3,60}?)(?: \([^)]*\))? (?P<aux>is|are) (?:a |an |the |in |members? of )[^.]{0,120}?\b"
            r"(?:inhibitor|agonist|antagonist|drugs?|agents?|antibod(?:y|ies)|blocker|"
            r"NSAIDs?|class|derivative|steroid|antibiotic|modulator|analgesic|glucocorticoid|anticoagulant"
            r"|statin|hormone|interferon)s?\b",
        ),
        "What kind of drug {aux} {s}",
        "factual",
        2.2,
        codes=frozenset({"34090-1", "34089-3", "43679-0", "34067-9"}),
    ),
    Rule(
        "animal_tumours",
        ("carcinogenic", "tumor", "oncogenic", "neoplas"),
        re.compile(
            r"\b(?:rats?|mice|mouse|hamsters?|dogs?)\b",
        ),
        "What did carcinogenicity studies of {drug} in animals show",
        "factual",
        2.0,
        general=True,
        codes=frozenset({"34083-6", "43680-8", "34091-9", "42232-9"}),
    ),
    Rule(
        "mutagenicity",
        ("mutagen", "genotox", "clastogen", "ames"),
        re.compile(r"\b(?:mutagenic|genotoxic|clastogenic|mutagenicity|genotoxicity|Ames)\b"),
        "What did genetic toxicity studies of {drug} show",
        "factual",
        2.0,
        general=True,
        codes=frozenset({"34083-6", "43680-8", "34091-9", "42232-9"}),
    ),
    Rule(
        "fertility",
        ("fertility", "spermato", "reproductive performance"),
        re.compile(r"\b(?:fertility|spermatogenesis|reproductive performance)\b"),
        "What do animal studies of {drug} show about fertility",
        "factual",
        2.0,
        general=True,
        codes=frozenset({"34083-6", "43680-8", "34091-9", "42232-9"}),
    ),
    Rule(
        "embryo",
        ("rats", "rabbits", "mice", "monkeys"),
        re.compile(
            r"\b(?:pregnant|reproduction|organogenesis|developmental|teratogen|embryo|fetal|malformation|gestation)"
            r"(?=.*\b(?:evidence|increase|decrease|reduc|reveal|result|cause|produce"
            r"|toxic|effect|death|delay|dystocia|not))",
            re.I,
        ),
        "What did animal reproduction studies of {drug} show",
        "factual",
        2.1,
        general=True,
        codes=frozenset({"42228-7", "43684-0", "34076-0", "42232-9", "34077-8", "34083-6"}),
    ),
)
