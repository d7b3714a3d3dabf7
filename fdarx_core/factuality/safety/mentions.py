"""Whether a text speaks of what a label forbids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fdarx_core.evaluation.baseline.grading_words import groups, stems
from fdarx_core.factuality.safety.advice import compared
from fdarx_core.factuality.safety.contraindications import names_pattern, telling_names

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


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a text must say to speak of one name: groups of patients and stems."""

    groups: frozenset[str]
    stems: frozenset[str]
    severity: bool


class Mention:
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
        """Whether the text speaks of the subject, no less severe, no older and no healthier than it says."""
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
    found = groups(text) & _GROUPS
    rest = frozenset(stems(_GROUP_WORDS.sub(" ", text))) - _LIGHT
    if not found and not rest - _GENERIC:
        return None
    return _Wanted(found, rest, bool(_SEVERITY.search(text)))


@lru_cache(maxsize=4096)
def _read(said: str) -> tuple[frozenset[str], tuple[str, ...], bool]:
    return groups(said), tuple(stems(said)), bool(_SEVERITY.search(said))


def _fits(said: str, wanted: _Wanted, aged: bool) -> bool:
    found, words, severity = _read(said)
    if severity and not wanted.severity:
        return False
    return (aged or wanted.groups <= found) and wanted.stems <= set(words) and _together(words, wanted.stems)


def _together(words: Sequence[str], wanted: frozenset[str]) -> bool:
    """Whether the words stand near each other somewhere, no more others than these between them."""
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
    """What an allergy is to, in plain words; None where the subject is none."""
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
