"""Detection of refusals.

An answer is a refusal if one of its clauses declines and no clause answers. Each clause is classified as declining,
empty (it refers the reader elsewhere, or says why there is no answer) or an answer: "the label gives no dose for
children, but recommends 5 mg for adults" is an answer. Statements that labels make themselves, such as "is not
recommended", "have not been established" and "no data are available", are answers too.
"""

from __future__ import annotations

import re

TOKEN = re.compile(r"\bNOT[ _\\-]{1,2}ANSWERABLE\b|\bUNANSWERABLE\b", re.IGNORECASE)
_ALONE = re.compile(rf"(?:^|(?<=[.!?]\s))[\W_]*(?:{TOKEN.pattern})[\W_]*$", re.IGNORECASE | re.MULTILINE)
_FIRST = re.compile(rf"^[\W_]*(?:{TOKEN.pattern})", re.IGNORECASE)
_HINT = re.compile(
    r"answerable|answer|n['’]t|\bnot\b|\bno\b|\bnothing\b|\bnone\b|unable|unclear|unknown|insufficient|neither|\bn/a\b|"
    r"\bcannot\b|sorry|unaware",
    re.IGNORECASE,
)

_LABEL = (
    r"(?:labels?|labell?ing|passages?|texts?|contexts?|documents?|excerpts?|package insert|prescribing information|"
    r"sections?|sources?|materials?|(?:provided|given|available|supplied|above) information|"
    r"information (?:provided|given|above|supplied))"
)
_NOT = r"(?:(?:does|do|did) not|(?:does|do|did)n['’]?t)"
_SAYS = (
    r"(?:specify|mention|state|address|discuss|describe|detail|define|say|indicate|answer|list|report|identify|"
    r"clarify|reference|cover|disclose|explain|tell|comment|outline|quantify|refer to|"
    r"make (?:any )?(?:mention|reference))"
)
_HOLDS = r"(?:contain|provide|include|give|offer|have|present|show|supply)"
_INFORMATION = (
    r"(?:information|mention|data|details?|specifics?|recommendations?|guidance|instructions?|answers?|statements?|"
    r"references?|dos(?:e|es|ing|age)|values?|figures?|numbers?|thresholds?|percentages?|frequenc(?:y|ies)|rates?|"
    r"explanations?|descriptions?|durations?|schedules?|criteria|advice|evidence)"
)
_IN_LABEL = (
    r"(?:in|within|from|by|on|with|using) (?:(?:the|this|that|these|those|any|any of the|your) )?(?:[\w’'-]+ ){0,3}"
    + _LABEL
)
_CANNOT = r"(?:cannot|can not|can['’]?t|could not|couldn['’]t)"
_SOFTLY = r"(?: \w+ly| appear to| seem to| currently| even){0,3}"
_MISSING = (
    r"(?:provided|specified|mentioned|stated|given|addressed|discussed|described|listed|found|available|included|"
    r"contained|reported|present|indicated|disclosed|defined|detailed|covered|identified|answered|stated|documented)"
)
_SORRY = (
    r"(?:(?:i['’]?m|i am|we are)?\s?(?:very )?(?:sorry|afraid)[,.]?\s?(?:but|that)?\s?|unfortunately,? |apologies,? )?"
)
_CLAUSES = (
    TOKEN.pattern,
    # "The label does not specify …", "it doesn't provide information on …"
    rf"\b(?:{_LABEL}|it|they)\b.{{0,80}}?\b{_NOT}{_SOFTLY} {_SAYS}\b",
    rf"\b(?:{_LABEL}|it|they)\b.{{0,80}}?\b{_NOT}{_SOFTLY} {_HOLDS}\b.{{0,60}}?\b{_INFORMATION}\b",
    rf"\b(?:no|none of the|neither|nothing in the) (?:\w+ ){{0,2}}{_LABEL}\b.{{0,40}}? {_SAYS}s?\b",
    rf"\b{_LABEL}\b.{{0,40}}?\b(?:is silent|(?:has|have|contains?|provides?|gives?|makes?|includes?) no "
    rf"(?:\w+ ){{0,2}}{_INFORMATION})\b",
    # "… is not mentioned in the label", "no information on … in the passages"
    rf"\b(?:not|n['’]t)\b{_SOFTLY} {_MISSING}\b.{{0,60}}?\b{_IN_LABEL}\b",
    r"\b(?:is|are|was|were|has been|have been)(?: not|n['’]t)"
    rf"{_SOFTLY} (?:specified|mentioned|stated|addressed|discussed|disclosed|provided|detailed|explained)$",
    rf"\b(?:no|not any|insufficient|not enough|nothing|none)\b.{{0,120}}?\b{_IN_LABEL}\b",
    # "cannot be determined from the label", "there is not enough information to answer"
    rf"\b(?:{_CANNOT}|unable to|not possible to|impossible to)\b.{{0,60}}?\b{_IN_LABEL}\b",
    rf"\b(?:this|the|your|that) (?:question|answer)\b.{{0,40}}? (?:{_CANNOT}|is not|isn['’]t)"
    r"(?: be)? (?:answered|determined|found|established|available|possible|inferred|given|provided|known)\b",
    r"\b(?:insufficient|not enough|not sufficient|no|inadequate) (?:\w+ ){0,2}"
    r"(?:information|data|evidence|details?|context)\b"
    r".{0,40}?\b(?:to|for) (?:\w+ ){0,2}?(?:answer|determin|respond|say)\w*",
    # "I don't know", "I cannot answer this"
    rf"^{_SORRY}(?:.{{0,60}}?, ?)?(?:i|we) (?:also )?(?:really |simply |honestly |just )?"
    rf"(?:do not|don['’]?t|{_CANNOT}|did not|didn['’]t|(?:am|was) (?:unable|not able) to|['’]m (?:unable|not able) to|"
    r"have not been able to)(?: \w+ly)? "
    r"(?:know|answer|find|determine|provide|locate|say|tell|see|confirm|recall|identify|access|give|state|respond|verify|"
    r"have (?:any |enough |sufficient |direct |the |specific |reliable |full )*"
    rf"(?:access|{_INFORMATION}|knowledge|label|recall))\b",
    rf"^{_SORRY}(?:i am|i['’]m|we are) (?:not (?:sure|certain|aware|familiar)|unsure|unaware|uncertain|"
    r"unable to (?:answer|determine|find|provide|locate|say|verify|confirm|access))\b",
    rf"^{_SORRY}i have no (?:\w+ ){{0,2}}(?:{_INFORMATION}|knowledge|access|idea|way)\b",
    rf"^{_SORRY}(?:unable to|{_CANNOT}) (?:answer|determine|be (?:determined|answered)|find|provide an answer)\b",
    # Whole replies of a few words.
    r"^(?:the )?(?:requested |relevant |specific )?(?:information|answer|data) (?:is |was )?"
    r"(?:not |un)(?:found|available|provided|specified|given)$",
    r"^no (?:relevant |specific |such )?(?:information|answer|data|mention)"
    r"(?: (?:is |was )?(?:found|available|provided|given|specified))?$",
    rf"^(?:it is |it['’]s |this is )?(?:not|never) {_MISSING}(?: {_IN_LABEL})?$",
    r"^(?:n/?a|not applicable|no answer|none found|nothing found)$",
    rf"^(?:this|it) {_CANNOT} be (?:determined|answered|found)$",
)
_DECLINES = re.compile("|".join(f"(?:{one})" for one in _CLAUSES), re.IGNORECASE)
_THE_LABEL = rf"(?:the|this|these|those|provided) (?:[\w’'-]+ ){{0,3}}{_LABEL}"
_EMPTY = re.compile(
    r"(?:please|kindly|you (?:should|may|can|could|might)|it is (?:best|advisable|recommended) to|"
    r"i (?:would )?(?:recommend|suggest|advise)|(?:patients?|readers?|reviewers?|providers?) (?:should|may)|"
    r"to (?:answer|find|determine|get)\b|for|if you)\b.{0,80}?"
    r"\b(?:consult|refer|check|contact|see|review|ask|speak|seek|look|share|consulting|checking|reviewing|referring|"
    r"verify|confirm|let me know)\b"
    r"|(?:consult|refer to|see|check|contact|sorry|i apologi[sz]e|apologies|unfortunately)\b"
    r"|i(?: can only| can just|['’]d be| would be| am only|['’]m only| am sorry|['’]m sorry| am an ai)\b"
    rf"|(?:it|they|{_THE_LABEL})\b.{{0,40}}? (?:only|merely|solely)\b"
    rf"|(?:the )?only (?:\w+ ){{0,3}}(?:{_LABEL}|{_INFORMATION})\b"
    rf"|(?:it|they|{_THE_LABEL})(?: (?:does|do|\w+ly))* (?:mentions?|discuss(?:es)?|lists?|covers?|address(?:es)?|"
    r"describes?|focus(?:es)?|contains?|provides?|includes?|concerns?|relates?|refers?)\b\D*$"
    rf"|(?:based on|according to|per|from|in) {_THE_LABEL}(?: provided| text)?$"
    r"|(?:as an? (?:ai|language model|large language model)(?: \w+){0,3}|answer|reason|explanation|note)$"
)
_CONCEDES = re.compile(r"(?:although|though|while|whereas|even though|despite|because|since)\b")
_CLAUSE_END = re.compile(
    r"(?<=[.!?])[\"”')\]*]*\s+|\n+|;\s*|,?\s+but\s+|,?\s+(?=(?:however|although|though|whereas|while)\b)|"
    r"(?<=however),?\s+|,\s+(?=(?:it|they|the \w+|this|so|and) )"
)
_LEAD = re.compile(
    r"^(?:[\W_]|\d[.)]\s)*(?:(?:however|therefore|thus|so|and|but|also|nevertheless|hence|as such|as a result|"
    r"in addition|additionally|specifically|overall|in summary|unfortunately|note that|"
    r"based on [^,]{0,80}|according to [^,]{0,80}|from [^,]{0,60})(?:,\s*|\s+|$))*"
)
_LONGEST = 4000


def declines(answer: str) -> bool:
    """Return whether a reply, without its citations, is a refusal.

    NOT_ANSWERABLE at the start, or on a line or in a sentence of its own, is always a refusal, because the prompt asks
    for this verdict. Elsewhere it is one declining clause among others.
    """
    if not _HINT.search(answer):
        return False
    if _FIRST.match(answer) or _ALONE.search(answer):
        return True
    kinds = {clause_kind(clause) for clause in _clauses(answer[:_LONGEST].lower())}
    return "declines" in kinds and "answers" not in kinds


def clause_kind(clause: str) -> str:
    """Return the kind of a clause in lower case: "declines", "empty" or "answers"."""
    clause = _LEAD.sub("", clause).rstrip(" .,:;!?*_\"'")
    if _DECLINES.search(clause) and not _CONCEDES.match(clause):
        return "declines"
    return "empty" if not clause or _CONCEDES.match(clause) or _EMPTY.match(clause) else "answers"


def _clauses(text: str) -> list[str]:
    return [clause for clause in _CLAUSE_END.split(text) if clause and clause.strip()]
