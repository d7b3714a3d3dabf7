"""How labels state pharmacokinetics, mechanisms, animal studies and the results of trials."""

from __future__ import annotations

import re

from fdarx_core.baseline.passage_reader import SentenceContext, is_combination, sound
from fdarx_core.baseline.question_rules import MatchGroups, QuestionRule

_COPULA = r"(?P<aux>is|are|was|were|ranges?|ranged|averages?|averaged|approximates|has been)"

_PAST = frozenset({"ranged", "averaged"})
_PEOPLE = re.compile(r" in (?:patients|subjects|elderly|pediatric|healthy|children|adults|infants)\b[^,.;()]{0,60}")


def _of_drug(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    """Says whose quantity it is, and turns "ranges" and "averaged" into "is" and "was"."""
    phrase, aux = groups["np"], groups["aux"]
    if not re.search(r" (?:of|for) ", phrase):
        if is_combination(scene.drug) or not scene.about_drug:
            return None
        phrase = f"{phrase} of {scene.drug}"
    if phrase.split()[0] not in ("the", "a", "an"):
        phrase = f"the {phrase}"
    if re.search(r"\d ?(?:[nm]|mc|µ)g", phrase):
        return None
    people = _PEOPLE.search(scene.clause.partition(groups["np"])[2])
    if people and " in " not in phrase and scene.clause.count(" in ") == 1:
        phrase += people.group()
    plain = aux if aux in ("is", "are", "was", "were") else "was" if aux in _PAST else "is"
    return {**groups, "np": phrase, "aux": plain}


def _quantity(name: str, gate: tuple[str, ...], words: str, weight: float) -> QuestionRule:
    pattern = re.compile(
        rf"^(?P<np>[^,;:]{{0,60}}?\b(?:{words})(?: \([^)]{{1,30}}\))?(?: [^,;:]{{1,80}}?)?) {_COPULA} "
        r"(?!not |unknown)(?=[^.;]{0,60}\d)",
        re.I,
    )
    return QuestionRule(name, gate, pattern, "What {aux} {np}", "numeric", weight, True, shape=_of_drug)


PHARMACOKINETIC_RULES = (
    _quantity("half_life", ("half-li",), r"half-li(?:fe|ves)", 3.0),
    _quantity("clearance", ("clearance",), r"(?:renal|total|systemic|body|plasma|oral|apparent) clearance", 2.6),
    _quantity("volume", ("volume of distribution",), r"volume of distribution", 3.0),
    _quantity("bioavailability", ("bioavailab",), r"bioavailability", 3.0),
    _quantity(
        "time_to_peak", ("tmax", "time to"), r"tmax|time to (?:peak|maximum|reach)[^,;:]{0,50}?|time to onset", 2.8
    ),
    _quantity(
        "peak",
        ("cmax", "auc", "concentration"),
        r"Cmax|AUC\S*|(?:peak|maximum|steady.state)[^,;:]{0,30}? concentrations?",
        2.2,
    ),
    _quantity(
        "binding",
        ("bind", "bound"),
        r"protein binding|bound fraction|unbound fraction|binding to (?:plasma|serum) proteins?",
        3.0,
    ),
    QuestionRule(
        "has_quantity",
        ("half-li", "volume of", "bioavailab", "clearance", "molecular weight"),
        re.compile(
            r"^(?P<s>[^,;:]{3,60}?) (?:has|have|had) an? (?P<q>[^,;:]{0,40}?(?:half-life|volume of distribution"
            r"|bioavailability|clearance|molecular weight)(?: \([^)]*\))?) of .*\d",
            re.I,
        ),
        "What is the {q} of {s}",
        "numeric",
        3.0,
        True,
    ),
    QuestionRule(
        "eliminated_half_life",
        ("half-li",),
        re.compile(
            r"^(?P<s>[^,;:]{3,60}?) (?:is|are|was|were) (?:\w+ ){1,5}with an? (?P<q>[^,;:]{0,40}?half-life)"
            r" of .*\d",
            re.I,
        ),
        "What is the {q} of {s}",
        "numeric",
        3.0,
        True,
    ),
    QuestionRule(
        "bound_to_protein",
        ("bound",),
        re.compile(
            r"^(?P<s>[^,;:(]{3,60}?) (?P<aux>is|are|was|were) [^;:]{0,70}?bound to (?P<what>(?:[\w-]+ ){0,3}?"
            r"(?:proteins?|albumin|globulins?))",
            re.I,
        ),
        "To what extent {aux} {s} bound to {what}",
        "factual",
        3.0,
    ),
    QuestionRule(
        "peak_reached",
        ("peak", "maxim"),
        re.compile(
            r"^(?P<np>[^,;:\d]{0,30}?\b(?:peak|maxim(?:um|al))[^,;:\d]{0,60}?(?:concentrations?|levels?)"
            r"(?: \([^)]*\))?(?: (?:of|for) [^,;:\d]{3,50}?)?) "
            r"(?P<aux>is|are|was|were) (?:\w+ly )?(?P<v>reached|attained|achieved|observed|seen|obtained)\b.*\d.*"
            r"(?:hour|minute|\bhr?s?\b|day)",
            re.I,
        ),
        "When {aux} {np} {v}",
        "numeric",
        2.8,
        True,
    ),
    QuestionRule(
        "peak_occurs",
        ("peak", "maxim"),
        re.compile(
            r"^(?P<np>[^,;:\d]{0,30}?\b(?:peak|maxim(?:um|al))[^,;:\d]{0,60}?(?:concentrations?|levels?)"
            r"(?: \([^)]*\))?(?: (?:of|for) [^,;:]{3,50}?)?) "
            r"(?:occur|occurs|occurred) .*\d.*(?:hour|minute|\bhr?s?\b|day)",
            re.I,
        ),
        "What is the time to {np}",
        "numeric",
        2.8,
        True,
    ),
    QuestionRule(
        "metabolised",
        ("metaboli", "biotransform"),
        re.compile(
            r"^(?P<s>[^,;:]{3,60}?) (?P<aux>is|are|was|were) (?:\w+ly |also |not )*(?:metaboli[sz]ed|biotransformed)\b"
            r"(?=.{8})",
            re.I,
        ),
        "How {aux} {s} metabolized",
        "factual",
        2.6,
    ),
    QuestionRule(
        "metabolism_enzymes",
        ("metabolism",),
        re.compile(
            r"^(?=.*\b(?:CYP|UGT|cytochrome|glucuronid|oxidati|hydroxyl|hydroly)).*?\bmetabolism of (?P<s>[^,;:"
            r"()]{3,40}?)(?= (?:is|was|by|occurs|via|to|in|involves)\b|,|\.)",
        ),
        "By which enzymes or pathways is {s} metabolized",
        "factual",
        2.4,
    ),
    QuestionRule(
        "excreted",
        ("excreted", "eliminated", "recovered"),
        re.compile(
            r"^(?P<s>[^,;:%\d]{3,60}?) (?P<aux>is|are|was|were) (?:\w+ly |also )*(?P<v>excreted|eliminated)\b"
            r"(?!.{0,12}milk).{4,40}?(?:urine|feces|renal|bile|kidney|metabolism|hepatic)",
            re.I,
        ),
        "How {aux} {s} {v}",
        "factual",
        2.4,
    ),
    QuestionRule(
        "food",
        ("food", "meal"),
        re.compile(
            r"^(?:The )?(?:presence of )?(?:food|administration with food|a (?:standard )?high.fat meal)\b"
            r"(?! (?:and|poison|pipe|allerg))",
            re.I,
        ),
        "What effect does food have on the absorption of {drug}",
        "factual",
        2.8,
        codes=frozenset({"34090-1", "43682-4", "34068-7", "34073-7"}),
    ),
)


PHARMACOLOGY_RULES = (
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
        "mutagenicity",
        ("mutagen", "genotox", "clastogen", "ames"),
        re.compile(r"\b(?:mutagenic|genotoxic|clastogenic|mutagenicity|genotoxicity|Ames)\b"),
        "What did genetic toxicity studies of {drug} show",
        "factual",
        2.0,
        general=True,
        codes=frozenset({"34083-6", "43680-8", "34091-9", "42232-9"}),
    ),
    QuestionRule(
        "fertility",
        ("fertility", "spermato", "reproductive performance"),
        re.compile(r"\b(?:fertility|spermatogenesis|reproductive performance)\b"),
        "What do animal studies of {drug} show about fertility",
        "factual",
        2.0,
        general=True,
        codes=frozenset({"34083-6", "43680-8", "34091-9", "42232-9"}),
    ),
    QuestionRule(
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


_NUMBER_NEXT = r"(?:\s?\([^)]{1,40}\))?"


def _share(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    people, deed = groups["who"], groups["vp"].rstrip(" ,.")
    fine = (
        sound(people, 110)
        and sound(deed, 110)
        and "%" not in people + deed
        and not re.search(r"\bcompared\b|\bversus\b|\brespectively\b", people)
    )
    return {**groups, "who": people, "vp": deed} if fine else None


def _study(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    return {**groups, "aux": groups["aux"].split()[0], "been": " been" if " been" in groups["aux"] else ""}


def _average(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    phrase = groups["np"]
    if not re.search(r" (?:of|for|in|on|to|between|from) ", phrase):
        return None
    return {**groups, "np": phrase if phrase.startswith("the ") else f"the {phrase}"}


STUDY_RULES = (
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
        "defined",
        ("defined as",),
        re.compile(r"^(?P<np>[^;:]{5,110}?) (?P<aux>was|were|is|are) (?:prospectively )?defined (?:as|by) (?=.{10})"),
        "How {aux} {np} defined",
        "factual",
        2.5,
        placed=True,
    ),
    QuestionRule(
        "geriatric_share",
        ("65",),
        re.compile(r"\b\d+(?:\.\d+)?\s?(?:%|percent)[^.]{0,60}?65"),
        "What proportion of patients in clinical studies of {drug} were aged 65 years or older",
        "numeric",
        2.9,
        True,
        codes=frozenset({"34082-8", "43684-0", "42232-9"}),
    ),
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
        "pregnancy_category",
        ("pregnancy category",),
        re.compile(r"pregnancy category:? [A-DX]\b", re.I),
        "Which pregnancy category does the {drug} label state",
        "factual",
        2.3,
    ),
    QuestionRule(
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
    QuestionRule(
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
    QuestionRule(
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
