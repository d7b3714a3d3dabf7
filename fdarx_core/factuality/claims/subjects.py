"""What "it", "they" and "this medication" stand for, where that is certain."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.factuality.claims.lexicon import PRONOUNS
from fdarx_core.factuality.claims.readings import capitalised
from fdarx_core.factuality.claims.words import core_of, is_simple, number_of, plain, spoken

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
"""What stands before a subject without naming another that a pronoun might mean."""


@dataclass(slots=True)
class Thread:
    """What a text speaks of, as far as it is certain: the last subject with its number, and the drug.

    `given` is the drug of the answer, "" for none.
    """

    given: str = ""
    subject: str = ""
    number: str = ""
    drug: str = ""

    def interrupted(self) -> None:
        """At a heading or a question: what follows may speak of something else."""
        self.subject, self.number, self.drug = "", "", ""

    def resolved(self, reading: str) -> str:
        """The statement with its first pronoun, and "this medication", replaced; as it is where that is not certain."""
        return capitalised(self._with_drug(self._with_subject(reading)))

    def told(self, resolved: str) -> None:
        """Goes on past a statement."""
        core = core_of(resolved)
        subject = resolved[core.start : core.verb].strip() if core else ""
        certain = core is not None and is_simple(subject) and not PRONOUNS.intersection(map(plain, spoken(subject)[:1]))
        self.subject, self.number = (subject, number_of(subject, core.number if core else "")) if certain else ("", "")
        if certain and core and _DEFINED_AS_DRUG.match(resolved, core.verb):
            self.drug = subject if self.drug in ("", subject) else "?"

    def named(self, label: str) -> None:
        """Goes on past the label of a list item ("Corticosteroids: these …")."""
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
