"""Negation, prohibition and opposites: what a text affirms, denies, forbids, allows or leaves open."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from fdarx_core.baseline.stems import (
    concept,
    concept_weight,
    concepts,
    root,
    stem,
    stem_weight,
    stems,
    weight_of_concept,
)
from fdarx_core.baseline.tokens import vocabulary

_FORBIDS = re.compile(r"\b(?:contraindicat\w*|avoid\w*|forbid\w*|prohibit\w*)\b")
_RULES_OUT = re.compile(r"\brules? out\b|\bnot (?:be|take|use|receive)\b")
_ASIDE = re.compile(r"\([^()]*\)")
_NOT_FORBIDDEN = re.compile(r"\b(?:not|never|no)\s+(?:\w+\s+)?forbids\b")
_FORBIDDEN = re.compile(
    r"\b(?:(?:should|must|may|can) (?:not|never) (?:be )?(?:used?|given?|taken?|administer(?:ed)?|prescribed?|receive)"
    r"|(?:do|does|did) not (?:use|give|take|administer|prescribe)|(?:is|are|was|were) not recommended"
    r"|not (?:recommended|indicated|advised|be used))\b"
)
_MAY_FORBID = re.compile(
    r"\b(?:should|must|may|can|shall) not\b"
    r"|\b(?:cannot|can't|don't|shouldn't|mustn't|do not|never|unsafe|unless|only if)\b"
    r"|\bnot (?:be|suitable|safe|advis\w+|an option)\b|\b(?:withh[eo]ld|discourag|refrain|prevent)|\bagainst\b"
)
_DENIES = re.compile(
    r"\b(?:no|not|never|neither|nor|without|cannot|none|lacks?|absence|failed|unlikely|forbids)\b|n't\b"
)
_ONLY = re.compile(
    r"\bwith (?:and|or) without\b|\bnot (?:only|limited to|known|yet|necessarily)\b"
    r"|\bno (?:more|less|later|fewer) than\b|\bif not\b|\bnot (?:to |be )?exceed\w*"
)
_CLAUSE = re.compile(r"[.!?](?:\s|$)|\n|\b(?:but|though|although|however|unless|whereas|while|except)\b")
_OPPOSITES = tuple(
    (re.compile(rf"\b(?:{one})\b"), re.compile(rf"\b(?:{other})\b"))
    for one, other in (
        (
            r"increas\w+|rais\w+|elevat\w+|higher|rise|rises|greater|enhanc\w+",
            r"decreas\w+|reduc\w+|lower\w*|fall|falls|smaller|diminish\w*",
        ),
        (r"before", r"after"),
        (r"with (?:food|meals?|a meal)", r"without food|on an empty stomach|fasting"),
        (r"agonist", r"antagonist"),
        (r"inducers?|induces?", r"inhibitors?|inhibits?"),
    )
)
StemPolarity = dict[str, bool | None]


def stem_polarity(text: str, *, asked_what_is_forbidden: bool) -> StemPolarity:
    """Return for each stem whether clauses affirm it (True), deny it (False), or both (None).

    If the question asks what is forbidden, an answer may list it without saying again that it is forbidden.
    """
    found: StemPolarity = {}
    text = _FORBIDDEN.sub(" forbids ", _FORBIDS.sub(" forbids ", _ONLY.sub(" ", _ASIDE.sub(" ", text))))
    text = _NOT_FORBIDDEN.sub(" never " if asked_what_is_forbidden else " ", text)
    if asked_what_is_forbidden:
        text = text.replace(" forbids ", " ")
    for clause in _CLAUSE.split(text):
        affirms = not _DENIES.search(clause)
        for one in stems(_DENIES.sub(" ", clause)):
            found[one] = affirms if found.setdefault(one, affirms) == affirms else None
    return found


def prohibits(text: str) -> bool:
    """Return whether a plain text says that something must not be done, is to be avoided or is not recommended."""
    return bool(_FORBIDS.search(text) or _FORBIDDEN.search(text))


def forbids(text: str) -> bool:
    """Return whether a plain text names something that must not be done."""
    return prohibits(text) or bool(_RULES_OUT.search(text))


def may_forbid(text: str) -> bool:
    """Return whether a plain text may name something that must not be done, or only under conditions."""
    return forbids(text) or bool(_MAY_FORBID.search(text))


def reversed_stems(gold: StemPolarity, said: StemPolarity) -> list[str]:
    """Return the stems that one text affirms and the other denies, if they are most of the shared ones; else none."""
    shared = frozenset(one for one in gold.keys() & said.keys() if None not in (gold[one], said[one]))
    turned = frozenset(one for one in shared if gold[one] != said[one])
    return sorted(turned) if turned and stem_weight(turned) > 0.5 * stem_weight(shared) else []


def opposite_word(gold: str, said: str) -> str:
    """Return the word with which one text says the opposite of the other ("rise" for "fall"), "" for none."""
    for pair in _OPPOSITES:
        for side, other in (pair, pair[::-1]):
            wrong = other.search(said)
            if wrong and side.search(gold) and not other.search(gold) and not side.search(said):
                return wrong[0]
    return ""


_VERB = r"(?:\s+(?:be|been|generally|usually|routinely|ever|normally|ordinarily|always))*"
_FORBIDS_POLARITY = re.compile(
    rf"\b(?:contraindicat\w*|(?:be|is|are) avoided|forbid\w*|prohibit\w*|(?:should|must|shall){_VERB} (?:not|never)\b"
    rf"{_VERB}|(?:do|may) not{_VERB}(?= (?:use|take|give|administer|start|initiate|receive|exceed|drink|eat|drive|"
    r"crush|chew|shake|freeze|breastfeed|inject|stop|double|store|operate|combine|swallow|split)\w*)"
    r"|can ?not be (?=used|given|taken)|(?:shouldn|mustn)'t|never(?= (?:use|take|give|administer)\b)"
    r"|(?:is|are|was|were|be) not (?:\w+ly )?(?:recommended|advised|advisable|indicated|appropriate|suitable|safe)"
    r"|not (?:\w+ly )?(?:recommended|indicated|advised)|unsafe|refrain\w* from|inadvisable)\b"
)
_ALLOWS = re.compile(
    r"\b(?:can|may|could|should|must|is to|are to|has to|have to)(?: (?:also|only|generally|usually|safely|freely))* "
    r"(?:be (?:\w+ly )?(?:used|given|taken|administered|start|stop|prescribed|frozen|crushed|chewed|combined|"
    r"stored|injected|mixed|applied|restarted|split|opened)|use|take|receive|drink|eat|breastfeed|drive)\b"
    r"|\b(?:is|are|was|were) (?:\w+ly )?(?:recommended|indicated|advised|safe|suitable|appropriate|allowed|permitted)\b"
)
_NOT_FORBIDDEN_POLARITY = re.compile(r"\b(?:not|no|never) (?:\w+ )?forbids\b|\bforbids\s+(?:be )?forbids\b")
_CONDITION = re.compile(r"\b(?:if|when|where|unless)\b[^,;.]*\bforbids\b")
_SHUNS = re.compile(r"\b(?P<to>(?:\w+ )?to )?avoid(?P<noun>ing|ance(?: of)?)?(?P<what>[^;]*)")
_ADVISED = re.compile(r"\b(?:advis\w+|instruct\w*|warn\w*|recommended|told|need|needs|important|best|counsel\w*) to ")
_WITHOUT = re.compile(r"\bwithout\b(?P<what>[^,;]*?)(?=,|;|\b(?:and|or|in|at|on|as|is|was|for)\b|$)")
_SUBORDINATE = re.compile(r"\b(?:although|though|while|whereas)\b([^,;.]*),")
_DENIES_POLARITY = re.compile(
    r"\b(?:no|not|never|neither|nor|cannot|none|lack(?:s|ed|ing)?|absence of|fail(?:s|ed)? to|unlikely|free of|"
    r"free from|unable to|denies)\b|n't\b"
)
_OPEN = re.compile(
    r"\b(?:unknown|uncertain|unclear|(?:not|never) (?:been )?(?:\w+ly )?(?:known|clear|certain|studied|evaluated|"
    r"investigated|determined|assessed|tested|examined|defined|understood)|(?:no|insufficient|limited|inadequate) "
    r"(?:\w+ )?(?:data|information|studies|evidence is)|inconclusive|cannot be (?:ruled out|excluded|determined)"
    r"|whether|aim(?:s|ed)?|objectives?|purpose|sought to|hypothes[ie][sz]\w*"
    r"|to (?:determine|evaluate|assess|investigate|explore|examine|compare|identify|clarify|find out|test|study|"
    r"discuss|analy[sz]e|elucidate|estimate|review)|this (?:study|research|work|paper|article|trial|review)"
    r" (?:\w+ )?(?:evaluate|assesse|investigate|explore|examine|compare|use|describe|analy[sz]e)[sd]"
    r"|we (?:\w+ly )?(?:tested|evaluated|investigated|examined|assessed|studied|compared|asked|hypothesi[sz]ed))\b"
    r"|^\W*to \w+"
)
_MASKED = re.compile(
    r"\bwith (?:and|or) without\b|\bnot (?:only|limited to|necessarily|just)\b|\bno (?:more|less|later|fewer|greater) "
    r"than\b|\bnot (?:more|less|later|fewer|greater) than\b|\bif not\b|\b(?:(?:should|must) )?not (?:to |be )?exceed\w*"
    r"|\bno (?:sooner|earlier|longer) than\b|\bcannot (?:be )?(?:exceed\w*)"
)
_PASSIVE = re.compile(
    r"\s*(?:been |be |yet )*(?:established|demonstrated|shown|proven|observed|seen|found|reported|"
    r"necessary|needed|required|identified|detected|noted|expected)\b"
)
_CLAUSE_POLARITY = re.compile(
    r"[.;!?](?:\s|$)|\n|\b(?:but|though|although|however|unless|whereas|while|because|since|so|which)\b"
)
_PART = re.compile(r",|\b(?:in|of|on|with|for|to|by|at|from|during|among|than|when|if|and|or|nor|following)\b")
_EXCLUDES = re.compile(
    r"\b(?:other than|except(?:ing)?(?: for| in)?|excluding|with the exception of|but not|rather than)\b"
)
NOT_KNOWN = "not known there"
_EMPTY = frozenset[str]()
_OF_USE = frozenset(map(concept, ("use", "take", "give", "treat", "start", "receive", "indicate", "get")))
"""Verbs for the use of a drug: a claim with one of them contradicts a text that forbids the use."""
_HINTS: list[str] = vocabulary()["polarity_hints"]
_FOCUS = 4
"""The number of words after a denial that it is about."""
MOST_OF_IT, NEARLY_ALL = 0.6, 0.8
"""Share of a claim's words that must be forbidden where it allows, or where it merely speaks of them."""
TURNED, TURNED_OF_THE_SAME = (1.0, 0.6), (0.15, 0.5)
"""Weight of the words that one side denies and the other affirms, and their share of what is denied: in any statement,
and in one that has nearly all of the claim's words."""


@dataclass(frozen=True, slots=True)
class Polarity:
    """Concepts by how a statement speaks of them.

    `denials` are the concepts right behind each denial, `denied` all of these, `clouded` those in the rest of its
    clause, `forbidden` those in a clause that forbids, `allowed` in one that allows or recommends, `open` in one that
    says that something is not known, or is what a study asks, or stand behind "without".
    """

    affirmed: frozenset[str] = _EMPTY
    denials: tuple[frozenset[str], ...] = ()
    clouded: frozenset[str] = _EMPTY
    forbidden: frozenset[str] = _EMPTY
    allowed: frozenset[str] = _EMPTY
    open: frozenset[str] = _EMPTY

    @property
    def denied(self) -> frozenset[str]:
        return _EMPTY.union(*self.denials)


def polarity(text: str) -> Polarity:
    """Return which concepts a plain text affirms, denies, forbids, allows or leaves open."""
    if not any(hint in text for hint in _HINTS):
        return Polarity(frozenset(concepts(text)))
    text = _SUBORDINATE.sub(r"; \1; ", _EXCLUDES.sub(" not ", _MASKED.sub(" ", text)))
    read = [_read_clause(clause) for clause in _CLAUSE_POLARITY.split(text)]
    return Polarity(
        affirmed=_EMPTY.union(*(one.affirmed for one in read)),
        denials=tuple(denial for one in read for denial in one.denials),
        clouded=_EMPTY.union(*(one.clouded for one in read)),
        forbidden=_EMPTY.union(*(one.forbidden for one in read)),
        allowed=_EMPTY.union(*(one.allowed for one in read)),
        open=_EMPTY.union(*(one.open for one in read)),
    )


def _read_clause(clause: str) -> Polarity:
    marked = _CONDITION.sub(
        " ", _NOT_FORBIDDEN_POLARITY.sub(" is allowed ", _FORBIDS_POLARITY.sub(" forbids ", clause))
    )
    held = frozenset(concepts(marked.replace(" forbids ", " ")))
    if _OPEN.search(clause):
        return Polarity(open=held)
    if " forbids " in marked:
        return Polarity(forbidden=held)
    shunned, lacking = _shunned(marked), _EMPTY.union(*(concepts(one["what"]) for one in _WITHOUT.finditer(marked)))
    denials = tuple(_focus(marked, one) for one in _DENIES_POLARITY.finditer(marked))
    rest = held.difference(shunned, lacking, *denials)
    allowed = rest if _ALLOWS.search(marked) else _EMPTY
    affirmed, clouded = (_EMPTY, rest) if denials else (rest, _EMPTY)
    return Polarity(affirmed, denials, clouded, shunned, allowed, lacking)


def _shunned(clause: str) -> frozenset[str]:
    """Return the concepts to be avoided: all after the verb "avoid", the next ones after the noun."""
    found = _SHUNS.search(clause)
    if found is None or (found["to"] and not _ADVISED.search(found["to"])):
        return _EMPTY
    return frozenset(concepts(found["what"].split(",")[0] if found["noun"] else found["what"]))


def _focus(clause: str, denial: re.Match[str]) -> frozenset[str]:
    """Return the concepts that a denial is about: those after it, or the whole clause for "was not shown"."""
    if _PASSIVE.match(clause, denial.end()):
        return frozenset(concepts(clause[clause.rfind(",", 0, denial.start()) + 1 :]))
    behind: list[str] = []
    for part in _PART.split(clause[denial.end() :]):
        behind += concepts(part)
        if any(weight_of_concept(one) >= 1 for one in behind):
            break
    return frozenset(behind[:_FOCUS] or concepts(clause[: denial.start()])[-_FOCUS:])


def contradicting_polarity(said: Polarity, passage: Polarity, words: float, held: float) -> str:
    """Return the concepts that one side denies or forbids and the other affirms or allows, "" for none.

    `words` is the weight of the claim's concepts, `held` the weight of those that the passage has too.
    """
    if allowed := _one_allows(said, passage, words):
        return f"one allows, the other forbids: {_listed(allowed)}"
    if held < MOST_OF_IT * words:
        return ""
    least, most = TURNED if held < NEARLY_ALL * words else TURNED_OF_THE_SAME
    if turned := _turned(said, passage, least, most) or _turned(passage, said, least, most):
        return f"one denies, the other affirms: {_listed(turned)}"
    known = said.open & passage.affirmed
    if not passage.open and not passage.denials and concept_weight(known) >= max(NEARLY_ALL * words, 1):
        return f"said to be unknown: {_listed(known)}"
    return ""


def _turned(one: Polarity, other: Polarity, least: float, share: float) -> frozenset[str]:
    """Return the concepts that one text denies and the other affirms without denying any of them.

    None below the weight `least`, or that is less than a `share` of what the denial is about.
    """
    against = other.denied | other.forbidden | other.open
    for denial in one.denials:
        turned = denial & other.affirmed - one.affirmed
        if concept_weight(turned) >= max(least, share * concept_weight(denial)) and not denial & against:
            return turned
    return _EMPTY


def _one_allows(said: Polarity, passage: Polarity, words: float) -> frozenset[str]:
    """Return the concepts that one text forbids and the other allows, where they are most of the claim."""
    if said.forbidden & passage.forbidden:
        return _EMPTY
    for own, other in ((said.forbidden, passage.allowed - passage.forbidden), (said.allowed, passage.forbidden)):
        if concept_weight(own & other) >= max(MOST_OF_IT * concept_weight(own), 1):
            return own & other
    plainly = said.affirmed & passage.forbidden - passage.affirmed if said.affirmed & _OF_USE else _EMPTY
    return plainly if concept_weight(plainly) >= NEARLY_ALL * words else _EMPTY


def lacks_polarity(said: Polarity, passage: Polarity) -> str:
    """Return what the claim forbids, denies or takes as known and the passage does not; "" for nothing."""
    if said.forbidden and not said.forbidden & (passage.forbidden | passage.denied):
        return "no prohibition there"
    against = passage.denied | passage.clouded | passage.forbidden | passage.open
    if said.denied and not said.denied & against:
        return "no denial there"
    known = said.affirmed & passage.open - passage.affirmed
    return NOT_KNOWN if not said.open and concept_weight(known) > concept_weight(said.affirmed) / 2 else ""


def _listed(found: frozenset[str]) -> str:
    return ", ".join(sorted(found, key=lambda one: (-weight_of_concept(one), one))[:4])


_SIDE_OF = {
    root(stem(word)): (number, side)
    for number, sides in enumerate(vocabulary()["opposites"])
    for side, words in enumerate(sides)
    for word in words.split()
}
_FOOD = -1
_EITHER = re.compile(
    r"\bwith(?: or |/)without (?:food|meals?|regard)"
    r"|\b(?:without regard|regardless|irrespective) (?:to|of) (?:food|meals?)"
)
_FED = re.compile(r"\b(?:with|after|during) (?:\w+ )?(?:food|meals?|breakfast|dinner)\b")
_FASTED = re.compile(r"\b(?:without food|on an empty stomach|fasting|fasted|before (?:a |the )?(?:food|meals?))\b")
_OPPOSED_GROUPS = (
    frozenset({"children", "adults"}),
    frozenset({"children", "older adults"}),
    frozenset({"women", "men"}),
    frozenset({"renal impairment", "hepatic impairment"}),
    frozenset({"pregnancy", "lactation"}),
)
LEAST_SHARED = 1
"""The weight of shared neighboring words that shows that two words are said of the same thing."""
_NEAR = 4
"""The number of words on either side of an opposite that say what it is about."""
Sides = Mapping[int, Mapping[int, tuple[str, frozenset[str]]]]
"""Axis -> side -> the concept that takes this side, and the concepts near it."""


@lru_cache(maxsize=65536)
def _side(one: str) -> tuple[int, int] | None:
    return _SIDE_OF.get(root(one))


def sides(found: Sequence[str], text: str) -> Sides:
    """Return for each pair of opposites which side the stems of a text are on, with the words near them."""
    taken: dict[int, dict[int, tuple[str, frozenset[str]]]] = {}
    for number, one in enumerate(found):
        if place := _side(one):
            near = (*found[max(0, number - _NEAR) : number], *found[number + 1 : number + 1 + _NEAR])
            before = taken.setdefault(place[0], {}).get(place[1], ("", frozenset()))[1]
            taken[place[0]][place[1]] = (one, before.union(map(concept, near)))
    if "food" in text or "meal" in text or "fast" in text or "stomach" in text:
        _add_food(found, text, taken)
    return taken


def _add_food(found: Sequence[str], text: str, taken: dict[int, dict[int, tuple[str, frozenset[str]]]]) -> None:
    rest, near = _EITHER.sub(" ", text), frozenset(map(concept, found))
    told = {side: how.search(rest) for side, how in enumerate((_FED, _FASTED))}
    ways = {side: (how[0], near) for side, how in told.items() if how}
    either = {2: ("with or without food", near)} if rest != text or len(ways) == 2 else {}
    if either or ways:
        taken[_FOOD] = either | (ways if len(ways) < 2 else {})


def opposed(said: Sides, passage: Sides, denied: frozenset[str]) -> str:
    """Return the words with which two texts are on opposite sides, "" for none; concepts in `denied` are ignored."""
    for axis in said.keys() & passage.keys():
        own, other = said[axis], passage[axis]
        if own.keys() & other.keys() or denied.intersection(
            concept(one) for one, _ in (*own.values(), *other.values())
        ):
            continue
        if any(
            concept_weight(near & theirs) >= LEAST_SHARED for _, near in own.values() for _, theirs in other.values()
        ):
            return f"{_named(own)} against {_named(other)}"
    return ""


def _named(taken: Mapping[int, tuple[str, frozenset[str]]]) -> str:
    return ", ".join(one for one, _ in taken.values())


def other_group(said: frozenset[str], passage: frozenset[str]) -> str:
    """Return two groups of patients that exclude each other, of the claim and of the passage, "" for none."""
    for family in _OPPOSED_GROUPS:
        own, other = said & family, passage & family
        if own and other and not own & other:
            return f"{', '.join(sorted(own))} against {', '.join(sorted(other))}"
    return ""
