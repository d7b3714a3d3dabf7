"""How the baseline reads a question: what it asks about, beside the words in which anything is asked."""

from __future__ import annotations

import re
from functools import lru_cache

from fdarx_core.evaluation.baseline.answering_text import Evidence
from fdarx_core.filters.baseline.terms import terms

_OF_QUESTIONS = """
about accompany according account across add added addition additional address adjust adjusted advice advise advised
affect against aim alter alternative although among answer any appear application applied apply approach appropriate
around asked aspects associated available aware bear bears because before begin behind being benefit best between box
boxed call called calls case cases caution cautions certain change changed characteristics check checked choose
circumstances clinical come common compare compared compares comparison concern concerning concerns condition
conditions connect connected connection consider considerations considered considering contain counsel counseling
criteria data day decide define describe described despite detail details determine differ difference different doctor
document does doing done drug due effect effects either emphasize ensure especially evaluate evaluated even evidence
expect expected explain explained explains extent fact factor factors far figure find finding findings first fit
follow following frequency frequent frequently general give given gives giving group groups guidance handle happen
happens head heading help higher highest imply importance important include included includes indicate indicated
individual influence inform information instruct instruction instructions interval intervals involve involved issue
itself keep kind known label labeled labeling large least length level levels light like likely limit limits list
listed lists long low lower made main make making management manner many matter matters maximum mean means measure
measured measures medication medicine mention mentioned method minimum most much name named names necessary need
needed needs normal note noted number observe observed occur occurred often older one order other others out outline
own part particular patient patients people percent percentage period person physical place point points population
populations possible potential precaution precautions prescribe prescribed prescriber prescribers prescribing presence
present prior product proper properties property provide provided provider purpose put question range rate rather
rationale reach reaches reason reasons receive received receiving recipient recognize recommend recommendation
recommendations recommended reduce regard regarding regular relate related relation relationship relative reliable
reliably remark report reported reports require required requirements respect response rest result results risk risks
role route rule rules run safe safety same say says schedule section sections see set several should show shown shows
significance similar since single situation situations something source speak speaks special specific specified stand
stands start started state stated statement states step steps still stop stopped strength strengths studies study
subject subjects such suggest suggested suit suitable summarize summary support supports take taken takes taking tell
tells term test therapy things time together told total toward treat treated treating treatment trial trials type
types under undergo undergoing underlie underlies upon use used useful usefulness user users uses using usual view
warn warned warning warnings warns way ways well whether withheld within without word words work year years yes
"""
_OF_LABELS = """
absorption act active administration adverse animal animals appearance approve approved bioavailability body breast
carcinogenicity chemical child children clearance combination concomitant contraindicated contraindication
contraindications dialysis dialyzability direction directions disposal distribution dosage dose dosing elderly
eliminate eliminated elimination excretion fertility geriatric harm harms hazard human impairment inactive indication
ingredient ingredients interact interaction interactions lactation mechanism metabolism metabolized milk molecular
monitor mutagenicity overdosage overdose pediatric pharmaceutical pharmacokinetic pharmacokinetics pregnancy pregnant
presence protein reaction reactions remove removed removing reproduction sign signs solubility storage store stored
substance symptom symptoms table toxicity undesirable
"""
_FRAME = frozenset(term for word in _OF_QUESTIONS.split() for term in terms(word))
_STANDING = frozenset(term for word in _OF_LABELS.split() for term in terms(word))
"""What every label has a place for, under this word or another: its absence tells nothing."""
_CODE = re.compile(r"[^\W\d]+\d")
_NUMBER_ASKED = re.compile(
    r"\bhow (?:much|many|often|long|large|high|frequently|common|far|soon|quickly|old)\b|"
    r"\bwhat (?:\w+ ){0,4}(?:dose|dosage|percentage|percent|proportion|rate|incidence|half-life|duration|fraction|"
    r"concentration|strengths?|weight|temperature|age|frequency|time|ratio|number|range|volume|interval|clearance|"
    r"bioavailability)\b|\bwhich (?:\w+ ){0,2}(?:dose|dosage|strengths?|percentage|temperature|interval)\b|"
    r"\b(?:maximum|minimum|highest|lowest|starting|percent|percentage|threshold)\b",
    re.IGNORECASE,
)
_TWO_ASKED = re.compile(
    r"^why\b|\band (?:what|why|how|which|when|who|where|is|are|does|do|should)\b|"
    r"\b(?:considering|despite|given (?:that|the)|in view of|in light of|compare[sd]?|relative to|in relation to|"
    r"combined|connection|underl(?:ies|ie|ying)|explains?|bears? on|stands? behind|speaks? against|add to|answers)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def asked_terms(question: str, drug: str) -> tuple[frozenset[str], frozenset[str]]:
    """The terms of a question beside the drug's name, and those of them that tell what it is about.

    Words in which one asks about any drug ("according", "label", "recommended") tell nothing.
    """
    asked = terms(question) - terms(drug)
    return asked, asked - _FRAME


def absent_share(telling: frozenset[str], evidence: Evidence) -> float:
    """Which share of a question's telling terms stands nowhere, neither as such nor in another form.

    A name with figures in it (CYP2D6) that stands nowhere is all that matters.
    """
    absent = [term for term in telling - _STANDING if not evidence.has_form(term) and len(term) > 1]
    if any(_CODE.match(term) for term in absent):
        return 1.0
    return len(absent) / len(telling) if telling else 0.0


def wants_number(question: str) -> bool:
    """Whether a figure is asked for: a dose, a share, a duration."""
    return _NUMBER_ASKED.search(question) is not None


def wants_two(question: str) -> bool:
    """Whether it sets two things beside each other, as multi-hop questions do."""
    return _TWO_ASKED.search(question) is not None
