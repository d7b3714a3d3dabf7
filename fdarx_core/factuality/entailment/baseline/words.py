"""Words as the entailment rules compare them: one concept for the forms and the names of a thing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from math import fsum

from fdarx_core.evaluation.baseline.grading_words import stem, stems

_SUFFIX = re.compile(
    r"(?<=\w{4})(?:iveness|fulness|ability|ibility|ment|ness|ible|ibl|able|abl|ance|anc|ence|enc|ancy|ency|ant|ent|ity|"
    r"it|ive|iv|ous|ical|ic|ist|ize|iz|ise|is|ier|er|or|ar|if|ul|y|i|n)$"
)
_SAME_WORD = """
hives: urticaria
itch: pruritus
rash: dermatitis
fever: pyrexia
vomit: emesis
stroke: cerebrovascular
faint: syncope
miscarriage: abortion
swelling: edema oedema
tiredness: fatigue
sleepiness: somnolence drowsiness sedation
vein: intravenous
muscle: intramuscular
skin: dermal cutaneous
stomach: gastric
blood: plasma serum
brain: cerebral
lung: pulmonary
heart: cardiac
eye: ocular ophthalmic
child: pediatric
baby: infant neonate newborn
man: male men males
woman: female women females
person: people persons individual subject
limit: maximum ceiling largest highest greatest
minimum: lowest least smallest
dose: dosage dosing
give: administer administration gave given
take: taken took
get: receive got gotten
drug: medicine medication agent
change: alter adjust adjustment modification modify vary
remove: removal
excrete: excretion eliminate elimination
metabolize: metabolism metabolise catabolism degrade
treat: treatment therapy
use: usage useful used using
need: require necessary requirement
cause: induce produce lead provoke
happen: occur occurrence appear develop arise
see: observe seen saw note noted
show: demonstrate shown prove proven evidence establish
efficacy: effective effectiveness efficacious work
safe: safety
keep: store storage kept
freeze: frozen froze
begin: start
end: stop
check: monitor measure assess evaluate test examine
recommend: advise suggest advisable
danger: risk hazard chance likelihood probability
raise: increase
death: mortality die fatal dead lethal deaths died
illness: disease disorder condition
ache: pain
cancer: malignancy carcinoma neoplasm malignant
tumor: neoplastic
clot: thrombosis thrombus thrombotic thromboembolism
allergy: hypersensitivity allergic
seizure: convulsion
dizziness: dizzy lightheadedness
breath: breathing respiratory respiration
weight: weigh
day: daily
often: frequent frequency common commonly
seldom: rare rarely infrequent uncommon
quick: rapid fast quickly prompt promptly immediate immediately
slow: gradual gradually slowly
big: large
small: little few slight minimal
doctor: physician prescriber clinician
test: assay
meal: food eat eating meals
bind: bound binding
cross: penetrate pass
absorb: absorption
half-life: halflife
combine: combination concomitant concurrent coadminister coadministration together concomitantly
influence: affect effect impact
patient: patients
level: concentration levels
group: class
illicit: street
fetus: fetal foetus foetal
pregnancy: pregnant gestation
lactation: breastfeeding breastfeed breastfed
operation: surgery surgical
shot: injection inject
infusion: infuse
tablet: tablets pill
long: prolong prolonged lengthy
short: brief
"""
_LIGHT = """
patient drug dose use treat recommend indicated contraindicated avoid
tablet capsule product give take get report result consider available contain
know cause associate case person group show happen see need influence may condition include study trial clinical
mostly mainly primarily generally usually usual main mean overall important significant possible possibly potential
potentially certain various several many much few number amount way kind type form time day week month year
people make come go become help let put first second other another own same even still often common specific
up exceed above below under over reach appropriate additional further following data information evidence
effect level make made
"""


@lru_cache(maxsize=65536)
def root(one: str) -> str:
    """A stem without what else makes a noun, a verb or an adjective of it; one with a digit stays whole."""
    if any(map(str.isdigit, one)):
        return one
    shorter = _SUFFIX.sub("", one)
    return one if shorter == one else root(shorter)


def _names() -> dict[str, str]:
    lines = (line.split(":") for line in _SAME_WORD.strip().splitlines())
    found: dict[str, str] = {}
    for name, others in lines:
        for other in (name, *others.split()):
            found.setdefault(root(stem(other)), name)
    return found


_NAME = _names()


@lru_cache(maxsize=65536)
def concept(one: str) -> str:
    """What a stem stands for."""
    bare = root(one)
    return _NAME.get(bare, bare)


_LIGHT_CONCEPTS = frozenset(concept(stem(word)) for word in _LIGHT.split())


@lru_cache(maxsize=65536)
def weight_of(one: str) -> float:
    """A word that says little by itself is a fifth of another; a name with digits is two."""
    return 0.2 if one in _LIGHT_CONCEPTS else 2.0 if any(map(str.isdigit, one)) else 1.0


def weight(found: Iterable[str]) -> float:
    """How much concepts say together."""
    return fsum(map(weight_of, found))  # the same in any order, and so in every process


def concepts(text: str) -> list[str]:
    """The concepts of a plain text's words that carry meaning, in order."""
    return [concept(one) for one in stems(text)]
