"""How labels describe the product, its contents, package and storage."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.engine import Rule
from fdarx_core.generation.baseline.naming import is_combination

_PRODUCT = frozenset({"34069-5", "43678-2", "34089-3", "44425-7", "51945-4", "34068-7", "34093-5"})


RULES = (
    Rule(
        "store",
        ("store",),
        re.compile(
            r"^(?:Store\b|[^,;:]{3,60}? (?:should|must) be stored\b|Storage:)(?=.*(?:°|º|degrees|refrigerat"
            r"|room temp|\d))"
        ),
        "How should {drug} be stored",
        "factual",
        2.4,
        codes=_PRODUCT,
    ),
    Rule(
        "dispense",
        ("dispense",),
        re.compile(r"^Dispense (?=.*(?:container|tight|pack|bottle))", re.I),
        "In what kind of container should {drug} be dispensed",
        "factual",
        2.2,
        codes=_PRODUCT,
    ),
    Rule(
        "looks",
        ("debossed", "imprint", "engraved", "colored", "shaped", "round", "solution", "printed", "powder"),
        re.compile(
            r"^(?P<np>[^;:]{3,110}?),? (?P<aux>is|are)(?: available as| supplied as)? (?=(?:a |an )?(?:[\w-]+,?"
            r" ){0,6}(?:clear|colorless|white|yellow|pink|blue|green|orange|red|brown|purple|round|oval|capsule.shaped"
            r"|colored|off.white|peach|opaque|beige|tan|gray|oblong)\b.*(?:debossed|imprint|engraved|embossed"
            r"|printed|marked|scored|plain|solution|suspension|powder|liquid))",
            re.I,
        ),
        "How {aux} the appearance of {np} described",
        "factual",
        2.4,
        codes=_PRODUCT,
        shape=lambda groups, scene: {**groups, "aux": "is"},
    ),
    Rule(
        "available_as",
        ("available", "supplied"),
        re.compile(
            r"^(?P<s>[^,;:]{3,90}?) (?P<aux>is|are) (?P<v>available|supplied|provided)(?: for oral administration)?"
            r" (?:in|as|for)\b(?=.*\d)(?!.*following)",
            re.I,
        ),
        "In what form and strength {aux} {s} {v}",
        "factual",
        2.4,
        codes=_PRODUCT,
    ),
    Rule(
        "contains",
        ("contain",),
        re.compile(r"^(?P<np>Each [^,;:]{3,80}?) contains\b(?=.*\d)"),
        "What does {np} contain",
        "list",
        2.4,
        codes=_PRODUCT,
    ),
    Rule(
        "inactive",
        ("inactive ingredient", "excipient", "other ingredients"),
        re.compile(r"\b(?:inactive ingredients?|excipients?|other ingredients)\b(?=.*(?:,|;| and ))", re.I),
        "What are the inactive ingredients of {drug}",
        "list",
        2.6,
        codes=_PRODUCT,
    ),
    Rule(
        "weight",
        ("molecular weight", "molecular mass"),
        re.compile(r"\bmolecular (?:weight|mass)\b(?=.*\d)", re.I),
        "What is the molecular weight given for the active substance of {drug}",
        "numeric",
        2.4,
        True,
        codes=frozenset({"34089-3"}),
        shape=lambda groups, scene: None if is_combination(scene.drug) else groups,
    ),
    Rule(
        "chemical_name",
        ("chemical name", "chemically", "designated"),
        re.compile(r"\b(?:chemical name|chemically|chemical designation|designated chemically)\b", re.I),
        "What is the chemical name given in the {drug} label",
        "factual",
        2.2,
        codes=frozenset({"34089-3"}),
        shape=lambda groups, scene: None if is_combination(scene.drug) else groups,
    ),
    Rule(
        "soluble",
        ("soluble",),
        re.compile(r"^(?P<s>[^,;:]{3,60}?) (?:is|occurs|has)\b.*\b(?:soluble|insoluble)\b"),
        "What are the solubility and physical characteristics of {s}",
        "factual",
        2.2,
        codes=frozenset({"34089-3"}),
    ),
    Rule(
        "schedule",
        ("schedule i", "controlled substance"),
        re.compile(r"\b(?:Schedule (?:I{1,3}|IV|V)|not a controlled substance|controlled substance)\b"),
        "What is the controlled substance status of {drug}",
        "factual",
        2.4,
        codes=frozenset({"34085-1", "42227-9", "42228-7", "34087-7", "34086-9", "34089-3"}),
    ),
)
