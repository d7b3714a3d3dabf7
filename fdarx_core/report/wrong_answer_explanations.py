"""Explanations of wrong answers: the fault, whether the evidence was in the prompt, and the citations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fdarx_core.evaluation.gold import PassageKey, gold_keys, passage_keys
from fdarx_core.evaluation.grading import FAULTS
from fdarx_core.evaluation.paper_tables import BASELINE
from fdarx_core.records import Equivalence, Grade, Passage, Prediction, QuestionAnswer
from fdarx_core.report.names import PAGE_WORDS
from fdarx_core.report.page_engine import plural, readable
from fdarx_core.storage import RunDirectory, read_where

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A wrong answer: its kind, the prediction, and the grade if it has one."""

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


def read_sources(run: RunDirectory, predictions: Sequence[Prediction]) -> AnswerSources:
    """Read the questions and passages that these predictions need, part by part."""
    sources = AnswerSources()
    asked = {one.question_id for one in predictions}
    for question in _kept(run, "questions", "id", asked, QuestionAnswer):
        sources.questions[question.id] = question
    for one in _kept(run, "equivalences", "question_id", asked, Equivalence):
        for gold, member, why in zip(one.gold, one.members, one.why, strict=True):
            sources.equivalents[one.question_id].setdefault(member, (gold, why))
    needed = {place for one in predictions for place in cited_places(one)}
    needed |= {place for question in sources.questions.values() for place in gold_keys(question)}
    for passage in _kept(run, "passages", "set_id", {set_id for set_id, _ in needed}, Passage):
        place = (passage.set_id, passage.doc_chunk_index)
        if place in needed:
            sources.passages[place] = passage
    return sources


def cited_places(prediction: Prediction) -> list[PassageKey]:
    """Return the cited passages in the order of the citations."""
    return passage_keys(prediction.set_id, prediction.cited, prediction.cited_set_ids)


def shown_places(prediction: Prediction) -> list[PassageKey]:
    """Return the passages of the prompt in its order."""
    return passage_keys(prediction.set_id, prediction.shown, prediction.shown_set_ids)


def _kept(run: RunDirectory, kind: str, column: str, wanted: Collection[str], record: type[Record]) -> Iterator[Record]:
    for part in run.parts(kind):
        yield from read_where(part, column, wanted, record)


EVIDENCE = PAGE_WORDS["evidence_shown"]
"""Whether the evidence was in the prompt, as the filter of the page names it."""

_VERDICTS: dict[str, str] = {
    "incorrect": "the answer is wrong",
    "not_attempted": "it gives no answer",
    "false_refusal": "the model refused",
}
"""The fault in answers to answerable questions; other kinds do not show how passages were read."""


def classify_evidence(wrong: WrongAnswer, question: QuestionAnswer, sources: AnswerSources) -> tuple[str, str]:
    """Return a key of `EVIDENCE`, and a sentence about this answer, "" if there is nothing to say."""
    prediction, gold = wrong.prediction, gold_keys(question)
    if question.type == "refusal":
        return "unanswerable", ""
    if prediction.setting == "closed_book":
        return "memory", "No passage was shown: the model had only its memory."
    if wrong.kind not in _VERDICTS or not prediction.shown or not gold:
        return "unknown", ""
    shown = shown_places(prediction)
    strict = sum(place in shown for place in gold)
    return _shown_sentence(wrong, len(gold), strict, sources.gold_among(question, shown))


def _shown_sentence(wrong: WrongAnswer, gold: int, strict: int, found: int) -> tuple[str, str]:
    shown, cuts = plural(len(wrong.prediction.shown), "passage"), wrong.prediction.cuts
    where = f"among the {shown} shown{f'; {cuts:,} more were left out or cut' if cuts else ''}"
    every = {1: "the gold passage was", 2: "both gold passages were"}.get(gold, f"all {gold} gold passages were")
    instead = _VERDICTS[wrong.kind]
    if wrong.prediction.setting == "oracle" and found == gold:
        return "shown", f"Reading failure: {every} in the prompt, and no other, yet {instead}."
    alike = f" ({found - strict} by a passage that states the same)" if found > strict else ""
    if found == gold:
        return "shown", f"Reading failure: {every} {where}{alike}, yet {instead}."
    if found:
        return "partly", f"Retrieval failure in part: {found} of {gold} gold passages were {where}{alike}."
    none_of_them = "the gold passage was not" if gold == 1 else f"none of the {gold} gold passages was"
    fair = " Going by what was shown, the refusal was right." if wrong.kind == "false_refusal" else ""
    return "missing", f"Retrieval failure: {none_of_them} {where}.{fair}"


def asks_for_citations(setting: str) -> bool:
    """Return whether a setting asks for citations; settings that the user named may."""
    return setting not in ("closed_book", "oracle")


def citation_note(prediction: Prediction, question: QuestionAnswer, sources: AnswerSources) -> str:
    """Return a sentence that counts the citations, "" if none were asked for or there is no answer."""
    if prediction.outcome != "answered" or not asks_for_citations(prediction.setting):
        return ""
    strange = plural(prediction.cited_unknown, "passage")
    unknown = f" It also names {strange} that it was not shown." if prediction.cited_unknown else ""
    if not prediction.cited:
        return f"It cites no passage.{unknown}"
    marks = [citation_mark(question, key, sources)[0] for key in cited_places(prediction)]
    same = marks.count("same")
    counts = [
        (marks.count("gold"), "gold"),
        (same, "that states the same" if same == 1 else "that state the same"),
        (marks.count(""), "other"),
    ]
    listed = ", ".join(f"{number} {name}" for number, name in counts if number)
    return f"It cites {plural(len(marks), 'passage')}: {listed}.{_left_out(prediction, question, sources)}{unknown}"


def _left_out(prediction: Prediction, question: QuestionAnswer, sources: AnswerSources) -> str:
    """Return a sentence on gold passages that are not cited, "" if all are."""
    gold = gold_keys(question)
    found = sources.gold_among(question, cited_places(prediction))
    if not gold or found == len(gold):
        return ""
    if not found:
        return " The answer is based on another passage than the gold answer."
    lost = len(gold) - found
    return f" {lost} of the {len(gold)} gold passages {'is' if lost == 1 else 'are'} not cited."


def citation_mark(question: QuestionAnswer, place: PassageKey, sources: AnswerSources) -> tuple[str, str]:
    """Return gold, same or "" for a cited passage, with the words for it."""
    if place in gold_keys(question):
        return "gold", "gold"
    if replaced := sources.equivalent_gold(question, place):
        return "same", f"states the same as PASSAGE_{replaced[0]:04d} ({readable(replaced[1])})"
    return "", "not gold"


def explain(wrong: WrongAnswer, sources: AnswerSources) -> dict[str, Any]:
    """Explain a wrong answer to a reader who sees the question, both answers and the passages.

    Returns:
        `finding` says what is wrong and `detail` what the judge said, or why there is no answer; `evidence` is a key of
        `EVIDENCE`; `notes` are sentences on the passages of the prompt and the citations.
    """
    question = sources.questions[wrong.prediction.question_id]
    evidence, shown = classify_evidence(wrong, question, sources)
    notes = [shown, citation_note(wrong.prediction, question, sources)]
    return {
        "finding": _finding(wrong, question),
        "detail": _detail(wrong),
        "evidence": evidence,
        "notes": [note for note in notes if note],
    }


_LEADS = PAGE_WORDS["detail_leads"]
"""The words before a detail of the baseline grader, by its reason."""


def _detail(wrong: WrongAnswer) -> str:
    if wrong.kind in ("hallucinated", "false_refusal"):
        return ""
    said = wrong.grade.detail if wrong.grade else ""
    if wrong.grade and said and wrong.grade.judge == BASELINE:
        return f"{_LEADS.get(wrong.grade.reason, '')}{said}"
    return f"“{said}”" if said else readable(wrong.prediction.reason)


def reason_of(wrong: WrongAnswer) -> str:
    """Return the reason to filter by: that of the judge, or of a missing or unreadable reply; "" without one."""
    if wrong.kind in ("failed", "unparsed"):
        return wrong.prediction.reason
    return "" if wrong.grade is None or wrong.grade.reason == "unnamed" else wrong.grade.reason


def _judged(wrong: WrongAnswer, found: str) -> str:
    if wrong.grade is None:
        return f"Not graded; counted as {found}."
    reason = reason_of(wrong)
    meaning = f": {FAULTS.get(reason, readable(reason))}" if reason else ""
    named = {BASELINE: "The baseline grader, which uses rules,", "rule": "A fixed rule", "": "The judge"}
    return f"{named.get(wrong.grade.judge, f'The judge {wrong.grade.judge}')} found it {found}{meaning}."


def _finding(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    """Return what is wrong, by the kind of the wrong answer."""
    match wrong.kind:
        case "incorrect":
            return _judged(wrong, "incorrect")
        case "not_attempted":
            return _judged(wrong, "not to attempt an answer")
        case "false_refusal" if wrong.prediction.setting == "closed_book":
            return "The model declined to answer from memory."
        case "false_refusal":
            return "The model said that there is no answer, but the label has one."
        case "hallucinated":
            entity = question.entity
            about = f" It asks about “{entity}”, which the label does not mention." if entity else ""
            return (
                f"The label has no answer to this question, and the correct reply says so; the model answered.{about}"
            )
        case "unparsed":
            return "No answer could be parsed from the reply."
        case "unscored":
            reason = f": {readable(reason_of(wrong))}" if reason_of(wrong) else ""
            return f"No verdict was reached{reason}. This does not count as wrong; it is counted separately."
        case _:
            return "The model gave no reply. This does not count as wrong; it is counted separately."
