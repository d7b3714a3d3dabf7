"""Word stems, synonyms and concepts, and the weight of each in a comparison.

Three sets of suffixes give three stems: `term` for judges and retrieval by words, `grading` for grades and verdicts,
`conjunction` for the filter of joined questions. A concept is a stem without further suffixes, with synonyms as one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from math import fsum
from typing import Literal

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import content_words, tokenize, word_set

_SUFFIXES = {
    "term": re.compile(r"(?<=\w{3})(?:ations?|ions?|ings?|ages?|ed|es|e|s|ly|al|y|ies)$"),
    "grading": re.compile(r"(?<=\w{3})(?:ations?|ions?|ings?|ages?|ated?|ates|ed|es|e|s|ly|ally|al|y|ies)$"),
    "conjunction": re.compile(r"(?<=\w{3})(?:ages?|ations?|ings?|ed|es|e)$"),
}
MOST_SENTENCES = 4
"""The most sentences that `best_sentences` returns."""
_STEM_STOP = word_set(
    """
a an the of in on at to for from by with and or as is are was were be been being do does did has have had can could may
might must shall should will would it its he she they them their this that these those there here which who whom whose
what when where why how if than then so such any all each other into about per also only both either while because
since not no nor never without avoid cannot but until unless against very more most less some you your i we our us
according label section state says say said include includes including following respectively approximately about
eg ie etc e.g i.e however therefore thus just well given based
"""
)
_LIGHT_STEM_WORDS = """
patient drug use treatment recommend tablet capsule dose therapy medicine medication receive take give administration
administer product usual case occur report show result consider available contain know cause associate experience
"""
_AFTER_ORGAN = "|".join(f"(?<={organ} {{0}})" for organ in ("renal", "kidney", "hepatic", "liver"))
_SYNONYMS = {
    "kidney": "renal",
    "liver": "hepatic",
    r"elderly|older (?:adults?|patients?|people|persons?)|aged": "geriatric",
    r"child(?:ren)?|paediatrics?|pediatrics|kids|youths?": "pediatric",
    r"nursing (?:mothers?|infants?)|breast[- ]?fe(?:ed|eding|d)|lactating|breast milk|human milk": "lactation milk",
    r"heart attacks?|mi": "myocardial infarction",
    r"high blood pressure": "hypertension",
    r"low blood (?:sugar|glucose)": "hypoglycemia",
    r"by mouth": "oral",
    r"allerg(?:y|ies|ic)(?: reactions?)?(?: to)?": "hypersensitivity",
    r"insufficiency|dysfunction|impaired": "impairment",
    rf"failure(?:{_AFTER_ORGAN.format('failure')})|disease(?:{_AFTER_ORGAN.format('disease')})": "impairment",
    r"side effects?|undesirable effects?|adverse events?|adverse effects?": "adverse reaction",
    r"start(?:ed|ing|s)?|begin(?:ning|s)?|begun|began|initiat(?:e|ed|ion|ing)": "start",
    r"stop(?:ped|ping|s)?|discontinu(?:e|ed|ation|ing)|cease|withdraw(?:n|al)?": "stop",
    r"reduc(?:es?|ed|ing|tion)|lower(?:ed|ing|s)?|diminish(?:e[sd]|ing)?": "decrease",
    r"rais(?:es?|ed|ing)|elevat(?:es?|ed|ing|ion)|enhanc(?:es?|ed|ing)": "increase",
    r"max|maximal": "maximum",
    r"bleed(?:s|ing)?|haemorrhages?": "hemorrhage",
    r"tumou?rs?": "tumor",
    r"components?": "ingredient",
    r"gi": "gastrointestinal",
    r"cv": "cardiovascular",
    r"cns": "central nervous system",
    r"cabg": "coronary artery bypass graft",
    r"ckd": "chronic renal impairment",
    r"esrd": "end stage renal impairment",
    r"type (?:1|i)": "type1",
    r"type (?:2|ii)": "type2",
    r"t2dm": "type2 diabetes mellitus",
    r"non-?\s?steroidal,? anti-?\s?inflammatory (?:drugs?|agents?|medicines?)|nsaids?": "nsaid",
    r"expectant mothers?": "pregnant",
    r"physicians?|doctors?|prescribers?|healthcare providers?": "physician",
}
_SYNONYM_PATTERNS = [(re.compile(words), name) for words, name in _SYNONYMS.items()]
_SYNONYM = re.compile(rf"\b(?:{'|'.join(_SYNONYMS)})\b")
_SYNONYM_OR_WORD = re.compile(rf"(?P<synonym>{_SYNONYM.pattern})|[a-z0-9]*[a-z][a-z0-9]*")
_PATIENT_GROUPS = {
    "children": r"pediatric|adolescen|infant|neonat|newborn",
    "older adults": r"geriatric",
    "pregnancy": r"pregnan|gestation|trimester",
    "lactation": r"\blactation|milk",
    "renal impairment": r"(?<!acute )renal impair|renal function|egfr|creatinine clearance|dialysis|\bcrcl\b",
    "hepatic impairment": r"hepatic function|(?<!acute )hepatic impair(?!\w*,? develop)|child-pugh|cirrho",
    "women": r"(?<!pregnant )(?<!lactation milk )\b(?:women|woman|female)",
    "men": r"\bmen\b|\bmale",
    "adults": r"\badult",
}
_CONCEPT_SUFFIX = re.compile(
    r"(?<=\w{4})(?:iveness|fulness|ability|ibility|ment|ness|ible|ibl|able|abl|ance|anc|ence|enc|ancy|ency|ant|ent|ity|"
    r"it|ive|iv|ous|ical|ic|ist|ize|iz|ise|is|ier|er|or|ar|if|ul|y|i|n)$"
)
_CONCEPTS = """
hives: urticaria; itch: pruritus; rash: dermatitis; fever: pyrexia; vomit: emesis; stroke: cerebrovascular; faint:
syncope; miscarriage: abortion; swelling: edema oedema; tiredness: fatigue; sleepiness: somnolence drowsiness
sedation; vein: intravenous; muscle: intramuscular; skin: dermal cutaneous; stomach: gastric; blood: plasma serum;
brain: cerebral; lung: pulmonary; heart: cardiac; eye: ocular ophthalmic; child: pediatric; baby: infant neonate
newborn; man: male men males; woman: female women females; person: people persons individual subject; limit: maximum
ceiling largest highest greatest; minimum: lowest least smallest; dose: dosage dosing; give: administer administration
gave given; take: taken took; get: receive got gotten; drug: medicine medication agent; change: alter adjust
adjustment modification modify vary; remove: removal; excrete: excretion eliminate elimination; metabolize: metabolism
metabolise catabolism degrade; treat: treatment therapy; use: usage useful used using; need: require necessary
requirement; cause: induce produce lead provoke; happen: occur occurrence appear develop arise; see: observe seen saw
note noted; show: demonstrate shown prove proven evidence establish; efficacy: effective effectiveness efficacious
work; safe: safety; keep: store storage kept; freeze: frozen froze; begin: start; end: stop; check: monitor measure
assess evaluate test examine; recommend: advise suggest advisable; danger: risk hazard chance likelihood probability;
raise: increase; death: mortality die fatal dead lethal deaths died; illness: disease disorder condition; ache: pain;
cancer: malignancy carcinoma neoplasm malignant; tumor: neoplastic; clot: thrombosis thrombus thrombotic
thromboembolism; allergy: hypersensitivity allergic; seizure: convulsion; dizziness: dizzy lightheadedness; breath:
breathing respiratory respiration; weight: weigh; day: daily; often: frequent frequency common commonly; seldom: rare
rarely infrequent uncommon; quick: rapid fast quickly prompt promptly immediate immediately; slow: gradual gradually
slowly; big: large; small: little few slight minimal; doctor: physician prescriber clinician; test: assay; meal: food
eat eating meals; bind: bound binding; cross: penetrate pass; absorb: absorption; half-life: halflife; combine:
combination concomitant concurrent coadminister coadministration together concomitantly; influence: affect effect
impact; patient: patients; level: concentration levels; group: class; illicit: street; fetus: fetal foetus foetal;
pregnancy: pregnant gestation; lactation: breastfeeding breastfeed breastfed; operation: surgery surgical; shot:
injection inject; infusion: infuse; tablet: tablets pill; long: prolong prolonged lengthy; short: brief
"""
_LIGHT_CONCEPT_WORDS = """
patient drug dose use treat recommend indicated contraindicated avoid
tablet capsule product give take get report result consider available contain
know cause associate case person group show happen see need influence may condition include study trial clinical
mostly mainly primarily generally usually usual main mean overall important significant possible possibly potential
potentially certain various several many much few number amount way kind type form time day week month year
people make come go become help let put first second other another own same even still often common specific
up exceed above below under over reach appropriate additional further following data information evidence
effect level make made
"""


@lru_cache(maxsize=1 << 17)
def stem(word: str, suffixes: Literal["term", "grading", "conjunction"] = "grading") -> str:
    """Return a word without its suffix. In gradings a word with a digit ("cyp3a4") is a name and stays whole."""
    return word if suffixes == "grading" and _has_digit(word) else _SUFFIXES[suffixes].sub("", word)


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


@lru_cache(maxsize=4096)
def terms(text: str) -> frozenset[str]:
    """Return the stems of the content words of a text, and its numbers."""
    words = (word for word in content_words(text) if not word[0].isdigit())
    return frozenset(stem(word, "term") for word in words) | number_strings(text)


def term_weight(found: Collection[str]) -> int:
    """Return the weight of `terms`: a number counts as two words."""
    return sum(2 if term[0].isdigit() else 1 for term in found)


@lru_cache(maxsize=64)
def sentence_terms(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the sentences of a text, each with its terms."""
    return tuple((sentence, terms(sentence)) for sentence in split_sentences(text))


def best_sentences(wanted: Collection[str], text: str) -> list[str]:
    """Return the fewest sentences, in order, that hold most of the wanted terms; at most `MOST_SENTENCES`.

    Greedy: the sentence that adds most, then the next, while one adds two words or a number.
    """
    pool = sentence_terms(text)
    missing, chosen = set(wanted), list[int]()
    while missing and len(chosen) < MOST_SENTENCES:
        gains = [term_weight(terms & missing) for _, terms in pool]
        best = max(range(len(pool)), key=lambda place: (gains[place], -place), default=-1)
        if best < 0 or gains[best] < (2 if chosen else 1):
            break
        chosen.append(best)
        missing -= pool[best][1]
    return [pool[place][0] for place in sorted(chosen)]


def canonical_names(text: str) -> str:
    """Return a normalized text with one name for synonyms: kidney becomes renal, bleeding becomes hemorrhage."""
    return _SYNONYM.sub(lambda found: _canonical(found[0]), text)


@lru_cache(maxsize=1024)
def _canonical(synonym: str) -> str:
    # "failure" and "disease" match only after an organ's name, which is absent here.
    return next((name for pattern, name in _SYNONYM_PATTERNS if pattern.fullmatch(synonym)), "impairment")


def is_stop_word(word: str) -> bool:
    """Return whether a lower-case word carries no meaning of its own."""
    return word in _STEM_STOP or len(word) < 2


def stems(text: str) -> list[str]:
    """Return the stems of a normalized text's words in order, without stop words."""
    return [stem(word) for word in tokenize(text, "letters") if not is_stop_word(word)]


def stem_spans(text: str) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Yield (start, end, stems) of each word of a normalized text that is no stop word, and of each synonym."""
    for found in _SYNONYM_OR_WORD.finditer(text):
        if own := frozenset(stems(_canonical(found[0]) if found["synonym"] else found[0])):
            yield found.start(), found.end(), own


_LIGHT_STEMS = frozenset(map(stem, _LIGHT_STEM_WORDS.split()))


def stem_weight(found: Iterable[str]) -> float:
    """Return the weight of stems: 1/3 for a word that all labels use, 2 for a name with digits, else 1."""
    return fsum(map(_stem_weight, found))  # exact, so that the order of a set does not change a grade


@lru_cache(maxsize=1 << 16)
def _stem_weight(one: str) -> float:
    return 1 / 3 if one in _LIGHT_STEMS else 2.0 if _has_digit(one) else 1.0


def patient_groups(text: str) -> frozenset[str]:
    """Return the groups of patients that a normalized text names."""
    return frozenset(name for name, pattern in _PATIENT_GROUPS.items() if re.search(pattern, text))


@lru_cache(maxsize=1 << 16)
def root(one: str) -> str:
    """Return a stem without the suffixes of nouns, verbs and adjectives; one with a digit stays whole."""
    shorter = one if _has_digit(one) else _CONCEPT_SUFFIX.sub("", one)
    return one if shorter == one else root(shorter)


def _concept_names() -> dict[str, str]:
    names: dict[str, str] = {}
    for name, others in (entry.split(":") for entry in _CONCEPTS.split(";")):
        for other in (name.strip(), *others.split()):
            names.setdefault(root(stem(other)), name.strip())
    return names


_CONCEPT_OF_ROOT = _concept_names()


@lru_cache(maxsize=1 << 16)
def concept(one: str) -> str:
    """Return the concept of a stem: its root, or the name that stands for its synonyms."""
    bare = root(one)
    return _CONCEPT_OF_ROOT.get(bare, bare)


def concepts(text: str) -> list[str]:
    """Return the concepts of a normalized text in order."""
    return [concept(one) for one in stems(text)]


_LIGHT_CONCEPTS = frozenset(concept(stem(word)) for word in _LIGHT_CONCEPT_WORDS.split())


@lru_cache(maxsize=1 << 16)
def weight_of_concept(one: str) -> float:
    """Return the weight of a concept: 0.2 for one that says little by itself, 2 for a name with digits, else 1."""
    return 0.2 if one in _LIGHT_CONCEPTS else 2.0 if _has_digit(one) else 1.0


def concept_weight(found: Iterable[str]) -> float:
    """Return the sum of the concepts' weights."""
    return fsum(map(weight_of_concept, found))
