"""What wordings give away: one-sided wordings, questions that recur, and answers that are known without the label."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from fdarx_core.baseline.tokens import content_words
from fdarx_core.evaluation.artifact_classifiers import MASKS, drawn_questions, drug_halves
from fdarx_core.evaluation.audit_figures import LEAST_DRUGS, AuditFigure, DrugBootstrap, too_few
from fdarx_core.evaluation.audit_questions import DRUG, LABELER, AuditedQuestion
from fdarx_core.evaluation.metrics import Mask
from fdarx_core.labels.drugs import Words
from fdarx_core.records import Estimate
from fdarx_core.storage.published import QUESTION_TYPES

ONE_SIDED_BOUND = 0.20
"""The share of questions with one-sided wordings with which an audit passes.

Someone who knows the build can tell these questions, and guesses the others: the accuracy of telling refusals is then
0.5 + share / 2. At 0.20 it is 0.60, as the bound on the F1 of the classifiers.
"""
ONE_SIDED_QUESTIONS = 5
"""Questions of a wording from which on it can be one-sided. By chance one of five is in 2 of 32 cases."""
RECURRING_BOUND = 0.05
"""The share of questions that recur on another label with another gold answer with which an audit passes.

Such a question has no answer of its own unless the label is named, and a search over all labels cannot be right.
"""
GUESSABLE_SHARE = 0.8
"""The share of labels of other drugs that must have the same gold answer for an answer to be guessable."""
GUESSABLE_DRUGS = 2
"""Other drugs from which on a gold answer is guessable, because on one drug alone it may be equal by chance."""
OPENING_WORDS, OPENINGS = 3, 10

_TYPE_NAMES = {"factual": "factual", "multihop": "multi-hop", "refusal": "refusal"}
_SHOWN = {DRUG: "[drug]", LABELER: "[labeler]"}


def one_sided_figures(questions: Sequence[AuditedQuestion], bootstrap: DrugBootstrap) -> list[AuditFigure]:
    """Return the shares of questions with wordings that only refusals, or only other questions, have.

    As many refusals as other questions are drawn, as for the classifiers. A wording is one-sided if at least
    `ONE_SIDED_QUESTIONS` of the drawn questions, on at least two drugs, have it, and all are refusals or none is.
    """
    halves = drug_halves([one.drug for one in questions])
    refusals = np.array([one.is_refusal for one in questions], np.int64)
    drawn, reason = drawn_questions(halves, refusals, 2)
    if bootstrap.drugs < LEAST_DRUGS:
        reason = too_few(len(questions), bootstrap.drugs)
    over = np.zeros(len(questions), np.bool_)
    over[drawn] = True
    figures = []
    for mask, described in MASKS.items():
        wordings = [one.masked if mask == "drug" else one.bare for one in questions]
        held = np.zeros(len(questions), np.bool_)
        by_wording: dict[Words, list[int]] = defaultdict(list)
        for at in drawn:
            by_wording[wordings[at]].append(int(at))
        for rows in by_wording.values():
            sides, drugs = ({questions[at].is_refusal for at in rows}, {questions[at].drug for at in rows})
            held[rows] = len(rows) >= ONE_SIDED_QUESTIONS and len(sides) == 1 and len(drugs) > 1
        name = f"Questions with a wording that only refusals or only other questions have ({described})"
        estimate = Estimate(None) if reason else bootstrap.share(held, over)
        keys = {"masked": mask}
        figures.append(
            AuditFigure.of("one_sided_wording", keys, estimate, name=name, bound=ONE_SIDED_BOUND, reason=reason)
        )
    return figures


def recurrence_figures(questions: Sequence[AuditedQuestion], bootstrap: DrugBootstrap) -> list[AuditFigure]:
    """Return the shares of questions that another label has word for word: all, and with the same or another answer.

    Case and signs do not count; the drug's name is a part of the question, and is masked in the answers alone.
    """
    labels: dict[Words, set[str]] = defaultdict(set)
    answers: dict[Words, set[tuple[str, Words]]] = defaultdict(set)
    for one in questions:
        labels[one.words].add(one.set_id)
        answers[one.words].add((one.set_id, one.answer))
    recurs = np.array([len(labels[one.words]) > 1 for one in questions], np.bool_)
    differs = np.array([_has_other_answer(one, answers[one.words]) for one in questions], np.bool_)
    reason = too_few(len(questions), bootstrap.drugs)
    over = np.ones(len(questions), np.bool_)
    rows: list[tuple[str, str, Mask, float | None]] = [
        ("recurring", "Questions that recur word for word on another label", recurs, None),
        (
            "recurring_same_gold",
            "Questions that recur on other labels, always with the same gold answer",
            recurs & ~differs,
            None,
        ),
        (
            "recurring_other_gold",
            "Questions that recur on another label with another gold answer",
            differs,
            RECURRING_BOUND,
        ),
    ]
    return [
        AuditFigure.of(
            metric,
            {},
            Estimate(None) if reason else bootstrap.share(held, over),
            name=name,
            bound=bound,
            reason=reason,
        )
        for metric, name, held, bound in rows
    ]


def _has_other_answer(one: AuditedQuestion, answers: set[tuple[str, Words]]) -> bool:
    return any(set_id != one.set_id and answer != one.answer for set_id, answer in answers)


def answerability_figures(questions: Sequence[AuditedQuestion], bootstrap: DrugBootstrap) -> list[AuditFigure]:
    """Return the shares of questions whose gold answer can be known without the label, by type.

    Either all content words of the answer are in the question or in the drug's names. Or the answer is guessable: of
    the labels of at least two other drugs with the same wording, drug names masked, at least 80 % have the same gold
    answer, drug names masked. The gold answer of refusals is always the same and never in the question.
    """
    stated = np.array([_is_stated(one) for one in questions], np.bool_)
    guessable = _guessable(questions)
    figures = []
    for kind, name in _TYPE_NAMES.items():
        over = np.array([one.type == kind for one in questions], np.bool_)
        reason = too_few(int(over.sum()), bootstrap.drugs, f"{name} questions")
        parts: list[tuple[str, str, Mask]] = [
            ("answer_in_question", "that contain, with the drug's names, all content words of the gold answer", stated),
            ("answer_from_wording", "with the gold answer that other drugs have for the same wording", guessable),
            (
                "answerable_without_label",
                "that are answerable without the label, by either of these",
                stated | guessable,
            ),
        ]
        for metric, what, held in parts[1:2] if kind == "refusal" else parts:
            estimate = Estimate(None) if reason else bootstrap.share(held, over)
            figures.append(
                AuditFigure.of(
                    metric, {"group": kind}, estimate, name=f"{name.capitalize()} questions {what}", reason=reason
                )
            )
    return figures


def _is_stated(one: AuditedQuestion) -> bool:
    if one.is_refusal:
        return False
    known = content_words(" ".join((*one.words, *sorted(one.name_words)))) | {DRUG, LABELER}
    return content_words(" ".join(one.answer)) <= known


def _guessable(questions: Sequence[AuditedQuestion]) -> Mask:
    """Return which gold answers are guessable from the wording, by the labels of other drugs."""
    asked = {(one.masked, one.drug, one.set_id) for one in questions}
    given = {(one.masked, one.answer, one.drug, one.set_id) for one in questions}
    labels: Counter[Hashable] = Counter()
    drugs: dict[Words, set[str]] = defaultdict(set)
    for wording, drug, _ in asked:
        labels.update([wording, (wording, drug)])
        drugs[wording].add(drug)
    same: Counter[Hashable] = Counter()
    for wording, answer, drug, _ in given:
        same.update([(wording, answer), (wording, answer, drug)])
    found = []
    for one in questions:
        others = labels[one.masked] - labels[one.masked, one.drug]
        equal = same[one.masked, one.answer] - same[one.masked, one.answer, one.drug]
        enough = len(drugs[one.masked]) > GUESSABLE_DRUGS
        found.append(enough and equal >= GUESSABLE_SHARE * others)
    return np.array(found, np.bool_)


def length_figures(questions: Sequence[AuditedQuestion], bootstrap: DrugBootstrap) -> list[AuditFigure]:
    """Return the median, the 10th and the 90th percentile of the gold answers' lengths in words, by type."""
    figures = []
    for kind, name in _TYPE_NAMES.items():
        rows = [at for at, one in enumerate(questions) if one.type == kind]
        lengths = [questions[at].answer_words for at in rows]
        drugs = len({questions[at].drug for at in rows})
        reason = too_few(len(rows), bootstrap.drugs, f"{name} questions")
        for part, share in (("p10", 0.1), ("median", 0.5), ("p90", 0.9)):
            value = None if reason else float(np.quantile(lengths, share, method="inverted_cdf"))
            estimate = Estimate(value, rows=len(rows), clusters=drugs)
            described = {"p10": "10th percentile", "median": "Median", "p90": "90th percentile"}[part]
            figures.append(
                AuditFigure.of(
                    f"answer_words_{part}",
                    {"group": kind},
                    estimate,
                    name=f"{described} of the words of answers to {name} questions",
                    reason=reason,
                )
            )
    return figures


def opening_figures(
    questions: Sequence[AuditedQuestion], bootstrap: DrugBootstrap
) -> tuple[list[AuditFigure], list[AuditFigure]]:
    """Return by type the share of the ten most frequent first three words together, and of each of them.

    Drug names are masked. Types with too few questions have no single shares.
    """
    together, single = [], []
    openings = [one.masked[:OPENING_WORDS] for one in questions]
    for kind in QUESTION_TYPES:
        over = np.array([one.type == kind for one in questions], np.bool_)
        name = _TYPE_NAMES[kind]
        reason = too_few(int(over.sum()), bootstrap.drugs, f"{name} questions")
        counts = Counter(opening for opening, here in zip(openings, over, strict=True) if here)
        top = sorted(counts, key=lambda one: (-counts[one], one))[:OPENINGS]
        held = np.array([opening in set(top) for opening in openings], np.bool_)
        together.append(
            AuditFigure.of(
                "openings_share",
                {"group": kind},
                Estimate(None) if reason else bootstrap.share(held, over),
                name=f"{name.capitalize()} questions that begin with the ten most frequent first three words",
                reason=reason,
            )
        )
        for opening in [] if reason else top:
            words = " ".join(_SHOWN.get(word, word) for word in opening)
            begins = np.array([one == opening for one in openings], np.bool_)
            keys = {"group": kind, "opening": words}
            single.append(AuditFigure.of("opening_share", keys, bootstrap.share(begins, over), name=words))
    return together, single
