"""What a forbidding sentence forbids: the part of it that names patients, conditions, drugs or procedures."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.text import decapitalise

_USED = (
    r"(?:used?|given|give|taken?|administer(?:ed)?|co-?administer(?:ed)?|prescribed?|receive|start(?:ed)?|"
    r"initiate(?:d)?|inject(?:ed)?|instituted|employed|treated with)"
)
_CONTRAINDICATED = r"(?<!not )(?<!relatively )\bcontraindicated\b(?! sections?)"
_NOT_USED = rf"\b(?:should|must|may|can|shall)(?: \w+ly)? (?:not|never) (?:be )?(?:\w+ly )?{_USED}\b"
_NOT_TO_BE = rf"\b(?:is|are) not to be {_USED}\b"
_DO_NOT = rf"(?:^|(?<=[:;,] )|(?<=and ))(?:do not|never) {_USED}\b"
_A_REASON = r"\b(?:is|are|constitutes?) (?:an? )?(?:absolute )?contraindications?\b"
_FORBIDS = re.compile("|".join((_CONTRAINDICATED, _NOT_USED, _NOT_TO_BE, _DO_NOT, _A_REASON)), re.IGNORECASE)

_GROUP = (
    r"patients?|individuals?|persons?|people|subjects?|those|anyone|adults?|conditions?|situations?|circumstances|"
    r"populations?|settings?|cases|neonates?|infants?|children|women|men|drugs?|medications?|medicines?|agents"
)
_READS_ON = re.compile(
    rf"(?:\s|\b(?:following\s+\w+(?=\s*:)|in|for|under|with|by|to|of|the|any|following|concomitantly|who|whom|have|has|"
    rf"had|are|or|and|use|used|{_GROUP})\b)*[:.]?\s*"
)
_REASON = re.compile(
    r"(?:,|\.)?\s*\b(?:because|since|due to (?:its|their|the (?:potential|risk|increased|possib\w+|"
    r"cumulative|alcohol))|"
    r"in order to|as (?:it|this|these|there|serious|severe)\b|which (?:may|can|could|might)|owing to|given the)\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_AMOUNT = re.compile(
    r"\s*(?:for (?:more|longer) than|more than|(?:for )?(?:longer|greater) than|at doses?|in doses?|in excess|"
    r"(?:\w+ ){0,2}beyond|as a substitute|interchangeably|until|unless)\b",
    re.IGNORECASE,
)
_LEADS = re.compile(
    r"[\s,:;]*(?:(?:also|therefore|and|is|are)\s+)*(?=(?:in|for|with|to|during|within|when|if|as|under|by|after|before|"
    r"while|concomitantly|concurrently|simultaneously|together|at|prior|following|on)\b)",
    re.IGNORECASE,
)
_USE_OF = re.compile(
    r"(?:\b(?:the|its|this|their)\s+)?(?:\b(?:concomitant|concurrent|simultaneous|combined|oral|parenteral)\s+)*"
    r"\b(?:use|administration|co-?administration|therapy|treatment|initiation|starting|initiating|injection)\b\s*"
    r"(?:of\s+)?(?P<what>.*)$",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"\s*\b(?P<how>(?:together |concomitantly |concurrently )?with|and|in|during|within|to|for)\b\s+", re.IGNORECASE
)
_FOR_WHOM = re.compile(
    r"\s*\b(?:(?:together |concomitantly |concurrently )?with|in|during|within|to|for|after|before|"
    r"when|if|while|as|and)\b\s+",
    re.IGNORECASE,
)
_WHO = re.compile(
    r"(?:patients?|individuals?|persons?|people|women|children|infants|neonates|pregnant|nursing|pediatric|those|"
    r"adults|elderly|adolescents)\b",
    re.IGNORECASE,
)
_AT_ONCE = re.compile(r"\s*(?:at the same time|concurrently|concomitantly|simultaneously|together)\W*$", re.IGNORECASE)
_UNTIL_KNOWN = re.compile(r"^until\b.{0,60}?\bin (?P<who>[\w ]{4,40}?) (?:is|are|has|have)\b", re.IGNORECASE)
_AGAIN = re.compile(r"(?:,|\s)\s*(?:and|or)\s+(?:(?:is|are)\s+)?(?:also\s+)?contraindicated\b", re.IGNORECASE)
_THIS = re.compile(r"\b(?:this|the) (?:drug|medicine|medication|product|combination)\b|^it\b", re.IGNORECASE)


def forbids(sentence: str) -> bool:
    """Whether a sentence forbids the use of something."""
    return bool(_FORBIDS.search(sentence))


def reads_on(sentence: str) -> bool:
    """Whether a forbidding sentence ends before it says what it forbids: a list follows."""
    found = _last(sentence)
    rest = sentence[found.end() :]
    words = rest.strip(" :.")
    return bool(_READS_ON.fullmatch(rest)) and (
        rest.rstrip().endswith(":") or bool(re.search(r"following|with$", words))
    )


def object_of(sentence: str, own: re.Pattern[str]) -> list[str]:
    """The phrases that name what the sentence forbids; `own` finds the names of the label's drug."""
    found = _last(sentence)
    before, after = sentence[: found.start()], sentence[found.end() :]
    if again := _AGAIN.search(after):
        first, second = before + found[0] + after[: again.start()], again[0].lstrip(" ,") + after[again.end() :]
        return [*object_of(first, own), *object_of(second, own)]
    if until := _UNTIL_KNOWN.search(sentence):
        return [until["who"]]
    if "contraindication" in found[0].lower():
        return _of_a_reason(before, after)
    if found[0].lower().startswith(("do not", "never")):
        return _of_an_order(after, own)
    after = without_reason(after)
    if "contraindicated" not in found[0].lower() and _AMOUNT.match(after):
        return []
    if not re.search(r"contraindicated", found[0], re.IGNORECASE):
        if _WHO.match(before.strip()):
            return [_who(before)]
        if _AT_ONCE.match(after) and not _names(own, before):
            return [f"concomitant use of {decapitalise(without_reason(before).strip(' ,'))}"]
    told = after[lead.end() :].strip(" ,.;:") if (lead := _LEADS.match(after)) else ""
    return [told] if told and not _AT_ONCE.fullmatch(after) else _of_a_use(before, own)


def _last(sentence: str) -> re.Match[str]:
    """The forbidding words of a sentence, the first ones: what follows belongs to them."""
    found = _FORBIDS.search(sentence)
    if found is None:
        raise ValueError(f"no sentence that forbids: {sentence[:80]}")
    return found


def _of_a_reason(before: str, after: str) -> list[str]:
    what = re.sub(r"\b(?:usually|generally|therefore|also)\s*$", "", before.strip(), flags=re.IGNORECASE).strip()
    return [what] if re.match(r"\s*(?:to|for)\b", after) or not after.strip(" .") else []


def _of_an_order(after: str, own: re.Pattern[str]) -> list[str]:
    after = without_reason(after).strip(" .;")
    parted = _FOR_WHOM.search(after)
    if not parted or _AMOUNT.match(after[parted.start() :]):
        return []
    what, rest = after[: parted.start()], after[parted.start() :].strip()
    if what.strip() and not _names(own, what):
        left = own.sub("", rest) if _names(own, rest) else rest
        left = re.sub(r"^\s*with\s+(?:tablets?|capsules?|injection)?\s*", "", left).strip()
        return [f"concomitant use of {what.strip()} {left}".strip()]
    return [rest]


def _of_a_use(before: str, own: re.Pattern[str]) -> list[str]:
    """ "The use of A with B is contraindicated": whichever of them is not the label's drug."""
    before = re.sub(r"\W*\b(?:is|are|was|were|be|and|also|therefore|thus)\b\W*$", "", before.strip())
    before = re.sub(r"(?:\W*\b(?:is|are|also|therefore|thus)\b)+\W*$", "", before).strip(" ,")
    used = _USE_OF.search(before)
    if not used:
        return []
    whole = used["what"].strip()
    pieces = list(_BETWEEN.finditer(whole))
    if not pieces:
        return [] if _names(own, whole) or not whole else [f"use of {whole}"]
    parted = next((one for one in pieces if _parts(own, whole, one)), pieces[0])
    what, how, rest = whole[: parted.start()].strip(), parted["how"].lower(), whole[parted.end() :].strip()
    if not what or _names(own, what):
        if how in ("with", "and") or how.endswith(" with"):
            return [f"concomitant use of {rest}"]
        return [f"{how} {rest}"]
    return [f"concomitant use of {what}"] if _names(own, rest) else [f"use of {whole}"]


def _parts(own: re.Pattern[str], whole: str, between: re.Match[str]) -> bool:
    return _names(own, whole[: between.start()]) or bool(own.match(whole[between.end() :]))


def _who(before: str) -> str:
    return before.strip(" ,")


def _names(own: re.Pattern[str], text: str) -> bool:
    return bool(own.search(text) or _THIS.search(text))


def without_reason(text: str) -> str:
    """A phrase without the reason that it gives at its end."""
    return _REASON.sub("", text)
