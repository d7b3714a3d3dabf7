"""How a rule turns a sentence into a question, and the checks of the result."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.passage_reader import (
    MAX_ANSWER,
    PassageOutline,
    SentenceContext,
    ask,
    is_noun_phrase,
    name_subject,
    sentence_context,
    sound,
    telling_topic,
)
from fdarx_core.baseline.tokens import decapitalise, question_words, with_full_stop

MatchGroups = dict[str, str]
_SETTING = re.compile(r" (?:for|in|with|during|after|following|when|if|among|at|to) ")
_SINGULAR = {"are": "is", "were": "was"}
_SAYS_LITTLE = re.compile(
    r"\b(?:was|were) (?:analyzed|evaluated|studied|assessed|conducted|examined|performed)\b|\bsee\b", re.I
)
_OPENING = {
    **dict.fromkeys(("43685-7", "34071-1", "42232-9", "34072-9", "34066-1"), "warn about {topic}"),
    **dict.fromkeys(("43682-4", "34090-1", "43681-6"), "state about {topic} in its clinical pharmacology"),
    **dict.fromkeys(("34081-0", "34080-2", "34079-4", "43684-0", "42228-7", "34082-8"), "state about {topic}"),
    "34073-7": "say about interaction with {topic}",
}


@dataclass(frozen=True, slots=True)
class QuestionRule:
    """One way label text states a fact, and the question it answers.

    `gate`: lower-case strings, one of which the sentence holds (a cheap test before the pattern). `pattern` is searched
    in the main clause; its group `s` is a subject that may be the drug, `np` a noun phrase to copy. `question` is
    filled with the groups, `drug` and `lead`, without "?". `needs_number`: the answer must hold a number that the
    question does not. `codes`: core LOINC codes it is for, empty for all. `shape` may change the groups, or say None.
    `placed`: a question without a setting of its own names the section's topic. `general`: the sentence's leading
    condition is no part of the question.
    """

    name: str
    gate: tuple[str, ...]
    pattern: re.Pattern[str]
    question: str
    kind: str = "factual"
    weight: float = 1.0
    needs_number: bool = False
    codes: frozenset[str] = frozenset()
    shape: Callable[[MatchGroups, SentenceContext], MatchGroups | None] | None = None
    placed: bool = False
    general: bool = False

    @property
    def of_label(self) -> bool:
        """Whether the question names the drug only as the label's, or by the sentence's own subject."""
        return "{drug}" not in self.question.replace("{drug} label", "")


@dataclass(slots=True)
class QuestionCandidate:
    """A question with its answer; `order` is the place of the sentence in the passage."""

    question: str
    answer: str
    kind: str
    weight: float
    order: int
    rule: str


def apply_rule(rule: QuestionRule, scene: SentenceContext) -> QuestionCandidate | None:
    """The question that a rule makes of a sentence, or None where the rule does not hold."""
    if (rule.codes and scene.code not in rule.codes) or not any(key in scene.low for key in rule.gate):
        return None
    if not (scene.about_drug or rule.of_label) or (found := rule.pattern.search(scene.clause)) is None:
        return None
    groups = _named({name: (value or "").strip() for name, value in found.groupdict().items()}, scene)
    if groups is not None and rule.shape is not None:
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
    core = rule.question.format(drug=scene.drug, lead=scene.lead, **groups)
    answer = answer_text(scene)
    if scene.lead and not rule.general:
        if not sound(scene.lead, 150):
            return None
        core = core if "{lead}" in rule.question else f"{core} {scene.lead}"
    topic = topic_of(scene) if rule.placed and not scene.lead and not _SETTING.search(core) else ""
    question = ask(core, scene.drug, topic)
    if answer is None or not informative(question, answer, rule.needs_number):
        return None
    kind = rule.kind if rule.kind != "list" or is_list(answer) else "factual"
    return QuestionCandidate(question, answer, kind, rule.weight, scene.unit.order, rule.name)


def topic_of(scene: SentenceContext) -> str:
    """The heading over the sentence, else the section's title; "" where neither says what it is about."""
    return telling_topic(scene.unit.heading, scene.drug) or telling_topic(scene.title, scene.drug)


def answer_text(scene: SentenceContext) -> str | None:
    """The sentence with the items of its list, if it is whole and not too long."""
    text, items = scene.sentence, scene.unit.items
    if items and (not text.endswith(":") or any(":" in item for item in items)):
        return None
    if items:
        text = f"{text} {'; '.join(item.rstrip(' ;,.') for item in items)}."
    if text.endswith(":") or len(text) >= MAX_ANSWER:
        return None
    return with_full_stop(text)


def is_list(answer: str) -> bool:
    """Whether an answer names three things or more."""
    return answer.count(",") + answer.count(";") >= 2


def informative(question: str, answer: str, needs_number: bool) -> bool:
    """Whether the answer says something that the question does not already say."""
    if needs_number and not number_strings(answer) - number_strings(question):
        return False
    told = len(set(question_words(answer)) - set(question_words(question)))
    return told >= 2 or (told == 1 and (needs_number or " not " in answer))


def opening_statement(reading: PassageOutline, drug: str, title: str, code: str) -> QuestionCandidate | None:
    """What the label says first of the section's topic: the last resort, for a passage that no rule reads."""
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
    return QuestionCandidate(question, answer, "factual", 1.0, 0, "opening")
