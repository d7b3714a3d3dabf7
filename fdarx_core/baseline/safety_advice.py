"""Detection of text that mentions what a label forbids, and recommends it or warns of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from fdarx_core.baseline.polarity import may_forbid
from fdarx_core.baseline.stems import canonical_names, patient_groups, stems
from fdarx_core.baseline.tokens import normalize

_DOING = (
    r"(?:used?|take|taken|given|give|continued?|start|prescribed?|administer(?:ed)?|receive|resumed?|combined?|"
    r"co-?administer(?:ed)?|treated with|injected?)"
)
_GOOD = (
    r"(?:safe(?:ly)?|recommended|suitable|appropriate|indicated|preferred|acceptable|fine|okay|ok|compatible|allowed|"
    r"permitted|approved|(?:good|safe|reasonable) (?:option|choice)|(?:drug|treatment) of choice|first-line)"
)
_PERMITS = re.compile(
    rf"\b(?:can|may|could|should)(?: \w+ly| also| still| be)* {_DOING}\b"
    rf"|\b(?:is|are|remains?|considered|be|it's)(?: \w+ly| considered| also| still| a| an| the| very|"
    rf" perfectly)* {_GOOD}\b"
    rf"|\b(?:safe|fine|okay|ok|acceptable|appropriate|best) to {_DOING}\b"
    r"|(?:^|[,;:] |\bthen )(?:please )?(?:take|use|give|start|continue|prescribe|administer|combine)\b"
    r"|\b(?:i|we|you can|experts|doctors|physicians) (?:recommend|suggest|advise|prescribe)\b"
    r"| harmless "
)
_HARMLESS = re.compile(
    r"\b(?:is |are )?not contraindicated\b|\b(?:there (?:is|are) )?no (?:known |"
    r"specific )?(?:contraindications?|risks?|"
    r"harms?|problems?|concerns?)\b(?: \w+){0,2}|\bwithout (?:any )?(?:risks?|problems?|concerns?|dos\w+ adjust\w+)\b|"
    r"\bno (?:need|reason) to (?:avoid|stop|discontinue|adjust\w*)\b|\b(?:does|do|need) not (?:need to )?be avoided\b|"
    r"\bno (?:dos\w+ )?(?:adjust\w+|changes?)\b(?: (?:is|are) (?:needed|required|necessary))?|"
    r"\bnot (?:harmful|dangerous)\b"
)
_WARNS = re.compile(
    r"\b(?:not|no|never|nor|neither|avoid\w*|cautio\w*|contraindicat\w*|unless|except|only|instead|alternatives?|"
    r"rather|unsafe|dangerous|harmful|stop\w*|discontinu\w*|until|forbid\w*|withh[eo]ld\w*|cannot|"
    r"increased? (?:the )?risk|warn\w*|monitor\w*|adjust\w*|reduc\w*|lower|endanger\w*|(?:may|can) (?:cause|harm)|"
    r"weigh\w*|if (?:the )?benefits?|outweigh\w*|fatal|serious|toxic\w*|untreated)\b|n't\b"
)
_ASKS = re.compile(
    r"\b(?:can|may|should|could|safe|okay|ok|take|taking|use|used|using|give|given|dos(?:e|age|ing)|prescrib\w+|"
    r"treat\w*|recommend\w*|allowed|suitable|appropriate)\b"
)
_ASKS_WHAT_IS_FORBIDDEN = re.compile(
    r"\b(?:contraindicat\w*|avoid\w*|unsafe|harmful|dangerous|forbid\w*|should not|shouldn't|cannot|can't|must not|"
    r"against|not (?:be )?(?:used?|taken?|given)|risks|risky|warnings?|problem\w*|stop\w*|bad)\b"
)


@lru_cache(maxsize=4096)
def compared(text: str) -> str:
    """Return a text in the form that is compared with prohibitions: normalized, with one name for synonyms."""
    return canonical_names(normalize(text))


@lru_cache(maxsize=4096)
def permits(said: str) -> bool:
    """Return whether a plain sentence recommends or permits a use; one that also warns or limits does not."""
    said = _HARMLESS.sub(" harmless ", said)
    return bool(_PERMITS.search(said)) and not warns(said)


def warns(said: str) -> bool:
    """Return whether a plain sentence warns of a use, rules it out or makes it conditional."""
    said = _HARMLESS.sub(" harmless ", said)
    return bool(_WARNS.search(said)) or may_forbid(said)


def asks_what_is_forbidden(question: str) -> bool:
    """Return whether a plain question asks for a list of what must not be done."""
    return bool(re.match(r"\W*(?:what|which|when|who|in (?:what|which|whom)|list|name)\b", question)) and bool(
        _ASKS_WHAT_IS_FORBIDDEN.search(question)
    )


def says_yes(question: str, answer: str) -> bool:
    """Return whether the first sentence of a plain answer permits what a plain question asks for.

    If the question asks whether something must be avoided, "No" permits it.
    """
    if not _ASKS.search(question) and not _ASKS_WHAT_IS_FORBIDDEN.search(question):
        return False
    first = re.match(r"\W*(yes|no)\b", answer)
    if _ASKS_WHAT_IS_FORBIDDEN.search(question):
        return bool(first and first[1] == "no") and not warns(answer[first.end() :] if first else answer)
    if first and first[1] == "no":
        return False
    return (bool(first) or permits(answer)) and not warns(answer)


_SALT = re.compile(
    r"\b(?:sodium|potassium|calcium|magnesium|hydrochloride|hcl|tromethamine|maleate|besylate|sulfate|"
    r"acetate|phosphate|"
    r"mesylate|tartrate|bitartrate|succinate|oxalate|citrate|fumarate|tablets?|capsules?|injection|solution|usp|"
    r"anhydrous|monohydrate|dihydrate|er|xr|dr|delayed|extended|release|oral|ophthalmic|chewable|suspension|and|for)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def telling_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in lower case: complete, without salt and dosage form, and each of their long words."""
    wanted: dict[str, None] = {}
    for name in names:
        bare = without_salts(name)
        for one in (name.strip(), bare, *re.findall(r"[A-Za-z]{5,}", bare)):
            if len(one) > 3:
                wanted[one.lower()] = None
    return tuple(wanted)


@lru_cache(maxsize=4096)
def names_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds any of the `telling_names`, ignoring case; it matches nothing if there are none."""
    several = "|".join(re.escape(one) for one in sorted(telling_names(names), key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{several})(?!\w)", re.IGNORECASE) if several else re.compile(r"(?!)")


def without_salts(name: str) -> str:
    """Return a drug name without salt and dosage form: "Naproxen Sodium Tablets" gives "Naproxen"."""
    return " ".join(_SALT.sub(" ", name).split()).strip(" ,/-")


_GROUPS = frozenset({"pregnancy", "lactation", "children", "older adults"})
_GROUP_WORDS = re.compile(
    r"\b(?:pregnan\w*|gestation\w*|lactation|milk|wom[ae]n|females?|men|males?|pediatrics?|geriatrics?|"
    r"adults?|mothers?)\b"
)
_LIGHT = frozenset(
    stems(
        "patients individuals people persons known history personal family presence setting treatment treated "
        "conditions suspected confirmed proven demonstrated previous prior previously syndrome use using used years "
        "age old perioperative management certain significant especially all following"
    )
)
_GENERIC = frozenset(
    stems(
        "disease disorder infection reaction surgery impairment bleeding hemorrhage pain syndrome obstruction women "
        "procedure administration failure block function functional drug product component ulcer allergic injection"
    )
)
_SEVERITY = re.compile(r"\b(?:mild|moderate|normal|stable|early|healthy)\b")
_AGE = re.compile(
    r"(?:under|below|younger than|less than|<|up to)\s*(?:the age of )?(?P<years>\d+)\s*(?P<unit>years?|months?)"
)
_AGED = re.compile(r"(?P<years>\d+)[- ](?P<unit>year|month)s?[- ](?:old|of age)|\baged? (?P<bare>\d+)(?: years)?")
_FILTRATION = re.compile(
    r"\b(?:egfr|gfr|crcl|creatinine clearance)\b[^.;]{0,25}?(?P<bound><|≤|below|less than|under)\s*(?P<value>\d+)"
)
_FILTERED = re.compile(
    r"\b(?:egfr|gfr|crcl|creatinine clearance)\b[^.;]{0,25}?(?P<bound><|≤|below|less than|under)?\s*(?P<value>\d+)"
)
_TO = re.compile(r"\b(?:hyper-?sensitiv|sensitiv|allerg)[\w-]*\s+(?:\w+ ){0,4}?to\s+(?P<what>.+)$", re.IGNORECASE)
_OF_THE_PRODUCT = re.compile(r"component|excipient|ingredient|formulation|this|product|medication", re.IGNORECASE)
_ITS_PARTS = tuple(
    ["ingredient", "excipient", "formulation"]
    + [f"{which} {what}" for which in ("the", "this") for what in ("drug", "medication", "medicine", "product")]
)
_OTHER_DRUG_HEAD = re.compile(
    r"^(?:(?:patients?|who|are|currently|already|also|being|concomitant(?:ly)?|concurrent(?:ly)?|simultaneous(?:ly)?|"
    r"co-?administration|administration|use|using|uses|taking|receiving|treated|treatment|therapy|combination|within|"
    r"\d+|days?|weeks?|hours?|of|with|to|or|from|by|in|and|an?|the|any|other|stopping|discontinuing|"
    r"switching|recent)\b\W*)+",
    re.IGNORECASE,
)
_OTHER_DRUG_TAIL = re.compile(
    r"\s*\b(?:intended|that|which|such as|including|within|in patients|in any|because|during|for|used|with|therapy|"
    r"products?|e\.g)\b.*$|"
    r"\s*\([^()]*\)|,?\s*(?:unless|except).*$",
    re.IGNORECASE,
)


_ANY_DRUG = frozenset({"drug", "drugs", "medication", "medications", "medicine", "medicines", "agents", "use"})


_Wanted = tuple[frozenset[str], frozenset[str], bool]
"""What a text must have to speak of a name: groups of patients, stems; and whether the name gives a severity."""


class SubjectMatcher:
    """Finds one forbidden subject, by any of its names, in texts as `compared` gives them. `own`: the drug's names."""

    def __init__(self, kind: str, subject: str, names: Sequence[str], own: tuple[str, ...]) -> None:
        text = compared(subject)
        self._kind = kind
        self._below_months = next(map(_months, _AGE.finditer(text)), 0)
        self._below_filtration = next((int(found["value"]) for found in _FILTRATION.finditer(text)), 0)
        self._allergens = _allergens(subject, own)
        self._drugs = _drugs((subject, *names), names_pattern(own)) if kind == "drug" else ()
        self._wanted = tuple(dict.fromkeys(filter(None, (_wanted(name) for name in (subject, *names)))))

    def stands_in(self, said: str) -> bool:
        """Return whether the text mentions the subject, in no milder form, age or state of health."""
        if self._kind == "drug":
            return any(_has(said, drug) for drug in self._drugs)
        if self._allergens is not None:
            named = "|".join(map(re.escape, self._allergens))
            return re.search(rf"\b(?:hyper)?-?sensitiv\w*(?:\W+\w+){{0,4}}\W+(?:{named})", said) is not None
        if self._below_months and not _younger(said, self._below_months):
            return False
        if self._below_filtration and _weaker(said, self._below_filtration):
            return True
        return any(_fits(said, one, bool(self._below_months)) for one in self._wanted)


def _wanted(name: str) -> _Wanted | None:
    text = re.sub(r"\([^()]*\)", " ", compared(name))
    text = _AGE.sub(" ", text)
    found = patient_groups(text) & _GROUPS
    rest = frozenset(stems(_GROUP_WORDS.sub(" ", text))) - _LIGHT
    if not found and not rest - _GENERIC:
        return None
    return found, rest, bool(_SEVERITY.search(text))


@lru_cache(maxsize=4096)
def _read(said: str) -> tuple[frozenset[str], tuple[str, ...], bool]:
    return patient_groups(said), tuple(stems(said)), bool(_SEVERITY.search(said))


def _fits(said: str, wanted: _Wanted, aged: bool) -> bool:
    groups, needed, severe = wanted
    found, words, severity = _read(said)
    if severity and not severe:
        return False
    return (aged or groups <= found) and needed <= set(words) and _together(words, needed)


def _together(words: Sequence[str], wanted: frozenset[str]) -> bool:
    """Return whether the words occur near each other, with at most as many other words between them."""
    reach = 2 * len(wanted) + 1
    return not wanted or any(wanted <= set(words[at : at + reach]) for at, word in enumerate(words) if word in wanted)


def _months(found: re.Match[str]) -> int:
    return int(found["years"]) * (12 if found["unit"].startswith("year") else 1)


def _younger(said: str, months: int) -> bool:
    ages = (
        int(found["years"] or found["bare"]) * (1 if (found["unit"] or "").startswith("month") else 12)
        for found in _AGED.finditer(said)
    )
    return any(age < months for age in ages) or any(_months(found) <= months for found in _AGE.finditer(said))


def _weaker(said: str, most: int) -> bool:
    found = _FILTERED.finditer(said)
    return any(int(one["value"]) < most or (int(one["value"]) == most and bool(one["bound"])) for one in found)


def _allergens(subject: str, own: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the plain names of allergens; None where the subject is no allergy."""
    found = _TO.search(subject)
    if not found:
        return None
    told = re.split(r",\s*(?:or|and)?\s*|\s+(?:or|and)\s+", found["what"])
    named = [compared(re.sub(r"^(?:(?:to|any|other|the)\s+)+", "", one)).strip() for one in told]
    others = [one for one in named if one and not _OF_THE_PRODUCT.search(one)]
    parts = _ITS_PARTS if len(others) < len(named) else ()
    return tuple(dict.fromkeys((*others, *parts, *telling_names(own))))


def _drugs(names: Sequence[str], own: re.Pattern[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in names:
        core = _OTHER_DRUG_TAIL.sub("", _OTHER_DRUG_HEAD.sub("", name))
        for one in re.split(r",\s*(?:or|and)?\s*|\s+(?:or|and)\s+", core):
            told = compared(re.sub(r"^(?:(?:an?|the|any|other|organic|oral|systemic|injectable)\s+)+", "", one)).strip()
            if len(told) > 3 and told not in _ANY_DRUG and not own.search(told) and len(told.split()) <= 5:
                found[told] = None
    return tuple(found)


def _has(said: str, drug: str) -> bool:
    stem = drug[:-1] if drug.endswith("s") and not drug.endswith("ss") else drug
    return re.search(rf"(?<!\w){re.escape(stem)}(?:e?s)?(?!\w)", said) is not None
