"""The answers of an evaluation, each with its kind and an explanation for a reader of the page.

An explanation says what is wrong or right, whether the evidence was in the prompt, and how the citations stand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.evaluation.gold import PassageKey, gold_keys, passage_keys
from fdarx_core.evaluation.scoring import FAULTS
from fdarx_core.evaluation.tables import BASELINE
from fdarx_core.records import Grade, Passage, Prediction, QuestionAnswer
from fdarx_core.report.names import PAGE_WORDS
from fdarx_core.report.page_engine import readable, template_macros


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer: its kind (a key of `KINDS`), the prediction, and the grade if it has one."""

    kind: str
    prediction: Prediction
    grade: Grade | None


@dataclass(slots=True)
class AnswerSources:
    """Questions by id, passages by label and index, and for each question its equivalent passages.

    `equivalents` gives for each passage the gold passage that states the same, and the reason.
    """

    questions: dict[str, QuestionAnswer] = field(default_factory=dict)
    passages: dict[PassageKey, Passage] = field(default_factory=dict)
    equivalents: dict[str, dict[int, tuple[int, str]]] = field(default_factory=lambda: defaultdict(dict))

    def equivalent_gold(self, question: QuestionAnswer, place: PassageKey) -> tuple[int, str] | None:
        """Return the gold passage that states the same as this one, and the reason."""
        return self.equivalents.get(question.id, {}).get(place[1]) if place[0] == question.set_id else None

    def gold_among(self, question: QuestionAnswer, places: Sequence[PassageKey]) -> int:
        """Return how many gold passages are among the places, themselves or by a passage that states the same."""
        alike = {same[0] for place in places if (same := self.equivalent_gold(question, place))}
        return sum(place in places or place[1] in alike for place in gold_keys(question))


def cited_places(prediction: Prediction) -> list[PassageKey]:
    """Return the cited passages in the order of the citations."""
    return passage_keys(prediction.set_id, prediction.cited, prediction.cited_set_ids)


def prompt_passages(prediction: Prediction) -> list[PassageKey]:
    """Return the passages of the prompt in its order."""
    return passage_keys(prediction.set_id, prediction.shown, prediction.shown_set_ids)


EVIDENCE = PAGE_WORDS["evidence_shown"]
"""Whether the evidence was in the prompt, as the filter of the page names it."""

_ANSWERABLE_FAULTS = ("incorrect", "not_attempted", "false_refusal")
"""The faults in answers to answerable questions; kinds without a verdict do not show how passages were read."""


def _worded(macro: str, *about: Any) -> str:
    """Return the sentences of a macro of the template."""
    return " ".join(str(getattr(template_macros("answers.txt.j2"), macro)(*about)).split())


def classify_evidence(answer: JudgedAnswer, question: QuestionAnswer, sources: AnswerSources) -> tuple[str, str]:
    """Return a key of `EVIDENCE`, and a sentence about this answer, "" if there is nothing to say."""
    prediction, gold = answer.prediction, gold_keys(question)
    if question.type == "refusal":
        return "unanswerable", ""
    if prediction.setting == "closed_book":
        return "memory", "No passage was shown: the model had only its memory."
    if answer.kind not in (*_ANSWERABLE_FAULTS, "correct") or not prediction.shown or not gold:
        return "unknown", ""
    shown = prompt_passages(prediction)
    found = sources.gold_among(question, shown)
    if answer.kind == "correct":
        seen = found == len(gold)
        return ("seen", "") if seen else ("unseen", "The prompt did not hold every gold passage.")
    key = "shown" if found == len(gold) else "partly" if found else "missing"
    alike = found - sum(place in shown for place in gold)
    return key, _worded("evidence", key, answer, len(gold), found, alike)


def asks_for_citations(setting: str) -> bool:
    """Return whether a setting asks for citations; settings that the user named may."""
    return setting not in ("closed_book", "oracle")


def citation_note(prediction: Prediction, question: QuestionAnswer, sources: AnswerSources) -> str:
    """Return a sentence that counts the citations, "" if none were asked for or there is no answer."""
    if prediction.outcome != "answered" or not asks_for_citations(prediction.setting):
        return ""
    cited = cited_places(prediction)
    marks = [citation_mark(question, key, sources)[0] for key in cited]
    found = sources.gold_among(question, cited)
    return _worded("citations", marks, prediction.cited_unknown, len(gold_keys(question)), found)


def citation_mark(question: QuestionAnswer, place: PassageKey, sources: AnswerSources) -> tuple[str, str]:
    """Return gold, same or "" for a cited passage, with the words for it."""
    if place in gold_keys(question):
        return "gold", "gold"
    if replaced := sources.equivalent_gold(question, place):
        return "same", f"states the same as PASSAGE_{replaced[0]:04d} ({readable(replaced[1])})"
    return "", "not gold"


def explain(answer: JudgedAnswer, sources: AnswerSources) -> dict[str, Any]:
    """Explain an answer to a reader who sees the question, both answers and the passages.

    Returns:
        `finding` says what is wrong or right and `detail` what the judge said, or why there is no answer; `evidence` is
        a key of `EVIDENCE`; `notes` are sentences on the passages of the prompt and the citations.
    """
    question = sources.questions[answer.prediction.question_id]
    evidence, shown = classify_evidence(answer, question, sources)
    notes = [shown, citation_note(answer.prediction, question, sources)]
    reason = reason_of(answer)
    return {
        "finding": _worded("finding", answer, question, reason, FAULTS.get(reason, readable(reason))),
        "detail": _detail(answer),
        "evidence": evidence,
        "notes": [note for note in notes if note],
    }


_LEADS = PAGE_WORDS["detail_leads"]
"""The words before a detail of the baseline grader, by its reason."""


def _detail(answer: JudgedAnswer) -> str:
    if answer.kind in ("hallucinated", "false_refusal", "declined"):
        return ""
    detail = answer.grade.detail if answer.grade else ""
    if answer.grade and detail and answer.grade.judge == BASELINE:
        return f"{_LEADS.get(answer.grade.reason, '')}{detail}"
    return f"“{detail}”" if detail else readable(answer.prediction.reason)


def reason_of(answer: JudgedAnswer) -> str:
    """Return the reason to filter by: that of the judge, or of a missing or unreadable reply; "" without one."""
    if answer.kind in ("failed", "unparsed"):
        return answer.prediction.reason
    return "" if answer.grade is None or answer.grade.reason == "unnamed" else answer.grade.reason


KINDS = PAGE_WORDS["answers"]
"""The kinds of answers, as the page names them."""

NO_VERDICT = frozenset({"unparsed", "unscored", "failed"})
"""Kinds that are in no accuracy, because they do not show how good an answer is."""

RIGHT = frozenset({"correct", "declined"})
"""Kinds of right answers."""


def kind_of(question_type: str, outcome: str, grade: str) -> str:
    """Return a key of `KINDS`; `grade` is "" where there is none."""
    if outcome in ("failed", "unparsed"):
        return outcome
    if question_type == "refusal":
        return "hallucinated" if outcome == "answered" else "declined"
    if outcome == "refused":
        return "false_refusal"
    return grade or "unscored"
