"""What kind of thing is forbidden: a population, a condition, another drug or a procedure."""

from __future__ import annotations

import re

_REACTION = re.compile(
    r"\b(?:hypersensitiv\w+|hyper-sensitiv\w+|allerg\w+|anaphyla\w+|asthma\w*|urticaria|angioedema|intoleran\w+|"
    r"sensitiv\w+|reactions? to|history of)\b",
    re.IGNORECASE,
)
_ANOTHER_DRUG = re.compile(
    r"^(?:(?:patients?|who|are|is|currently|already|also|concomitantly|concurrently|simultaneously|together|"
    r"being|been|or|and|a|an|the|any|other|strong|moderate|potent|with|to|in|when)\b\W*)*"
    r"(?:taking|took|taken|receiving|received|using|use of|treated with|treated by|treatment with|"
    r"on (?:an? )?\w+ (?:inhibitor|therapy)|"
    r"concomitant\w*|concurrent\w*|simultaneous\w*|co-?administ\w+|co-?prescri\w+|administered with|"
    r"in combination|combination with|combined with|administration of|drugs?\b|medications?\b|"
    r"within \S+ \w+ (?:of|after|before|following) (?:\w+ing|\w+ion|the last|use)|within (?:the )?\S+ \S+ of)",
    re.IGNORECASE,
)
_DRUG_WORD = re.compile(
    r"\b(?:inhibitors?|inducers?|MAOIs?|nitrates?|nitrites?|stimulators?|substrates?|antagonists?|agonists?|diuretics?|"
    r"NSAIDs?|opioids?|anticoagulants?|antifungals?|macrolides?|antiarrhythmics?|vaccines?|contraceptives?)\b"
)
_NO_DRUG = re.compile(r"\b(?:dialysis|hemodialysis|radiation|radiotherapy|phototherapy|anesthesia|nutrition)\b", re.I)
_PROCEDURE = re.compile(
    r"\b(?:surger\w+|surgical|surgeries|CABG|bypass|an[a]?esthe\w+|puncture|biopsy|procedures?|(?:nerve|"
    r"neuraxial|spinal|"
    r"epidural|paracervical|regional|lumbar|bier) block\w*|tonsillectomy|adenoidectomy|transplant\w*|implant\w*|"
    r"intrathecal|epidural|neuraxial|intra-?arterial\w*|intravenous(?:ly)? (?:use|administration|injection)|"
    r"intramuscular (?:use|administration|injection)|subcutaneous (?:use|administration|injection)|imaging|"
    r"radiologic\w*|contrast|hemodialysis|dialysis|peri-?operative|prophylactic analgesi\w+)\b",
    re.IGNORECASE,
)
_POPULATION = re.compile(
    r"\b(?:pregnan\w+|lactat\w+|breast-?\s?feed\w*|nursing|women|woman|females?|pa?ediatric\w*|child(?!-)|children|infants?|"
    r"neonates?|newborns?|adolescents?|teenagers?|elderly|geriatrics?|(?-i:men|males?)|childbearing|labor and delivery|"
    r"years? of age|years? old|(?:younger|less|older) than \d+ (?:years?|months?)|trimester)\b",
    re.IGNORECASE,
)
_EXCEPT = re.compile(r"[\s,(]*\b(?:unless|except)\b.*$", re.IGNORECASE)
_OF_A_KIND = re.compile(
    r"\b(?:with (?!mechanical|reproductive)|who (?:are|have|has|is) (?!pregnant|nursing|breast|or may|able)|suspected)",
    re.IGNORECASE,
)


def kind_of(subject: str, lead: str = "") -> str:
    """population, condition, drug or procedure. `lead` is the sentence over the list that the subject stands in."""
    subject = _EXCEPT.sub("", subject)
    if _ANOTHER_DRUG.match(subject) and not _NO_DRUG.search(subject):
        return "drug"
    if _REACTION.search(subject):
        return "condition"
    if re.search(r"\b(?:with|of) (?:any of )?the following(?: \w+)?\W*$|concomitant|co-?administ", lead, re.I):
        return "condition" if re.search(r"patients|conditions", lead, re.I) else "drug"
    if _DRUG_WORD.search(subject) and not _POPULATION.search(subject) and not _PROCEDURE.search(subject):
        return "drug"
    if _PROCEDURE.search(subject) and not _POPULATION.match(subject):
        return "procedure"
    if _POPULATION.search(subject):
        return "condition" if _OF_A_KIND.search(subject) else "population"
    return "condition"
