"""Which passages state the same as a question's evidence. Labels repeat themselves, so the gold passage is not the only
one that a citation may rightly name. Source: FDARxBench §6, second limitation.

A passage may stand for a gold passage of the same label by one of two rules, tried in this order. Both look at the part
of the answer that rests on that gold passage: those of the answer's statements (sentences, short ones joined) that it
holds best among the question's gold passages, and of them the terms that it holds. A term is the stem of a word that
carries meaning, or a number; the drug's name is none.

near_duplicate: of the sequences of three terms that either passage has, `SAME_TEXT` stand in both, or `HELD_TEXT` of
the gold passage's stand in the other. The other must hold the numbers and terms of the answer's part as well, deny none
of it, and speak of no group of patients, dosage form or other qualifier of which the gold passage does not. An exact
copy always counts.

same_statement: each statement of the part stands in one window of the passage with all its numbers and nearly all its
terms (`MOST_MISSING`), and neither affirmed for denied nor the reverse. A window is a sentence, two of a paragraph that
are neighbours, a list with its lead-in (a long one item by item), a table row, or all of a short passage. A part of few
terms says too little by itself: the window must then hold the question's terms too, and the drug's name where the
answer has it. Passage and heading must speak of what the question asks (`LEAST_ASKED`), and the window and its heading
of no qualifier that question, answer and gold passage lack; a window for a statement with numbers has no others than
they do. The part must have a term (`LEAST_OWN`) that neither the question nor another of its gold passages holds: else
anything near would do.

The rules are for precision: restatements in other words are missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fdarx_core.baseline.polarity import reversed_stems, stem_polarity
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.statements import PassageTerms, figures, lacks, qualifiers, terms
from fdarx_core.baseline.stems import stem_weight
from fdarx_core.baseline.tokens import normalize
from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.records import Equivalence, Passage, QuestionAnswer

SAME_TEXT, HELD_TEXT = 0.8, 0.9
"""Shares of sequences from which passages are near duplicates."""
LEAST_SEQUENCES = 8
"""Sequences of a passage that is looked for inside another."""
MOST_MISSING = 0.1
"""Share of a statement's terms, by weight, that a window may lack."""
LEAST_ASKED = 0.6
"""Share of the question's terms that gold passage and heading hold which passage and heading must hold too."""
LEAST_OWN = 1.0
"""Weight of the part's terms that neither the question nor another gold passage of it holds."""
SHORT_STATEMENT, SHORT_PART = 3.0, 5.0
"""Weights below which a statement is joined to its neighbour, and a part of the answer needs the question's terms."""
LEAST_OF_STATEMENT = 0.6
"""Share of a statement that a gold passage must hold for it to rest there."""


def equivalences(questions: Sequence[QuestionAnswer], passages: Sequence[Passage]) -> list[Equivalence]:
    """For each answerable question of one label the passages that may stand for its gold passages, in order of index.

    `passages` are all of the label's; gold passages that are not among them have no members.
    """
    in_order = sorted(passages, key=lambda passage: passage.doc_chunk_index)
    readings = {passage.doc_chunk_index: PassageTerms(passage) for passage in in_order}
    return [_equivalence(question, readings) for question in questions if question.type != "refusal"]


def _equivalence(question: QuestionAnswer, readings: dict[int, PassageTerms]) -> Equivalence:
    found = Equivalence(question.id, question.set_id)
    gold = gold_indices(question)
    known = [readings[index] for index in dict.fromkeys(gold) if index in readings]
    for one in known:
        claim = _claim(question, one, [other for other in known if other is not one])
        for index, reading in readings.items():
            if index not in gold and (why := _why(claim, reading)):
                found.gold.append(one.index)
                found.members.append(index)
                found.why.append(why)
    return found


@dataclass(frozen=True)
class _Statement:
    text: str
    terms: frozenset[str]


@dataclass(frozen=True)
class _Claim:
    """What a passage must say to stand for `gold`; without statements only a near duplicate does."""

    gold: PassageTerms
    part: frozenset[str]
    statements: tuple[_Statement, ...]
    asked: frozenset[str]
    figures: frozenset[str]
    qualifiers: frozenset[str]


def _claim(question: QuestionAnswer, gold: PassageTerms, others: Sequence[PassageTerms]) -> _Claim:
    drug = terms(question.drug_name)
    asked = (terms(question.question) - drug) & (gold.terms | gold.heading)
    statements = [
        _Statement(one.text, one.terms & gold.terms)
        for one in _statements(question.answer, drug)
        if _rests_on(one, gold, others)
    ]
    part = frozenset[str]().union(*(one.terms for one in statements))
    known = terms(question.question).union(*(other.terms for other in others))
    if stem_weight(part - known) < LEAST_OWN:
        statements = []
    elif stem_weight(part) < SHORT_PART:
        context = asked | (drug & gold.terms & terms(question.answer))
        statements = [_Statement(one.text, one.terms | context) for one in statements]
    said = qualifiers(f"{question.question}\n{question.answer}\n{gold.passage.section_path}") | gold.qualifiers
    held = (terms(question.answer) - drug) & gold.terms
    figured = figures(gold.terms | terms(question.question) | terms(question.answer))
    return _Claim(gold, part or held, tuple(statements), asked, figured, said)


def _statements(answer: str, drug: frozenset[str]) -> Iterator[_Statement]:
    """The answer's sentences, short ones with the one before, a short first one with the next."""
    joined: list[str] = []
    for sentence in split_sentences(answer):
        if joined and min(stem_weight(terms(text) - drug) for text in (joined[-1], sentence)) < SHORT_STATEMENT:
            joined[-1] = f"{joined[-1]} {sentence}"
        else:
            joined.append(sentence)
    return (_Statement(text, terms(text) - drug) for text in joined)


def _rests_on(statement: _Statement, gold: PassageTerms, others: Sequence[PassageTerms]) -> bool:
    held = stem_weight(statement.terms & gold.terms)
    if not held or held < LEAST_OF_STATEMENT * stem_weight(statement.terms):
        return False
    return all(held >= stem_weight(statement.terms & other.terms) for other in others)


def _why(claim: _Claim, reading: PassageTerms) -> str:
    """The rule by which the passage may stand for the claim's gold passage, "" for none."""
    if lacks(claim.part, reading.terms, MOST_MISSING):
        return ""
    if claim.gold.text == reading.text or _near(claim, reading):
        return "near_duplicate"
    states = bool(claim.statements) and _speaks_of(claim.asked, reading)
    return "same_statement" if states and all(_states(reading, one, claim) for one in claim.statements) else ""


def _speaks_of(asked: frozenset[str], reading: PassageTerms) -> bool:
    return stem_weight(asked - reading.terms - reading.heading) <= (1 - LEAST_ASKED) * stem_weight(asked)


def _near(claim: _Claim, reading: PassageTerms) -> bool:
    gold = claim.gold
    if len(gold.terms & reading.terms) < SAME_TEXT * len(gold.terms) or not reading.qualifiers <= gold.qualifiers:
        return False
    both = len(gold.sequences & reading.sequences)
    held = len(gold.sequences) >= LEAST_SEQUENCES and both >= HELD_TEXT * len(gold.sequences)
    if not held and both < SAME_TEXT * len(gold.sequences | reading.sequences):
        return False
    return not any(_says_opposite(reading, one) for one in claim.statements)


def _states(reading: PassageTerms, statement: _Statement, claim: _Claim) -> bool:
    for text, held in reading.holding(statement.terms, MOST_MISSING):
        if figures(statement.terms) and not figures(held) <= claim.figures:
            continue
        if qualifiers(f"{reading.passage.section_path}\n{text}") <= claim.qualifiers and not _denied(statement, text):
            return True
    return False


def _says_opposite(reading: PassageTerms, statement: _Statement) -> bool:
    held = reading.holding(statement.terms, MOST_MISSING)
    return bool(held) and all(_denied(statement, text) for text, _ in held)


def _denied(statement: _Statement, text: str) -> bool:
    one, other = (stem_polarity(normalize(said), asked_what_is_forbidden=False) for said in (statement.text, text))
    return bool(reversed_stems(one, other))
