"""How labels state doses, the product and its package, interactions, and what patients read."""

from __future__ import annotations

import re

from fdarx_core.baseline.passage_reader import SentenceContext, is_combination, sound
from fdarx_core.baseline.question_rules import MatchGroups, QuestionRule


def _whose_dose(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    phrase = groups["np"]
    if phrase.split()[0] not in ("the", "a", "an", "each"):
        phrase = f"the {phrase}"
    aux = groups["aux"].lower()
    limit = " not exceed" if "exceed" in aux else " be" if aux.endswith(" be") else ""
    return {**groups, "np": phrase, "aux": aux.split()[0], "end": limit}


def _adjustment(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    where = groups["where"]
    return None if len(where) > 110 or re.search(r"\b(?:this|these|such|it)\b", where) else groups


DOSE_RULES = (
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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


_PRODUCT = frozenset({"34069-5", "43678-2", "34089-3", "44425-7", "51945-4", "34068-7", "34093-5"})


PRODUCT_RULES = (
    QuestionRule(
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
    QuestionRule(
        "dispense",
        ("dispense",),
        re.compile(r"^Dispense (?=.*(?:container|tight|pack|bottle))", re.I),
        "In what kind of container should {drug} be dispensed",
        "factual",
        2.2,
        codes=_PRODUCT,
    ),
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
        "contains",
        ("contain",),
        re.compile(r"^(?P<np>Each [^,;:]{3,80}?) contains\b(?=.*\d)"),
        "What does {np} contain",
        "list",
        2.4,
        codes=_PRODUCT,
    ),
    QuestionRule(
        "inactive",
        ("inactive ingredient", "excipient", "other ingredients"),
        re.compile(r"\b(?:inactive ingredients?|excipients?|other ingredients)\b(?=.*(?:,|;| and ))", re.I),
        "What are the inactive ingredients of {drug}",
        "list",
        2.6,
        codes=_PRODUCT,
    ),
    QuestionRule(
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
    QuestionRule(
        "chemical_name",
        ("chemical name", "chemically", "designated"),
        re.compile(r"\b(?:chemical name|chemically|chemical designation|designated chemically)\b", re.I),
        "What is the chemical name given in the {drug} label",
        "factual",
        2.2,
        codes=frozenset({"34089-3"}),
        shape=lambda groups, scene: None if is_combination(scene.drug) else groups,
    ),
    QuestionRule(
        "soluble",
        ("soluble",),
        re.compile(r"^(?P<s>[^,;:]{3,60}?) (?:is|occurs|has)\b.*\b(?:soluble|insoluble)\b"),
        "What are the solubility and physical characteristics of {s}",
        "factual",
        2.2,
        codes=frozenset({"34089-3"}),
    ),
    QuestionRule(
        "schedule",
        ("schedule i", "controlled substance"),
        re.compile(r"\b(?:Schedule (?:I{1,3}|IV|V)|not a controlled substance|controlled substance)\b"),
        "What is the controlled substance status of {drug}",
        "factual",
        2.4,
        codes=frozenset({"34085-1", "42227-9", "42228-7", "34087-7", "34086-9", "34089-3"}),
    ),
)


_EFFECT_VERB = (
    r"(?:increase|decrease|reduce|enhance|potentiate|diminish|prolong|inhibit|blunt|alter|impair"
    r"|lower|raise|elevate|worsen|exacerbate"
    r"|augment|mask|antagonize|attenuate|interfere with|affect|delay|slow)"
)


def _effect(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    target = groups["z"].strip()
    if (
        not sound(target, 90)
        or len(target.split()) < 2
        or re.match(r"(?:or|and|to|in|by|from|at|with|after|during|but|until|as|over)\b", target)
        or re.search(r"\d", target)
    ):
        return None
    return {**groups, "z": target}


INTERACTION_RULES = (
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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


_LEAFLETS = frozenset({"42231-1", "42230-3", "68498-5", "59845-8", "88436-1", "34076-0"})


PATIENT_RULES = (
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
