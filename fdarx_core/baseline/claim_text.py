"""Detection of sentences that are not claims, normalisation of claims, and resolution of pronouns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from fdarx_core.baseline.grammar import PRONOUNS, core_of, frame_end, is_simple, number_of, plain, spoken
from fdarx_core.baseline.refusals import declines

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
"""A citation mark, with the space before it."""

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
"""Words that say when or how soon to act. Advice with such words is a claim."""

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
"""Courtesies that can also begin a statement ("Best results …")."""
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
    """Return whether a heading, or the words before a colon, introduce a list of sources."""
    return bool(_SOURCES.match(_MARKS.sub(" ", heading).strip()))


def without_citations(text: str) -> str:
    """Return the text without citation marks."""
    return CITATION.sub("", text) if _MAY_CITE.search(text) else text


def names_doctor(sentence: str) -> bool:
    """Return whether a sentence mentions a doctor, so that "they" in the next sentence may mean doctors."""
    return bool(_ADVICE.search(sentence))


@lru_cache(maxsize=1024)
def is_no_claim(sentence: str) -> bool:
    """Return whether evidence cannot decide a sentence without citation marks, such as a courtesy or advice."""
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
    """Return whether a sentence is a refusal. A sentence on a drug, as "it does not cover anaerobes", is none."""
    return declines(said) and (not _DRUG_SPOKEN_OF.match(said) or bool(_LABEL_SAID.search(said)))


_INTRO = re.compile(
    r"(?:(?:however|therefore|thus|hence|so|and|but|also|moreover|furthermore|additionally|in addition|besides|finally|"
    r"lastly|first(?:ly)?|second(?:ly)?|third(?:ly)?|in (?:conclusion|summary|short|general|fact|contrast|other words|"
    r"particular)|overall|as a result|consequently|nevertheless|nonetheless|conversely|similarly|likewise|instead|"
    r"meanwhile|otherwise|on the other hand|for (?:example|instance)|that said|that being said|of note|notably|"
    r"importantly|unfortunately|fortunately|generally speaking|bottom line|yes|no|actually|basically|note|"
    r"according to (?:the|this) (?:label|passages?|(?:provided |given )?(?:context|information|text|document)))"
    r"\s*[,:–—]\s+"
    r"|(?:it(?:['’]s| is) (?:also )?(?:important|worth|essential|good) (?:to note|noting|to remember|to know|"
    r"to understand|"
    r"to be aware)|(?:please )?(?:note|remember|be aware)|(?:please )?keep in mind) that\s+"
    r"|(?:yes|no)[.!]\s+)+",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(r"\*+|(?<!\w)_+|_+(?!\w)|`+")
_SPACES = re.compile(r"\s+")
_LAST_JOINT = re.compile(r"[;,]\s+(?:and|or)\s*$", re.IGNORECASE)
_EDGES = " \t,;:–—-"


def intro_end(text: str) -> int:
    """Return where an introduction such as "However, " or "Note that " ends; 0 without one."""
    found = _INTRO.match(text)
    return found.end() if found and found.end() < len(text) else 0


def reading_of(text: str) -> str:
    """Return the text as a statement of its own, with a capital first letter."""
    return capitalised(words_of(text))


def words_of(text: str) -> str:
    """Return the text without markdown, introduction and final conjunction."""
    line = _LAST_JOINT.sub("", _SPACES.sub(" ", _MARKDOWN.sub("", text))).strip(_EDGES)
    return line[intro_end(line) :]


def joined(*parts: str) -> str:
    """Join pieces of text into one statement."""
    return reading_of(" ".join(part.strip() for part in parts if part.strip()))


def capitalised(text: str) -> str:
    """Return the text with a capital first letter, unless its first word has a capital inside ("pH")."""
    first = text.split(None, 1)[:1]
    return text[:1].upper() + text[1:] if first and first[0].islower() else text


_DRUG_WORD = r"(?:drug|medication|medicine|product|agent)"
_THE_DRUG = re.compile(
    rf"\bthis {_DRUG_WORD}(?P<of>['’]s)?(?![\w-]| (?:class|interaction|group|label|information))", re.IGNORECASE
)
_THE_DRUG_FIRST = re.compile(
    rf"the {_DRUG_WORD}(?P<of>['’]s)?(?= (?:is|was|has|can|may|should|must|works?|will|does|acts)\b)", re.IGNORECASE
)
_IT = re.compile(r"it(?P<of>s)?\b(?!['’-])", re.IGNORECASE)
_THEY = re.compile(
    r"(?:they|these(?= (?:are|were|can|may|should|include|have|work|do|will|could|must)\b)|their)\b", re.IGNORECASE
)
_THIS_NOUN = re.compile(
    r"this (?:condition|disease|disorder|infection|virus|bacterium|antibiotic|vaccine|test|procedure|syndrome|"
    r"supplement|"
    r"vitamin|hormone|enzyme|substance|treatment|therapy|injection|device)\b(?! of)",
    re.IGNORECASE,
)
_PLEONASTIC = re.compile(
    r"it(?:['’]s| (?:is|was|has been|seems|appears)| (?:may|might|can|could|would|should|will)(?: also| not| even)? be)"
    r"(?: also| not| often| usually| generally| always| still| very| more| most| most likely| highly| therefore| best)*"
    r" (?:important|possible|impossible|necessary|essential|recommended|advisable|advised|unclear|unknown|known|likely|"
    r"unlikely|not|difficult|easy|easier|hard|best|better|common|rare|safe|okay|fine|good|worth|crucial|vital|critical|"
    r"helpful|useful|thought|believed|estimated|suggested|suspected|reported|expected|normal|true|clear|wise|prudent|"
    r"tempting|time|up|that|thought|said|noted|appropriate|preferable|reasonable|unusual|usual|imperative|conceivable|"
    r"challenging|frightening|interesting|considered|worthwhile|informative|beneficial)\b"
    r"(?= (?:that|to|for\b[^.]{1,60}\bto|if|when|how|whether|by|what|which|who|you|not|practice|idea)\b)"
    r"|it (?:is|was|has been|(?:can|may|should|must) be) (?:(?!an?\b|the\b|one\b)[\w-]+ ){0,3}that\b"
    r"|it (?:depends|takes|seems|appears|turns|follows|makes sense|would|sounds|looks|can take|may take|could take|"
    r"might take|"
    r"does(?:n['’]t| not) (?:matter|mean|seem|appear)|all depends)\b|it['’]s\b",
    re.IGNORECASE,
)
_DEFINED_AS_DRUG = re.compile(
    r"(?:is|are) (?:an?|the|one of) (?:[\w-]+[ ,]+){0,8}?(?:drugs?|medications?|medicines?|antibiotics?|"
    r"antidepressants?|nsaids?|"
    r"anti-?inflammatory|inhibitors?|vaccines?|antagonists?|agonists?|blockers?|steroids?|corticosteroids?|"
    r"antihistamines?|antivirals?|antifungals?|statins?|diuretics?|opioids?|analgesics?|brand name|combination)\b",
    re.IGNORECASE,
)
_FRAMED = re.compile(
    r"(?:in (?:[\w-]+ ){0,2}(?:cases|instances|children|adults|people|patients|individuals|women|men|addition|general|"
    r"contrast|turn|fact)|for (?:this reason|example)|if [^,]{0,20}(?:untreated|not treated)|over time|as a result|"
    r"when (?:taken|used|given)[^,]{0,30}),\s+(?=(?:it|they)\b)",
    re.IGNORECASE,
)
"""Adverbials before a subject without a noun that a pronoun could refer to."""


@dataclass(slots=True)
class CoreferenceResolver:
    """Resolves pronouns from the last subject of a text and the drug; an uncertain pronoun stays as it is.

    `given` is the drug of the answer, "" for none; `number` is the number of the subject.
    """

    given: str = ""
    subject: str = ""
    number: str = ""
    drug: str = ""

    def interrupted(self) -> None:
        """Forget the subject at a heading or a question, because the next sentence may have another subject."""
        self.subject, self.number, self.drug = "", "", ""

    def resolved(self, reading: str) -> str:
        """Return a statement with its first pronoun and "this medication" replaced, where that is certain."""
        return capitalised(self._with_drug(self._with_subject(reading)))

    def told(self, resolved: str) -> None:
        """Note the subject of a statement that was resolved."""
        core = core_of(resolved)
        subject = resolved[core.start : core.verb].strip() if core else ""
        certain = core is not None and is_simple(subject) and not PRONOUNS.intersection(map(plain, spoken(subject)[:1]))
        self.subject, self.number = (subject, number_of(subject, core.number if core else "")) if certain else ("", "")
        if certain and core and _DEFINED_AS_DRUG.match(resolved, core.verb):
            self.drug = subject if self.drug in ("", subject) else "?"

    def named(self, label: str) -> None:
        """Note the label of a list item ("Corticosteroids: these …") as the subject."""
        self.subject, self.number = label, number_of(label)

    def _with_subject(self, reading: str) -> str:
        if (framed := _FRAMED.match(reading)) and self.subject:
            return reading[: framed.end()] + self._with_subject(reading[framed.end() :])
        if (found := _IT.match(reading)) and not _PLEONASTIC.match(reading):
            stands_for = self.subject if self.number == "singular" else "" if self.subject else self.given
        elif found := _THEY.match(reading):
            stands_for = self.subject if self.number == "plural" else ""
        elif found := _THIS_NOUN.match(reading):
            stands_for = self.subject if self.number == "singular" else ""
        else:
            return reading
        owns = found[0].lower() in ("its", "their")
        return f"{_of(stands_for) if owns else stands_for}{reading[found.end() :]}" if stands_for else reading

    def _with_drug(self, reading: str) -> str:
        drug = self._certain_drug()
        if not drug:
            return reading
        reading = (
            _THE_DRUG_FIRST.sub(lambda found: _of(drug) if found["of"] else drug, reading, count=1)
            if _THE_DRUG_FIRST.match(reading)
            else reading
        )
        return _THE_DRUG.sub(lambda found: _of(drug) if found["of"] else drug, reading)

    def _certain_drug(self) -> str:
        if not self.given:
            return "" if self.drug == "?" else self.drug
        return self.given if self.drug in ("", self.given) or self.given.lower() in self.drug.lower() else ""


def _of(name: str) -> str:
    return f"{name}’" if name.endswith("s") else f"{name}’s"
