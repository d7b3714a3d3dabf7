"""What a question calls things: the drug, the subject of a sentence, the topic of a section."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.text import capitalise, decapitalise, plain_case

_FORM_WORDS = """tablet tablets capsule capsules usp oral solution suspension injection gel ophthalmic delayed-release
extended-release delayed extended release film-coated er xr dr the of with treatment therapy hydrochloride hcl sodium
potassium calcium"""
_FORMS = frozenset(_FORM_WORDS.split())
_KIT = re.compile(r"\b(?:kit|plus|combo|duo)\b|pa[ck]k?\b", re.I)
_PRODUCT = re.compile(
    r"\b(?:hydrochloride|sodium|potassium|acetate|tablets?|capsules?|cream|gel|solution|injection|patch)\b", re.I
)
_ADJECTIVE = re.compile(r"(?:ger|ped)iatric|elderly", re.I)
_SAYS_ONLY_ITS_KIND = re.compile(
    r"^(?:general|warnings?.*|precautions|other|other .*|intervention|clinical"
    r" impact|prevention or management|important.*"
    r"|indications and usage|contraindications|boxed warning|drug interactions|use in specific populations|overdosage"
    r"|(?:general |recommended |usual )?(?:dos(?:e|age|ing)\b.*|administration.*)|storage.*|how supplied.*|description"
    r"|adverse (?:reactions|events|experiences|effects).*|clinical (?:trials?"
    r"|studies) experience|post-?marketing experience"
    r"|clinical pharmacology|pharmacokinetics|pharmacodynamics|mechanism of action|clinical studies|study \w+"
    r"|patient counseling information|information for patients|patient information.*"
    r"|medication guide.*|.*medguide|spl .*"
    r"|laboratory tests|table .*|note|adults?|adult patients|.* section|examples?|(?:specific|special) populations"
    r"|.*continued.*)$",
    re.I,
)


def name_subject(subject: str, drug: str) -> str:
    """The subject as the question names it: the drug's name where the label means the drug, else as written."""
    subject = decapitalise(subject.strip(), keep=drug)
    low, name = subject.lower(), drug.lower()
    if name in low:
        return subject
    if low in ("the drug", "drug", "this drug", "this medicine"):
        return drug
    own = set(low.split()) - _FORMS
    return drug if own and own <= set(name.split()) and not is_combination(drug) else subject


def is_combination(drug: str) -> bool:
    """Whether the name is that of several drugs together, so that "the half-life of it" says too little."""
    return bool(re.search(r" and |/|,|\bwith\b|\+", drug, re.I))


def is_about(drug: str, path: str, text: str) -> bool:
    """Whether a passage speaks of the drug that the label is named for, and not of another part of a kit.

    It does where it holds a word of the name that is no salt or form, or where nothing hints at a kit: neither the name
    nor a product named in the section path.
    """
    own = [word for word in re.findall(r"[a-z]{3,}", drug.lower()) if word not in _FORMS and word != "and"]
    low = f"{path} {text}".lower()
    return not own or any(word in low for word in own) or not (_KIT.search(drug) or _PRODUCT.search(path))


def telling_topic(title: str, drug: str) -> str:
    """A title in running case, "" where it only says what kind of section it heads ("Clinical Trials Experience")."""
    phrase = re.sub(r"^[\W\d]+", "", title).strip(" :.")
    if not 4 <= len(phrase) <= 70 or _SAYS_ONLY_ITS_KIND.match(phrase) or re.search(r"[?;]|\d", phrase):
        return ""
    return running_title(phrase, drug)


def running_title(title: str, drug: str) -> str:
    """A title as it stands inside a sentence; a bare adjective gets its noun: "geriatric patients"."""
    phrase = plain_case(title, drug)
    return f"{phrase} patients" if _ADJECTIVE.fullmatch(phrase) else phrase


def ask(core: str, drug: str, topic: str = "") -> str:
    """The question that names the drug: the core itself, or the core "according to the … label" (and its section)."""
    core = re.sub(r"\s+", " ", core).strip(" ,;:.")
    if topic and topic.lower() not in core.lower():
        if f"{drug} label" in core:
            return f"In its section on {topic}, {decapitalise(core)}?"
        return f"According to the {drug} label's section on {topic}, {decapitalise(core)}?"
    if drug.lower() in core.lower():
        return f"{capitalise(core)}?"
    return f"According to the {drug} label, {decapitalise(core)}?"
