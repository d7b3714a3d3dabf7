"""The questions of a build as the artifact audit reads them: in words, with the names of drugs and entities masked."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fdarx_core.labels.drugs import Words, words_of
from fdarx_core.records import QuestionAnswer, content_id

REFUSAL = "refusal"
DRUG = "thedrug"
LABELER = "thelabeler"
"""The words that replace the names of a label's drug, and the name of its labeler."""


@dataclass(frozen=True, slots=True)
class AuditedLabel:
    """The names in one label.

    `drug` is that of `Label`, the same for all labels of a drug; `names` are all names of the drug, and `labeler` the
    name of the company, "" if it is not known.
    """

    set_id: str
    drug: str
    names: Sequence[str]
    labeler: str = ""

    @property
    def words(self) -> frozenset[str]:
        """The words of all names of the drug."""
        return frozenset(word for name in self.names for word in words_of(name))


@dataclass(slots=True)
class AuditedQuestion:
    """A question in words, without case and signs.

    `words` are those of the question; in `masked` the names of the drug and labeler are replaced; in `bare` the
    entities of refusal questions are left out too. `answer` has the words of the gold answer, masked like the
    question, and `answer_words` counts its words as spaces divide them; `name_words` are those of the drug's names.
    """

    id: str
    type: str
    set_id: str
    drug: str
    words: Words
    masked: Words
    bare: Words
    answer: Words
    answer_words: int
    name_words: frozenset[str]

    @property
    def is_refusal(self) -> bool:
        return self.type == REFUSAL


class Phrases:
    """Phrases to look for in texts, each with the words that replace it."""

    def __init__(self, phrases: Iterable[tuple[str, Words]]) -> None:
        self._by_first: dict[str, list[tuple[Words, Words]]] = defaultdict(list)
        for words, put in {words_of(phrase): put for phrase, put in phrases}.items():
            if words:
                self._by_first[words[0]].append((words, put))
        for found in self._by_first.values():
            found.sort(key=lambda one: (-len(one[0]), one))

    def replaced(self, text: Words) -> Words:
        """Return the words of a text with all phrases replaced, of overlapping phrases the first, of these the longest.

        Neighbouring replacements that are equal become one.
        """
        made: list[str] = []
        at = 0
        last: Words = ()
        while at < len(text):
            fits = (one for one in self._by_first.get(text[at], ()) if text[at : at + len(one[0])] == one[0])
            words, put = next(fits, (text[at : at + 1], None))
            if put is None:
                made.extend(words)
            elif put != last:
                made.extend(put)
            last = put or ()
            at += len(words)
        return tuple(made)


def audited_questions(questions: Iterable[QuestionAnswer], labels: Iterable[AuditedLabel]) -> list[AuditedQuestion]:
    """Return the questions in words, in the order of a hash of their ids, which does not depend on the given order.

    Names of the drug are replaced by one word. Entities are left out and not replaced, because only refusal questions
    have an entity, so that a word in its place would tell them. For the same reason the entities of all questions are
    left out of every question. Questions are read once and not kept.

    Args:
        questions: the questions of a build.
        labels: the names in their labels. Where a label is not given, the question's own `drug_name` is the drug.
    """
    named = {one.set_id: one for one in labels}
    masks: dict[str, tuple[Phrases, frozenset[str]]] = {}
    entities: set[str] = set()
    made = []
    for row in questions:
        label = named.setdefault(row.set_id, AuditedLabel(row.set_id, "", [row.drug_name]))
        if row.set_id not in masks:
            masks[row.set_id] = Phrases(_names(label)), label.words
        made.append(_read(row, label, *masks[row.set_id]))
        entities.add(row.entity)
    made.sort(key=lambda one: (content_id("audit", one.id), one.set_id, one.words, one.answer))
    left_out = Phrases((entity, ()) for entity in entities)
    for one in made:
        one.bare = left_out.replaced(one.masked)
    return made


def _read(row: QuestionAnswer, label: AuditedLabel, names: Phrases, name_words: frozenset[str]) -> AuditedQuestion:
    words, answer = _shared_words(row.question), _shared_words(row.answer)
    return AuditedQuestion(
        row.id,
        sys.intern(row.type),
        sys.intern(row.set_id),
        sys.intern(label.drug or row.drug_name.strip().casefold()),
        words,
        names.replaced(words),
        (),
        names.replaced(answer),
        len(row.answer.split()),
        name_words,
    )


def _shared_words(text: str) -> Words:
    """Return the words of a text; equal words of all texts are one object, because a build has many questions."""
    return tuple(map(sys.intern, words_of(text)))


def _names(label: AuditedLabel) -> Iterator[tuple[str, Words]]:
    yield label.labeler, (LABELER,)
    for name in label.names:
        yield name, (DRUG,)
