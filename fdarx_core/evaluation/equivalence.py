"""Passages that state the same as the gold passages of a question. Source: FDARxBench §6, second limitation.

Labels repeat themselves, so a citation may be right without naming the gold passage. A passage may replace a gold
passage of the same label by one of two rules, tried in this order. Both use the part of the answer that rests on that
gold passage: the statements of the answer (sentences, short ones joined) of which it has more terms than the other gold
passages, and of these the terms that it has. A term is the stem of a word with a meaning, or a number; the name of the
drug is not a term.

near_duplicate: of the sequences of three terms in either passage, `SAME_TEXT` are in both, or `HELD_TEXT` of those of
the gold passage are in the other. The other passage must also have the numbers and terms of the part, deny none of it,
and mention no patient group, dosage form or other qualifier that the gold passage does not. An exact copy always
counts.

same_statement: each statement of the part is in one window of the passage, with all its numbers and nearly all its
terms (`MOST_MISSING`), and with the same polarity. A window is a sentence, two neighboring sentences of a paragraph, a
list with its lead-in (a long one item by item), a table row, or a whole short passage. A part of few terms is not
specific: the window must then have the terms of the question too, and the name of the drug if the answer has it.
Passage and heading must mention what the question asks (`LEAST_ASKED`), and window and heading no qualifier that
question, answer and gold passage lack; a window for a statement with numbers has no other numbers. The part must have a
term (`LEAST_OWN`) that neither the question nor another gold passage has, because otherwise any similar passage would
match.

The rules prefer precision: paraphrases are not found.
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
"""Shares of common sequences from which passages are near duplicates."""
LEAST_SEQUENCES = 8
"""Sequences that a gold passage needs to be searched within another passage."""
MOST_MISSING = 0.1
"""Share of a statement's terms, by weight, that a window may lack."""
LEAST_ASKED = 0.6
"""Share of the question's terms in gold passage and heading that passage and heading must have too."""
LEAST_OWN = 1.0
"""Weight of the terms of the part that neither the question nor another gold passage has."""
SHORT_STATEMENT, SHORT_PART = 3.0, 5.0
"""Weights below which a statement is joined to the next one, and a part of the answer needs the question's terms."""
LEAST_OF_STATEMENT = 0.6
"""Share of a statement that must be in a gold passage for it to rest on that passage."""


def equivalences(questions: Sequence[QuestionAnswer], passages: Sequence[Passage]) -> list[Equivalence]:
    """Return for each answerable question of one label the passages that may replace its gold passages, by index.

    `passages` are all passages of the label; gold passages that are not among them have no members.
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


_Statement = tuple[str, frozenset[str]]
"""A statement of an answer, and its terms."""


@dataclass(frozen=True)
class _Claim:
    """The statements that a passage must have to replace `gold`; without statements only a near duplicate can."""

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
        (text, said & gold.terms) for text, said in _statements(question.answer, drug) if _rests_on(said, gold, others)
    ]
    part = frozenset[str]().union(*(said for _, said in statements))
    known = terms(question.question).union(*(other.terms for other in others))
    if stem_weight(part - known) < LEAST_OWN:
        statements = []
    elif stem_weight(part) < SHORT_PART:
        context = asked | (drug & gold.terms & terms(question.answer))
        statements = [(text, said | context) for text, said in statements]
    known_qualifiers = qualifiers(f"{question.question}\n{question.answer}\n{gold.passage.section_path}")
    held = (terms(question.answer) - drug) & gold.terms
    figured = figures(gold.terms | terms(question.question) | terms(question.answer))
    return _Claim(gold, part or held, tuple(statements), asked, figured, known_qualifiers | gold.qualifiers)


def _statements(answer: str, drug: frozenset[str]) -> Iterator[_Statement]:
    """Return the sentences of the answer; short ones are joined with the one before, or a first one with the next."""
    joined: list[str] = []
    for sentence in split_sentences(answer):
        if joined and min(stem_weight(terms(text) - drug) for text in (joined[-1], sentence)) < SHORT_STATEMENT:
            joined[-1] = f"{joined[-1]} {sentence}"
        else:
            joined.append(sentence)
    return ((text, terms(text) - drug) for text in joined)


def _rests_on(said: frozenset[str], gold: PassageTerms, others: Sequence[PassageTerms]) -> bool:
    held = stem_weight(said & gold.terms)
    if not held or held < LEAST_OF_STATEMENT * stem_weight(said):
        return False
    return all(held >= stem_weight(said & other.terms) for other in others)


def _why(claim: _Claim, reading: PassageTerms) -> str:
    """Return the rule by which the passage may replace the gold passage of the claim, "" for none."""
    if lacks(claim.part, reading.terms, MOST_MISSING):
        return ""
    if claim.gold.text == reading.text or _near(claim, reading):
        return "near_duplicate"
    unmentioned = stem_weight(claim.asked - reading.terms - reading.heading)
    if not claim.statements or unmentioned > (1 - LEAST_ASKED) * stem_weight(claim.asked):
        return ""
    return "same_statement" if all(_states(reading, one, claim) for one in claim.statements) else ""


def _near(claim: _Claim, reading: PassageTerms) -> bool:
    gold = claim.gold
    if len(gold.terms & reading.terms) < SAME_TEXT * len(gold.terms) or not reading.qualifiers <= gold.qualifiers:
        return False
    both = len(gold.sequences & reading.sequences)
    held = len(gold.sequences) >= LEAST_SEQUENCES and both >= HELD_TEXT * len(gold.sequences)
    if not held and both < SAME_TEXT * len(gold.sequences | reading.sequences):
        return False
    for text, said in claim.statements:
        windows = reading.holding(said, MOST_MISSING)
        if windows and all(_denied(text, window) for window, _ in windows):
            return False
    return True


def _states(reading: PassageTerms, statement: _Statement, claim: _Claim) -> bool:
    text, said = statement
    for window, held in reading.holding(said, MOST_MISSING):
        if figures(said) and not figures(held) <= claim.figures:
            continue
        if qualifiers(f"{reading.passage.section_path}\n{window}") <= claim.qualifiers and not _denied(text, window):
            return True
    return False


def _denied(statement: str, window: str) -> bool:
    one, other = (stem_polarity(normalize(text), asked_what_is_forbidden=False) for text in (statement, window))
    return bool(reversed_stems(one, other))
