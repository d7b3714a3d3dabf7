"""What an answer says besides claims: marks of citations, courtesies, advice to ask a doctor, the speaker's opinions.

Nothing of it can be held against evidence, so it counts neither for an answer nor against it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from fdarx_core.evaluation.answers.refusals import declines
from fdarx_core.factuality.claims.words import frame_end

_PASSAGE = r"\|{0,2}\s?PASSAGES?[\s_\\\-#:]{0,2}\d{1,6}\s?\|{0,2}"
_NUMBERS = r"\d{1,3}(?:\.\d{1,2}){0,2}(?:\s*(?:[,;–-]|and|to)\s*\d{1,3}(?:\.\d{1,2}){0,2})*"
_URL = r"(?:https?://|www\.)[^\s<>\"”\])]+"
_SEE = r"(?:also |please )?(?:see|refer to|cf\.?|as (?:described|stated|listed) in)\s(?:also\s)?"
_PLACE = r"(?:sections?|tables?|figures?|passages?|appendix|appendices|boxed warning|label|references?)"
CITATION = re.compile(
    rf"\s{{0,2}}(?:[\[(]\s*(?:{_PASSAGE}\s*(?:[,;–-]|and|to)?\s*)+[\])]"
    rf"|\[\s*\^?{_NUMBERS}\s*\](?:\([^()\s]*\))?|\(\s*{_SEE}[^()]{{0,200}}(?:\([^()]*\)[^()]{{0,80}}){{0,4}}\)"
    rf"|\[\s*{_SEE}[^\[\]]{{0,200}}\]|[\[(]\s*(?:source|sources|ref|refs|references?|citations?|"
    rf"{_PLACE})\b\.?:?[^\[\]()]{{0,120}}[\])]"
    rf"|[\[(]\s*{_URL}\s*[\])]|{_URL}|{_PASSAGE})",
    re.IGNORECASE,
)
"""A mark of a citation, with the space before it."""

_MAY_CITE = re.compile(r"[\[(|]|http|www\.|passage", re.IGNORECASE)

_DOCTOR = (
    r"(?:(?:your|a|the|an|their|his|her) )?(?:own |local |treating |prescribing |eye |primary |qualified |licensed |"
    r"family )*"
    r"(?:doctors?|physicians?|pharmacists?|(?:health[ -]?care|medical|health|mental health) (?:providers?|"
    r"professionals?|"
    r"practitioners?|teams?|experts?)|providers?|specialists?|clinicians?|prescribers?|gp|dermatologists?|dentists?|"
    r"nurses?|veterinarians?|gyna?ecologists?|psychiatrists?)"
)
_ASK = (
    r"(?:consult(?:ing|ation)?(?: with)?|talk(?:ing)? (?:to|with)|speak(?:ing)? (?:to|with)|ask(?:ing)?|see(?:ing)?|"
    r"visit(?:ing)?|contact(?:ing)?|call(?:ing)?|check(?:ing)? with|discuss(?:ing)? (?:it |this |them )?with|"
    r"follow(?:ing)? up with|communicat(?:e|ing) (?:\w+ly )?with|work(?:ing)? (?:closely )?with|"
    r"seek(?:ing)? (?:the )?(?:advice|guidance|help) (?:of|from)|"
    r"discuss (?:\w+ ){1,8}with|follow(?:ing)?)"
)
_ADVICE = re.compile(rf"\b{_ASK} (?:with )?{_DOCTOR}\b|\b(?:medical|professional) advice\b", re.IGNORECASE)
_ADVISED = re.compile(
    r"^(?:(?:it(?: is|['’]s| would be)|you(?:['’]re| are)?|please|always|i|we|if|as always|as with|before|in any case|"
    r"for (?:more|further|any|additional|specific|personali[sz]ed)|to (?:determine|find|get|learn|know|be)|"
    r"when in doubt|"
    r"(?:the )?best (?:thing|way)|should you|patients? should|therefore|first of all|be sure|make sure|remember|"
    r"your best|and)\b|(?:" + _ASK + r")\b)",
    re.IGNORECASE,
)
_SPECIFIC = re.compile(
    r"\d|\b(?:immediately|right away|at once|emergency|urgent|promptly)\b|"
    r"\b(?:if|when|in case) (?:you|your|the|he|she|they|any of|symptoms|there)\b(?! (?:have|has|are|think|feel|"
    r"suspect|need|"
    r"want)?\s?(?:any |more |further |other |additional |still )*(?:questions?|concerns?|doubts?|concerned|unsure|"
    r"in doubt|"
    r"worried|not sure|considering|that you|you (?:might|may)|experiencing (?:any|these|this|such)|any)\b)",
    re.IGNORECASE,
)
"""Names when, or how soon: such advice can be right or wrong."""

_COURTESY = re.compile(
    r"^(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day)|thanks?|thank you|you(?:['’]re|"
    r" are) welcome|"
    r"welcome|sure|of course|certainly|absolutely|great question|good question|excellent question|that(?:['’]s|"
    r" is) an? "
    r"(?:great|good|excellent|important)|i(?:['’]m| am) (?:happy|glad|here|sorry)|happy to|sorry|apologies|"
    r"best(?: wishes| "
    r"regards)|kind regards|regards|sincerely|take care(?=\W*$)|good luck|ok(?:ay)?(?=\W*$)|get well|stay (?:safe|"
    r"healthy)|you bet|"
    r"all the best|"
    r"feel free|please (?:feel free|let me know|note that i|click|share|like|subscribe|visit|read|leave)|let me know|"
    r"let(?:['’]s| us| me) (?:look|discuss|take|see|explore|dive|start|begin|talk|share|explain|tell|go|break|answer)|"
    r"(?:i |we |hope )?(?:hope|trust)\b|click here|read more|learn more|sign up|share this|related (?:articles|"
    r"questions)|"
    r"(?:more|further|additional) (?:information|details|resources)\b.{0,80}\b(?:available|found|visit)|"
    r"for (?:more|further|additional|complete|full|detailed) (?:information|details|reading)|visit\b|disclaimer|"
    r"here(?:['’]s| is| are) |below (?:is|are) |(?:this|the) (?:answer(?= (?:is|was|to|will|depends|varies|above|"
    r"below)\b)|"
    r"article|post|blog|"
    r"page|video|website)\b|in this (?:article|post|blog|video|guide)|(?:table|figure) \d)"
    r"(?![a-z])",
    re.IGNORECASE,
)
_ONE_WORD = re.compile(
    r"^(?:sure|certainly|absolutely|of course|welcome|sorry|regards|visit|hi|hey|trust|hope)\b(?!\W*$|[,!:])",
    re.IGNORECASE,
)
"""Where such a word begins a statement after all ("Best results …")."""
_DISCLAIMS = re.compile(
    r"\b(?:as an? (?:ai|artificial intelligence|(?:large )?language model)|i(?:['’]m| am) (?:not a|an ai|just an?)|"
    r"(?:not|n['’]t) (?:intended|meant|designed)?\s?(?:to be|as|to)?\s?(?:(?:a )?substitute|replace|(?:medical|"
    r"professional) advice)|"
    r"substitute for (?:professional|medical)|for (?:general |educational |informational )+(?:information )?purposes|"
    r"no(?:t| ) (?:constitute|medical) advice|(?:this|the) (?:information|answer|content) (?:is|should not|"
    r"does not)\b.{0,40}\b"
    r"(?:general|informational|educational|advice|substitute|exhaustive))",
    re.IGNORECASE,
)
_SPEAKER = re.compile(
    r"^(?:(?:and|but|so|yes|no|well|also|now|then|personally|honestly|however|although|if|since|because|as|when|"
    r"while)[,\s]+)*"
    r"(?:i(?!\s?[.)(\-/]|v\b| and\b)(?:['’](?:m|ve|d|ll))?|my|(?:in|from) (?:my|our)|(?:in )?my (?:opinion|view|"
    r"experience)|"
    r"we (?:think|believe|feel|hope|guess|suspect|suppose|would like)|imo|imho|"
    r"personally)\b",
    re.IGNORECASE,
)
_DRUG_SPOKEN_OF = re.compile(r"(?:it|they)\s", re.IGNORECASE)
_LABEL_SAID = re.compile(
    r"\b(?:label|passage|text|context|document|information|section|i|we|question|answer)\w*\b", re.IGNORECASE
)
_SOURCES = re.compile(
    r"(?:cited[ _]passages?(?:[ _]ids?)?|passages?[ _]cited|citations?|sources?|references?|bibliography|"
    r"further reading|"
    r"see also|read more|related (?:articles|links|questions))\s*(?:[:：]|$)",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[*`#]+|(?<!\w)_+|_+(?!\w)")
_LETTERS = re.compile(r"[^\W\d_]{2}")


def lists_sources(heading: str) -> bool:
    """Whether what stands under a heading, or after a colon, is a list of sources."""
    return bool(_SOURCES.match(_MARKS.sub(" ", heading).strip()))


def without_citations(text: str) -> str:
    """The text without marks of citations."""
    return CITATION.sub("", text) if _MAY_CITE.search(text) else text


def names_doctor(sentence: str) -> bool:
    """Whether the sentence after it may say what doctors do ("They can prescribe …")."""
    return bool(_ADVICE.search(sentence))


@lru_cache(maxsize=1024)
def is_no_claim(sentence: str) -> bool:
    """Whether a sentence, without marks of citations, can neither hold nor fail against evidence."""
    said = _MARKS.sub("", sentence).strip(" \t\"“”'‘’-–—:;,.•")
    return (
        not _LETTERS.search(said)
        or bool(_COURTESY.match(said) and not _ONE_WORD.match(said))
        or lists_sources(said)
        or bool(_DISCLAIMS.search(said))
        or bool(_SPEAKER.match(said))
        or _sends_to_doctor(said)
        or _declines(said)
    )


def _sends_to_doctor(said: str) -> bool:
    if not _ADVICE.search(said) or _SPECIFIC.search(said):
        return False
    return bool(_ADVISED.match(said) or _ADVISED.match(said[frame_end(said) :]))


def _declines(said: str) -> bool:
    """A refusal speaks of the label or the speaker; "it does not cover anaerobes" speaks of a drug."""
    return declines(said) and (not _DRUG_SPOKEN_OF.match(said) or bool(_LABEL_SAID.search(said)))
