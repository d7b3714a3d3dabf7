"""Defects of questions: ways in which a good question is spoilt mechanically, so that its fault is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.filters.quotations import is_quoted
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topic_questions import product_name
from fdarx_core.records import Label, Passage, QuestionAnswer

_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*")
_CONDITION = re.compile(r",?\s+(?:in patients|if|when|unless)\b[^.;,]*")
_LEAST_WORDS = 4
"""Words that are left of a sentence which is cut, and of a text that can stand for a passage."""
_CUT_WORDS = (2, 4)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around a question: its label, the label's other good questions, and the topics that it answers."""

    label: Label
    passages: Sequence[Passage]
    questions: Sequence[QuestionAnswer]
    pairs: Sequence[TopicPair]
    answered: Sequence[Topic]


Spoil = Callable[[QuestionAnswer, Surroundings, Random], QuestionAnswer | None]


@dataclass(frozen=True, slots=True)
class Defect:
    """One way to spoil questions.

    Attributes:
        name: what is wrong afterwards.
        types: the types of question that can be spoilt so.
        spoil: returns the spoilt question, which keeps its id, or None where it cannot be spoilt so.
        judged_at: the judge whose task it is to see the defect.
        written: whether a writer can make it, who is given the passages.
    """

    name: str
    types: tuple[str, ...]
    spoil: Spoil
    judged_at: str = "support"
    written: bool = True


def number_changed(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Replace a number of the answer by another one of its gold passages, or else by its double, 0 by 1."""
    places = list(_NUMBER.finditer(question.answer))
    if not places:
        return None
    texts = "\n".join(around.passages[index].text for index in question.gold_passages)
    others = sorted(set(_NUMBER.findall(texts)) - {found[0] for found in places})
    place = rng.choice(places)
    number = rng.choice(others) if others else f"{2 * float(place[0].replace(',', '')) or 1:g}"
    return replace(question, answer=question.answer[: place.start()] + number + question.answer[place.end() :])


def half_dropped(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Drop the last half of the sentences of the answer; of a single sentence, the last half of the listed items."""
    parts, between = split_sentences(question.answer), " "
    if len(parts) < 2:
        parts, between = question.answer.split("; "), "; "
    if len(parts) < 2:
        return None
    return replace(question, answer=_ended(between.join(parts[: len(parts) - len(parts) // 2])))


def object_lost(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Drop the last words of a sentence of the answer."""

    def cut(sentence: str) -> str:
        return _ended(" ".join(sentence.split()[: -rng.randint(*_CUT_WORDS)]))

    return _sentence_cut(question, cut, rng)


def condition_dropped(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Drop a clause with a word of condition from the answer, or else what stands before or between commas."""

    def cut(sentence: str) -> str:
        if found := _CONDITION.search(sentence):
            return sentence[: found.start()] + sentence[found.end() :]
        clauses = sentence.split(", ")
        if len(clauses) > 1:
            clauses.pop(rng.randrange(len(clauses) - 1))
        return ", ".join(clauses)

    return _sentence_cut(question, cut, rng)


def _sentence_cut(question: QuestionAnswer, cut: Callable[[str], str], rng: Random) -> QuestionAnswer | None:
    """Return the question with one sentence of its answer cut; None where no sentence can be."""
    sentences = split_sentences(question.answer)
    for at in rng.sample(range(len(sentences)), len(sentences)):
        shorter = cut(sentences[at])
        if shorter != sentences[at] and len(shorter.split()) >= _LEAST_WORDS:
            return replace(question, answer=" ".join([*sentences[:at], shorter, *sentences[at + 1 :]]))
    return None


def second_hop_elsewhere(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Replace the second gold passage of a multi-hop question by another passage of the label."""
    return _gold_moved(question, len(question.gold_passages) - 1, around, rng)


def first_hop_alone(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Leave of the answer to a multi-hop question what it quotes from the first passage."""
    first = around.passages[question.gold_passages[0]].text
    held = [one for one in question.evidence if is_quoted(one, first)]
    return replace(question, answer=" ".join(held)) if held and len(held) < len(question.evidence) else None


def made_answerable(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Replace the thing that a refusal question asks about by one of the same kind that the label answers."""
    silent = [pair.silent for pair in around.pairs if pair.silent is not None]
    kinds = {topic.kind for topic in silent if topic.name == question.entity}
    asked = {pair.answered for pair in around.pairs}
    named = [topic for topic in around.answered if topic.kind in kinds and question.entity in question.question]
    named = [topic for topic in named if topic not in asked] or named
    if not named:
        return None
    name = rng.choice(named).name
    return replace(question, entity=name, question=question.question.replace(question.entity, name))


def drug_as_pronoun(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Put a pronoun in place of the drug's name in the question."""
    name = product_name(around.label)
    if name not in question.question:
        return None
    return replace(question, question=question.question.replace(name, rng.choice(("this drug", "it"))))


def other_answer(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Give the question the answer, the evidence and the gold passages of another question on the label."""
    others = [one for one in around.questions if one.type == question.type and one.answer != question.answer]
    if not others:
        return None
    other = rng.choice(others)
    return replace(
        question,
        answer=other.answer,
        answer_kind=other.answer_kind,
        evidence=other.evidence,
        gold_passages=other.gold_passages,
        gold_codes=other.gold_codes,
        gold_has_answer=other.gold_has_answer,
    )


def gold_elsewhere(question: QuestionAnswer, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Replace a gold passage by another passage of the label."""
    return _gold_moved(question, rng.randrange(len(question.gold_passages)), around, rng)


def _gold_moved(question: QuestionAnswer, place: int, around: Surroundings, rng: Random) -> QuestionAnswer | None:
    """Return the question with another passage, which has nothing of the evidence, in place of a gold passage."""
    others = [
        one
        for one in around.passages
        if one.doc_chunk_index not in question.gold_passages
        and len(one.text.split()) >= _LEAST_WORDS
        and not any(is_quoted(quote, one.text) for quote in (*question.evidence, *split_sentences(question.answer)))
    ]
    if not others:
        return None
    other = rng.choice(others)
    gold, codes = list(question.gold_passages), list(question.gold_codes)
    gold[place], codes[place] = other.doc_chunk_index, other.section_code
    return replace(question, gold_passages=gold, gold_codes=codes)


def _ended(text: str) -> str:
    return f"{text.rstrip(' ,;:.(')}."


_ANSWERABLE = ("factual", "multihop")
DEFECTS = (
    Defect("second hop elsewhere", ("multihop",), second_hop_elsewhere, written=False),
    Defect("answer of the first hop alone", ("multihop",), first_hop_alone),
    Defect("entity made answerable", ("refusal",), made_answerable),
    Defect("number changed", _ANSWERABLE, number_changed),
    Defect("half of a list dropped", ("factual",), half_dropped),
    Defect("object lost", _ANSWERABLE, object_lost),
    Defect("condition dropped", _ANSWERABLE, condition_dropped),
    Defect("pronoun for the drug", (*_ANSWERABLE, "refusal"), drug_as_pronoun, "quality"),
    Defect("answer of another question", ("factual",), other_answer),
    Defect("gold passage elsewhere", ("factual",), gold_elsewhere, written=False),
)
"""The defects; those that fit the fewest questions come first, since they have the first choice of questions."""
