"""Refusal questions by transfer: a question of one label, asked in the same words of a label that does not answer it.

Each has an answerable question in the same words, except for the name of the product, so that the wording does not tell
which of the two a label answers. The questions are of labels of the same drug or of similar drugs, so that they are
plausible. What a label lacks is searched for by words only; whether it answers a question is for judges to say.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from fdarx_core.generation.candidates import make_question
from fdarx_core.generation.contexts import label_text
from fdarx_core.generation.topic_questions import product_name
from fdarx_core.generation.topics import TopicSurvey, similar_drugs
from fdarx_core.records import NO_ANSWER, Label, Passage, QuestionAnswer, content_id
from fdarx_core.text.numbers import number_strings
from fdarx_core.text.stems import stem, terms
from fdarx_core.text.tokens import content_words, normalize_words, tokenize, words_of

SOURCE = "transfer"
"""The `source` of the questions that are made here."""
_COPIED = ("category", "difficulty", "task", "task_version", "endpoint", "response_key")
"""The fields of a question that its transfers have too."""
PER_QUESTION = 1
"""The most labels that a question is transferred to."""
_SIMILAR_DRUGS = 10
_LEAST_SIMILARITY = 0.1
"""The other drugs whose questions are plausible for a drug, and the similarity that they need."""
_OFFERED = 16
"""Questions that are compared with a label, for each that may be asked of it."""
_QUESTIONS_PER_DRUG = 200
"""Questions on the labels of one drug that are offered to other labels."""


@dataclass(frozen=True, slots=True)
class PortableQuestion:
    """What is needed of an answerable question to ask it of other labels: a third of the memory of the question itself.

    Attributes:
        id: the id of the question.
        set_id: the label that answers it.
        drug: the drug of this label, as `Label.drug`.
        product: the name of its product, which stands between `before` and `after` in the question.
        answered: the gold answer and the evidence for it.
        routes: the routes of the label.
        category, difficulty, task, task_version, endpoint, response_key: as in `QuestionAnswer`.
    """

    id: str
    set_id: str
    drug: str
    product: str
    before: str
    after: str
    answered: str = ""
    routes: tuple[str, ...] = ()
    category: str = ""
    difficulty: str = ""
    task: str = ""
    task_version: int = 0
    endpoint: str = ""
    response_key: str = ""

    def text(self, product: str) -> str:
        """Return the question with the name of a product."""
        return f"{self.before}{product}{self.after}"

    def shared(self) -> PortableQuestion:
        """Return it with the texts that many questions have as the same objects for all of them.

        What comes from a file or another process has texts of its own.
        """
        names = ("set_id", "drug", "product", "category", "difficulty", "task", "endpoint")
        same = {name: sys.intern(getattr(self, name)) for name in names}
        return replace(self, routes=tuple(map(sys.intern, self.routes)), **same)  # type: ignore[arg-type]


def portable_question(question: QuestionAnswer, label: Label) -> PortableQuestion | None:
    """Return a question as it can be asked of other labels.

    None for a refusal question, for a template question, which has a twin of its own, and for one that does not name
    its product once as questions write it, or that has other words of the drug's names, which would be wrong elsewhere.
    """
    before, product, after = question.question.partition(product_name(label))
    names = {word for name in (*label.aliases, *label.substances, label.labeler) for word in content_words(name)}
    own = not question.answerable or question.template != ""
    if own or not product or names.intersection(words_of(f"{before} {after}")):
        return None
    answered = " ".join(dict.fromkeys([question.answer, *question.evidence]))
    routes = tuple(dict.fromkeys(label.routes))
    copied = {name: getattr(question, name) for name in _COPIED}
    return PortableQuestion(
        question.id, question.set_id, label.drug, product, before, after, answered, routes, **copied
    )


def offered_questions(
    questions: Iterable[PortableQuestion],
    drug_of: Mapping[str, str],
    near: Mapping[str, Sequence[str]],
    per_label: int,
    seed: int,
) -> dict[str, list[PortableQuestion]]:
    """Return the questions of other labels that may be plausible for each label, by set id, in an order by a hash.

    In memory are `_QUESTIONS_PER_DRUG` questions of each drug, and the places of those that each label is offered.

    Args:
        questions: the questions that labels answer.
        drug_of: the drug of each label, by set id.
        near: the drugs whose questions are plausible for each drug, as `near_drugs`.
        per_label: the most questions to transfer to a label; more are offered, since many will not fit.
        seed: the seed of the run.
    """
    of_drug: dict[str, list[tuple[str, PortableQuestion]]] = defaultdict(list)
    for question in questions:  # all but the first of each drug are dropped while they are read
        insort(of_drug[question.drug], (content_id(str(seed), question.id), question.shared()), key=itemgetter(0))
        del of_drug[question.drug][_QUESTIONS_PER_DRUG:]
    offered = {}
    for set_id, drug in drug_of.items():
        candidates = (question for other in near[drug] for _, question in of_drug.get(other, ()))
        others = [question for question in candidates if question.set_id != set_id]
        others.sort(key=lambda question: content_id(str(seed), set_id, question.id))
        offered[set_id] = others[: _OFFERED * per_label]
    return offered


def expected_numbers(drug_of: Mapping[str, str], near: Mapping[str, Sequence[str]], per_label: int) -> dict[str, int]:
    """Return how many questions are expected to be transferred to each label, by set id.

    A label with others of the same drug or of similar drugs is expected to get as many as it may. `drug_of` and `near`
    are as in `offered_questions`.
    """
    labels = Counter(drug_of.values())
    return {
        set_id: per_label if sum(labels[other] for other in near[drug]) > 1 else 0 for set_id, drug in drug_of.items()
    }


def near_drugs(surveys: Sequence[TopicSurvey]) -> dict[str, list[str]]:
    """Return for each drug those whose questions are plausible for it, itself first."""
    return {
        drug: [drug, *(other for other, similarity in similar.items() if similarity >= _LEAST_SIMILARITY)]
        for drug, similar in similar_drugs(surveys, _SIMILAR_DRUGS).items()
    }


def fitting_transfers(
    label: Label, passages: Sequence[Passage], offered: Sequence[PortableQuestion], asked: Iterable[str]
) -> list[QuestionAnswer]:
    """Return the offered questions as refusal questions on a label that lacks a word of question and answer, in order.

    Questions on a label of other routes are left out: what is asked of an infusion makes no sense for a cream.

    Args:
        label: the label.
        passages: its passages.
        offered: questions that other labels answer.
        asked: the texts of all questions that were written on this label, which it is not asked again.
    """
    text = label_text(label, passages)
    held = frozenset(stem(word, "term") for word in words_of(text)) | number_strings(text)
    own_wordings = (portable.text(portable.product) for portable in offered)
    known = {normalize_words(question) for question in (*asked, *own_wordings)}
    transfers = []
    for portable in offered:
        question, missing = portable.text(product_name(label)), _missing_word(portable, held)
        fits = not portable.routes or not label.routes or not set(portable.routes).isdisjoint(label.routes)
        if fits and missing and normalize_words(question) not in known:
            known.add(normalize_words(question))
            transfers.append(_refusal(portable, label, question, missing))
    return transfers


def _missing_word(question: PortableQuestion, held: frozenset[str]) -> str:
    """Return the longest word of a question and its answer whose stem a label does not have, "" if it has all."""
    words = f"{question.before} {question.after}"
    wanted = terms(words) & terms(question.answered) - held
    missing = [word for word in tokenize(words) if wanted and wanted >= terms(word)]
    return max(missing, key=len, default="")


def _refusal(portable: PortableQuestion, label: Label, question: str, entity: str) -> QuestionAnswer:
    own = {"type": "refusal", "answer_kind": "refusal", "source": SOURCE, "entity": entity, "twin": portable.id}
    copied = {name: getattr(portable, name) for name in _COPIED}
    return make_question(label, question, NO_ANSWER, [], **own, **copied)


def expected_transfers(label: Label, number: int) -> list[QuestionAnswer]:
    """Return questions in place of those that will be transferred to a label, for a plan."""
    drug = product_name(label)
    waiting = PortableQuestion("", label.set_id, label.drug, drug, "", "")
    return [_refusal(waiting, label, drug, f"{at}") for at in range(number)]


def chosen_transfers(
    fitting: Mapping[str, Sequence[PortableQuestion]], per_label: int, seed: int
) -> dict[str, list[PortableQuestion]]:
    """Return the questions to ask of each label, by set id.

    The labels take turns in an order by a hash; each takes the first question that was not taken before.

    Args:
        fitting: the questions that fit each label, by set id.
        per_label: the most questions of a label.
        seed: the seed of the run.
    """
    taken: Counter[str] = Counter()
    chosen: dict[str, list[PortableQuestion]] = {set_id: [] for set_id in fitting}
    waiting = {set_id: iter(fitting[set_id]) for set_id in sorted(fitting, key=lambda one: content_id(str(seed), one))}
    for _ in range(per_label):
        for set_id, left in waiting.items():
            one = next((one for one in left if taken[one.id] < PER_QUESTION), None)
            if one is not None:
                taken[one.id] += 1
                chosen[set_id].append(one)
    return chosen
