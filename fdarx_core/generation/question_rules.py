"""Application of the rules of `factual.yaml`, which make a question from a sentence, and checks of the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.tokens import decapitalise, question_words, with_full_stop
from fdarx_core.generation.library import MAX_ANSWER, any_of, load_library
from fdarx_core.generation.passage_reader import (
    PassageOutline,
    SentenceContext,
    ask,
    is_combination,
    is_noun_phrase,
    name_subject,
    sentence_context,
    sound,
    telling_topic,
)

_QUANTITY = (
    r"(?i)^(?P<np>[^,;:]{0,60}?\b(?:<words>)(?: \([^)]{1,30}\))?(?: [^,;:]{1,80}?)?) "
    r"(?P<aux>is|are|was|were|ranges?|ranged|averages?|averaged|approximates|has been) "
    r"(?!not |unknown)(?=[^.;]{0,60}\d)"
)
MatchGroups = dict[str, str]
Shape = Callable[[MatchGroups, SentenceContext], MatchGroups | None]
_SETTING = re.compile(r" (?:for|in|with|during|after|following|when|if|among|at|to) ")
_SINGULAR = {"are": "is", "were": "was"}
_SAYS_LITTLE = re.compile(any_of("says_little"), re.I)
_OPENING = {code: phrase for phrase, codes in load_library("sentences")["openings"].items() for code in codes}


@dataclass(frozen=True, slots=True)
class QuestionRule:
    """One way in which label text states a fact, and the question it answers; `factual.yaml` explains the fields.

    `shape` may change the groups of the pattern, or return None where the rule does not hold after all.
    """

    name: str
    gate: Sequence[str]
    pattern: re.Pattern[str]
    ask: str
    weight: float
    kind: str = "factual"
    needs_number: bool = False
    codes: frozenset[str] = frozenset()
    sound: Mapping[str, int] = field(default_factory=dict)
    shape: Shape | None = None
    placed: bool = False
    general: bool = False

    @property
    def of_label(self) -> bool:
        """Whether the question names the drug only as the label's, or by the sentence's own subject."""
        return "{drug}" not in self.ask.replace("{drug} label", "")


@cache
def question_rules() -> tuple[QuestionRule, ...]:
    """Return the rules of `factual.yaml`. Raises TypeError or KeyError for an unknown field or shape."""
    library = load_library("factual")
    return tuple(_rule(library["sections"], **row) for row in library["rules"])


def _rule(sections: Mapping[str, Sequence[str]], **row: Any) -> QuestionRule:
    if words := row.pop("quantity", ""):
        row |= {"pattern": _QUANTITY.replace("<words>", words), "ask": "What {aux} {np}", "kind": "numeric"}
        row |= {"needs_number": True, "shape": "of_drug"}
    codes = (code for name in row.pop("codes", ()) for code in sections.get(name, [name]))
    shape = SHAPES[row.pop("shape")] if "shape" in row else None
    return QuestionRule(**row | {"pattern": re.compile(row["pattern"]), "codes": frozenset(codes), "shape": shape})


@dataclass(slots=True)
class QuestionCandidate:
    """A question with its answer; `order` is the place of the sentence in the passage."""

    question: str
    answer: str
    kind: str
    weight: float
    order: int


def apply_rule(rule: QuestionRule, scene: SentenceContext) -> QuestionCandidate | None:
    """Return the question that a rule makes from a sentence, or None if the rule does not apply."""
    if (rule.codes and scene.code not in rule.codes) or not any(key in scene.low for key in rule.gate):
        return None
    if not (scene.about_drug or rule.of_label) or (found := rule.pattern.search(scene.clause)) is None:
        return None
    groups = _named({name: (value or "").strip() for name, value in found.groupdict().items()}, scene)
    if groups is None or not all(sound(groups[name], longest) for name, longest in rule.sound.items()):
        return None
    if rule.shape is not None:
        groups = rule.shape(groups, scene)
    return None if groups is None else _finish(rule, scene, groups)


def _named(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    if not all(is_noun_phrase(groups[name]) for name in ("s", "np") if name in groups):
        return None
    if "np" in groups:
        groups["np"] = decapitalise(groups["np"], keep=scene.drug)
    if "s" in groups:
        written, groups["s"] = groups["s"], name_subject(groups["s"], scene.drug)
        if groups["s"] == scene.drug != written and "aux" in groups:
            groups["aux"] = _SINGULAR.get(groups["aux"], groups["aux"])
    return groups


def _finish(rule: QuestionRule, scene: SentenceContext, groups: MatchGroups) -> QuestionCandidate | None:
    core = rule.ask.format(drug=scene.drug, lead=scene.lead, **groups)
    answer = answer_text(scene)
    if scene.lead and not rule.general:
        if not sound(scene.lead, 150):
            return None
        core = core if "{lead}" in rule.ask else f"{core} {scene.lead}"
    topic = topic_of(scene) if rule.placed and not scene.lead and not _SETTING.search(core) else ""
    question = ask(core, scene.drug, topic)
    if answer is None or not informative(question, answer, rule.needs_number):
        return None
    kind = rule.kind if rule.kind != "list" or answer.count(",") + answer.count(";") >= 2 else "factual"
    return QuestionCandidate(question, answer, kind, rule.weight, scene.unit.order)


def topic_of(scene: SentenceContext) -> str:
    """Return the heading above the sentence, else the section's title; "" if neither names a subject."""
    return telling_topic(scene.unit.heading, scene.drug) or telling_topic(scene.title, scene.drug)


def answer_text(scene: SentenceContext) -> str | None:
    """Return the sentence with the items of its list, if it is complete and not too long."""
    text, items = scene.sentence, scene.unit.items
    if items and (not text.endswith(":") or any(":" in item for item in items)):
        return None
    if items:
        text = f"{text} {'; '.join(item.rstrip(' ;,.') for item in items)}."
    if text.endswith(":") or len(text) >= MAX_ANSWER:
        return None
    return with_full_stop(text)


def informative(question: str, answer: str, needs_number: bool) -> bool:
    """Return whether the answer states something that the question does not contain."""
    if needs_number and not number_strings(answer) - number_strings(question):
        return False
    told = len(set(question_words(answer)) - set(question_words(question)))
    return told >= 2 or (told == 1 and (needs_number or " not " in answer))


def opening_statement(reading: PassageOutline, drug: str, title: str, code: str) -> QuestionCandidate | None:
    """Return a question about the first sentence of a passage, for passages to which no rule applies."""
    if code not in _OPENING or not reading.units:
        return None
    scene = sentence_context(reading.units[0], drug, title, code, True)
    if scene is None or not (topic := topic_of(scene)) or not (answer := answer_text(scene)):
        return None
    question = f"What does the {drug} label {_OPENING[code].format(topic=topic)}?"
    told = set(question_words(answer))
    if (
        len(told - set(question_words(question))) < 5
        or not told & set(question_words(topic))
        or _SAYS_LITTLE.search(answer)
    ):
        return None
    return QuestionCandidate(question, answer, "factual", 1.0, 0)


_PEOPLE = re.compile(r" in (?:patients|subjects|elderly|pediatric|healthy|children|adults|infants)\b[^,.;()]{0,60}")
_BARE_LIST = re.compile(rf"(?:the )?(?:serious |other |common |possible )*(?:{any_of('bare_lists')})$", re.I)
_ADVICE = re.compile(rf"\b(?:{any_of('advice')})\b|^(?:{any_of('instructions')})\b", re.I)
_IF_LEAD = re.compile(r"(?:if|when|should|before|prior|once|after|upon|until|during|while)\b")
_PATIENTS_LEAD = re.compile(rf"(?:in|for|among|with) .*\b(?:{any_of('people')})")
_PARTICIPLES = load_library("sentences")["participles"]
_NOW = {"include": "are", "includes": "are", "included": "were"}


def _of_drug(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    """Add whose quantity it is, and replace "ranges" and "averaged" by "is" and "was"."""
    phrase, aux = groups["np"], groups["aux"]
    if not re.search(r" (?:of|for) ", phrase):
        if is_combination(scene.drug) or not scene.about_drug:
            return None
        phrase = f"{phrase} of {scene.drug}"
    phrase = _with_article(phrase, "the", "a", "an")
    if re.search(r"\d ?(?:[nm]|mc|µ)g", phrase):
        return None
    people = _PEOPLE.search(scene.clause.partition(groups["np"])[2])
    if people and " in " not in phrase and scene.clause.count(" in ") == 1:
        phrase += people.group()
    plain = aux if aux in ("is", "are", "was", "were") else "was" if aux in ("ranged", "averaged") else "is"
    return {**groups, "np": phrase, "aux": plain}


def _with_article(phrase: str, *articles: str) -> str:
    return phrase if phrase.split()[0] in articles else f"the {phrase}"


def _whose_dose(groups: MatchGroups, scene: SentenceContext) -> MatchGroups:
    aux = groups["aux"].lower()
    limit = " not exceed" if "exceed" in aux else " be" if aux.endswith(" be") else ""
    phrase = _with_article(groups["np"], "the", "a", "an", "each")
    return {**groups, "np": phrase, "aux": aux.split()[0], "end": limit}


def _adjustment(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    where = groups["where"]
    return None if not 0 < len(where) <= 110 or re.search(r"\b(?:this|these|such|it)\b", where) else groups


def _not_studied(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    return {**groups, "sep": " " if groups["where"] else ""} if len(groups["where"]) < 100 else None


def _effect(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    target = groups["z"].strip()
    if (
        not sound(target, 90)
        or len(target.split()) < 2
        or re.match(r"(?:or|and|to|in|by|from|at|with|after|during|but|until|as|over)\b", target)
        or re.search(r"\d", target)
    ):
        return None
    return {**groups, "z": target}


def _condition(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    where = groups["where"].rstrip(" .;")
    return {**groups, "where": where} if sound(where, 130) else None


def _definite(groups: MatchGroups, scene: SentenceContext) -> MatchGroups:
    """Put "the" before the noun phrase, and "are" for "include"."""
    changed = {"np": groups["np"] if groups["np"].lower().startswith("the") else f"the {groups['np']}"}
    return {**groups, **changed, "aux": _NOW.get(groups.get("aux", "").lower(), groups.get("aux", ""))}


def _advised(groups: MatchGroups, scene: SentenceContext, lead: re.Pattern[str]) -> MatchGroups | None:
    fits = lead.match(scene.lead) and _ADVICE.search(scene.clause)
    return groups if fits and sound(scene.lead, 140) and len(scene.lead.split()) > 2 else None


def _who(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    who = groups["who"].rstrip(" ,")
    whole = len(who.split()) > 1 and who.split()[-1] not in ("who", "which", "that", "and", "or", "with", "of")
    return {**groups, "who": decapitalise(who)} if whole and sound(who, 120) else None


def _share(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    people, deed = groups["who"], groups["vp"].rstrip(" ,.")
    fine = (
        sound(people, 110)
        and sound(deed, 110)
        and "%" not in people + deed
        and not re.search(r"\bcompared\b|\bversus\b|\brespectively\b", people)
    )
    return {**groups, "who": people, "vp": deed} if fine else None


def _average(groups: MatchGroups, scene: SentenceContext) -> MatchGroups | None:
    phrase = groups["np"]
    if not re.search(r" (?:of|for|in|on|to|between|from) ", phrase):
        return None
    return {**groups, "np": phrase if phrase.startswith("the ") else f"the {phrase}"}


def _geriatric(groups: MatchGroups, scene: SentenceContext) -> MatchGroups:
    if "selection" in scene.low or "dosage for" in scene.low:
        return {**groups, "matter": "dose selection"}
    return {**groups, "matter": "risk of adverse reactions" if "risk" in scene.low else "differences in response"}


SHAPES: dict[str, Shape] = {
    "adjustment": _adjustment,
    "average": _average,
    "can": lambda groups, scene: {**groups, "aux": groups["aux"] or "can"},
    "condition": _condition,
    "definite": _definite,
    "effect": _effect,
    "geriatric": _geriatric,
    "if_lead": lambda groups, scene: _advised(groups, scene, _IF_LEAD),
    "leaflet_list": lambda groups, scene: groups if scene.lead.startswith("before") or scene.unit.items else None,
    "leaflet_stop": lambda groups, scene: {**groups, "stop": "stop treatment and " if groups["stop"] else ""},
    "listed": lambda groups, scene: groups if not _BARE_LIST.match(groups["np"]) or topic_of(scene) else None,
    "lower_verb": lambda groups, scene: {**groups, "v": groups["v"].lower()},
    "not_studied": _not_studied,
    "of_drug": _of_drug,
    "past_participle": lambda groups, scene: {**groups, "done": _PARTICIPLES[groups["v"]]},
    "patients_lead": lambda groups, scene: _advised(groups, scene, _PATIENTS_LEAD),
    "share": _share,
    "single_drug": lambda groups, scene: None if is_combination(scene.drug) else groups,
    "singular": lambda groups, scene: {**groups, "aux": "is"},
    "study": lambda groups, scene: {
        **groups,
        "aux": groups["aux"].split()[0],
        "been": " been" if " been" in groups["aux"] else "",
    },
    "topic": lambda groups, scene: {**groups, "topic": topic} if (topic := topic_of(scene)) else None,
    "who": _who,
    "whose_dose": _whose_dose,
}
"""Functions that change the groups of a pattern, by their names in `factual.yaml`."""
