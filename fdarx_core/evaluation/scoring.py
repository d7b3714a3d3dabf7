"""Grades of answers, by rule or by a judge, and the numbers of one prediction or ranking, from which metrics follow.

Source: FDARxBench §B.8, §C.1.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import dropwhile
from types import CodeType
from typing import Any, Literal

from fdarx_core.evaluation.gold import (
    RANKING_METRICS,
    STRICT,
    eq_hits,
    eq_right,
    equivalents_by_gold,
    gold_indices,
    gold_keys,
    passage_keys,
)
from fdarx_core.evaluation.metrics import AnswerFunction, Metric, added_metrics
from fdarx_core.evaluation.settings import FULL_LABEL, GIVEN_CONTEXT, RETRIEVED
from fdarx_core.evaluation.similarity import overlaps
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.llm import Note, Reply, Task, Undecided, Unparsable
from fdarx_core.records import (
    Equivalence,
    Grade,
    LabelSummary,
    Passage,
    Prediction,
    QuestionAnswer,
    Ranking,
    Response,
    RetrievalScore,
    Score,
    content_id,
)
from fdarx_core.text.numbers import extract_quantities, number_strings
from fdarx_core.text.tokens import content_words, normalize, vocabulary
from fdarx_core.verify import TextPair, verdict_of
from fdarx_core.verify.exact import sentences_of, words_of
from fdarx_core.verify.language_model import read_judged

FAULTS: dict[str, str] = vocabulary("fdarx_core.evaluation", "faults.yaml")
"""Descriptions of the names with which the reason of a grade other than CORRECT begins, for counting wrong answers."""


class GradeReply(Reply):
    """The reply of the judge. The reason comes first, so that the model derives the grade from it."""

    reason: Note
    grade: Literal["CORRECT", "INCORRECT", "NOT_ATTEMPTED"]


def baseline_grade(slots: Mapping[str, Any]) -> GradeReply:
    """Return the grade by quotation of the reference answer.

    The grade is CORRECT if the answer has all sentences of the reference, INCORRECT if the answer has other
    values in the units of the reference, or hardly a word and no number of the reference that the question has not, and
    NOT_ATTEMPTED if the answer has no words. Words of the question at the beginning of a sentence may be missing in
    either: "5 mg once daily" and "The starting dose is 5 mg once daily" answer "What is the starting dose?" alike.
    `slots` are those of the task grade_answer. Raises Undecided for other answers.
    """
    drug, question, gold, predicted = (str(slots[name]) for name in ("drug", "question", "gold", "predicted"))
    asked = frozenset(words_of(f"{question} {drug}"))
    answer, reference = (
        {bare for words in sentences_of(text) if (bare := tuple(dropwhile(asked.__contains__, words)))}
        for text in (predicted, gold)
    )
    if not any(word[0].isalnum() for word in words_of(predicted)):
        return GradeReply(reason="abstained: no words", grade="NOT_ATTEMPTED")
    if reference and reference <= answer:
        return GradeReply(reason="the same words in the same order", grade="CORRECT")
    if not answer & reference and (detail := _unrelated(gold, predicted, f"{question} {drug}")):
        return GradeReply(reason=f"key_content_missing: {detail}", grade="INCORRECT")
    raise Undecided(f"{len(reference - answer)} of {len(reference)} sentences of the reference are in other words")


_FEW_WORDS = 0.2
"""The share of the reference's words, without those of the question, below which an answer says something else."""
_FEWEST_WORDS = 6
"""Words of the reference, without those of the question, from which this share is taken."""


def _unrelated(gold: str, predicted: str, asked: str) -> str:
    """Return why an answer has nothing of the reference, "" where it may have.

    It has none of the reference's quantities but others in the same units, or hardly a word and no number of it.
    """
    reference, answer, question = (normalize(text, literal=True) for text in (gold, predicted, asked))
    due, stated = (set(_quantities(text)) - set(_quantities(question)) for text in (reference, answer))
    units = {unit for _, unit in due} & {unit for _, unit in stated}
    if units and not due & stated and not number_strings(reference) & number_strings(answer):
        return f"none of its values is a value of the reference, in {', '.join(sorted(units)) or 'plain numbers'}"
    words = content_words(reference) - content_words(question)
    shared = words & content_words(answer)
    numbers = number_strings(reference) - number_strings(question)
    if numbers & number_strings(answer) or len(words) < _FEWEST_WORDS or len(shared) >= _FEW_WORDS * len(words):
        return ""
    return f"it has {len(shared)} of {len(words)} words and none of {len(numbers)} numbers of the reference"


def _quantities(text: str) -> list[tuple[float, str]]:
    return [(quantity.value, quantity.unit) for quantity in extract_quantities(text)[0]]


GRADE_ANSWER = Task.load("grade_answer", GradeReply, baseline_grade)


BY_RULE = "rule"
"""The name of the judge in grades for which no judge was needed."""

_SHOWN = 200
"""Maximum number of characters of an answer to a refusal question in the detail of its grade."""


def grade_without_judge(question: QuestionAnswer, prediction: Prediction) -> Grade | None:
    """Return the grade of an answer that needs no judge, None for other answers.

    A refusal is not_attempted (refused), whether the question has an answer or not; an answer to a refusal question is
    incorrect (answered_unanswerable). An answer is unscored if there is no reply (no_answer) or if the reply could not
    be parsed (unparsed_answer).
    """
    if prediction.outcome == "failed" or (prediction.outcome == "answered" and not prediction.answer.strip()):
        return _grade(question, prediction, "unscored", "no_answer", prediction.reason)
    if prediction.outcome == "unparsed":
        return _grade(question, prediction, "unscored", "unparsed_answer", prediction.reason)
    if prediction.outcome == "refused":
        return _grade(question, prediction, "not_attempted", "refused")
    if not question.answerable:
        return _grade(question, prediction, "incorrect", "answered_unanswerable", prediction.answer[:_SHOWN])
    return None


def grading_slots(question: QuestionAnswer, prediction: Prediction) -> dict[str, Any]:
    """Return the slots of the task grade_answer."""
    answers = {"gold": question.answer, "predicted": prediction.answer}
    return {"drug": question.drug_name, "question": question.question, **answers}


def context_of(question: QuestionAnswer, prediction: Prediction, passages: Mapping[int, Passage]) -> TextPair | None:
    """Return an answer beside the context of its prompt where that judges it, None where the gold answer does."""
    if prediction.setting != GIVEN_CONTEXT:
        return None
    context = "\n\n".join(passages[index].text for index in prediction.shown)
    return TextPair(context, prediction.answer, question.drug_name, question.question)


def read_grade(
    question: QuestionAnswer, prediction: Prediction, response: Response, context: TextPair | None = None
) -> Grade:
    """Return the grade from the response of the judge; unscored, with the reason, if it cannot be parsed.

    With a `context`, the response is of the task judge_claim, and the outcome supported, contradicted or unsupported.
    """
    grade = _grade(question, prediction, "unscored")
    grade.judge, grade.task, grade.task_version = response.endpoint, response.task, response.task_version
    grade.response_key = response.key
    try:
        if context is not None:
            verdict = verdict_of(read_judged(response, [context])[0], response.endpoint)
            if verdict.verdict == "undecided":
                raise Unparsable("undecided", verdict.reason)
            grade.outcome, grade.detail = verdict.verdict, verdict.reason
            return grade
        reply = GRADE_ANSWER.parse(response)
    except Unparsable as error:
        grade.reason, grade.detail = error.reason, error.detail
        return grade
    grade.outcome, grade.detail = reply.grade.lower(), reply.reason
    if grade.outcome != "correct":  # its reason begins with a name of `FAULTS`
        name, colon, rest = reply.reason.partition(":")
        name = name.strip(" `\"'*").lower()
        known = colon and name in FAULTS
        grade.reason, grade.detail = (name, rest.strip()) if known else ("unnamed", reply.reason)
    return grade


def _grade(question: QuestionAnswer, prediction: Prediction, outcome: str, reason: str = "", detail: str = "") -> Grade:
    return Grade(prediction.id, question.id, question.set_id, outcome, reason, detail, judge=BY_RULE)


MARKED = frozenset({FULL_LABEL, RETRIEVED})
"""The settings whose prompts have passages with markers and ask for citations."""
OTHER_SECTION = "other"
_USAGE = ("prompt_tokens", "cached_tokens", "completion_tokens", "latency_s", "cost")


def question_features(
    question: QuestionAnswer, subject: LabelSummary, passages: Mapping[int, Passage]
) -> dict[str, Any]:
    """Return the fields of `Score` that describe the question: its cluster, and those from type to label_characters.

    `passages` are the available passages of the label, by doc_chunk_index. The section is the common name of the
    nearest section of the first gold passage that has one, or "other".
    """
    section = OTHER_SECTION
    if gold := gold_indices(question):
        codes = dict(zip(question.gold_passages, question.gold_codes, strict=False))
        code = passages[gold[0]].core_code if gold[0] in passages else codes.get(gold[0], "")
        section = SECTION_NAMES.get(code, OTHER_SECTION)
    return {
        "cluster": subject.drug or subject.set_id,
        "type": question.type,
        "answer_kind": question.answer_kind,
        "category": question.category,
        "section": section,
        "numeric": any(character.isdigit() for character in question.answer),
        "label_characters": subject.characters,
    }


def score(
    described: Mapping[str, Any],
    question: QuestionAnswer,
    prediction: Prediction,
    grade: Grade | None,
    equivalence: Equivalence | None,
    citing: Collection[str] = MARKED,
    added: Sequence[AnswerFunction | Metric] = (),
) -> Score:
    """Return the row of one prediction; `citing` are the settings whose citations are compared with gold passages.

    `added` are metrics besides those that FDARx and installed packages have.

    Citations and overlaps are for answerable questions that were answered or refused. A refusal cites nothing, and its
    words are compared with the gold answer. Source: FDARxBench §B.7.
    """
    understood = question.answerable and prediction.outcome in ("answered", "refused")
    gold, gold_shown = gold_keys(question), None
    cites = understood and bool(gold) and prediction.setting in citing
    if gold and (prediction.shown or prediction.cuts):  # else the prompt has no passages
        shown = passage_keys(prediction.set_id, prediction.shown, prediction.shown_set_ids)
        gold_shown = len(set(gold) & set(shown))
    citations: dict[str, Any] = {}
    if cites and prediction.outcome == "refused":
        citations = dict.fromkeys(("cited", "hits", "eq_hits", "eq_right"), 0)
    elif cites:  # a cited passage that was not shown counts as wrong
        cited = passage_keys(prediction.set_id, prediction.cited, prediction.cited_set_ids)
        equivalents = equivalents_by_gold(equivalence)
        citations = {
            "cited": len(cited) + prediction.cited_unknown,
            "hits": eq_hits(cited, gold, STRICT),
            "eq_hits": eq_hits(cited, gold, equivalents),
            "eq_right": eq_right(cited, gold, equivalents),
        }
    metrics = [metric for metric in added_metrics(tuple(added)).values() if metric.function]
    values = {metric.name: metric.number(question, prediction, grade) for metric in metrics}
    return Score(
        prediction_id=prediction.id,
        question_id=question.id,
        set_id=question.set_id,
        model=prediction.model,
        setting=prediction.setting,
        retriever=prediction.retriever,
        **described,
        outcome=prediction.outcome,
        grade=grade.outcome if grade else "",
        gold=len(gold),
        **citations,
        **(overlaps(prediction.answer, question.answer) if understood else {}),
        **{name: getattr(prediction, name) for name in _USAGE},
        cuts=prediction.cuts,
        gold_shown=gold_shown,
        extra={name: float(value) for name, value in values.items() if value is not None},
    )


def metric_digests(given: Iterable[AnswerFunction | Metric]) -> dict[str, str]:
    """Return a digest of the source of each metric that is given, by name, for what identifies a run."""
    digests: dict[str, str] = {}
    for metric in given:
        name = metric.name if isinstance(metric, Metric) else metric.__name__
        function: Any = metric.function if isinstance(metric, Metric) else metric
        code = getattr(inspect.unwrap(function), "__code__", None)
        try:  # the text of a function, or of the class of a callable object
            source = inspect.getsource(code or type(function))
        except (OSError, TypeError):
            source = _instructions(code) if code else repr(type(function))
        digests[name] = content_id(source)
    return digests


def _instructions(code: CodeType) -> str:
    constants = [
        _instructions(constant) if isinstance(constant, CodeType) else repr(constant) for constant in code.co_consts
    ]
    return "\n".join((code.co_code.hex(), *code.co_names, *constants))


def score_ranking(
    described: Mapping[str, Any], question: QuestionAnswer, ranking: Ranking, equivalence: Equivalence | None
) -> RetrievalScore | None:
    """Return the row of one ranking; None for a question without gold passages, such as a refusal question."""
    gold = gold_keys(question)
    if not gold:
        return None
    ranked = passage_keys(question.set_id, ranking.ranked, ranking.ranked_set_ids)
    numbers: dict[str, Any] = {
        f"{prefix}{name}": metric(ranked, gold, equivalents)
        for prefix, equivalents in (("", STRICT), ("eq_", equivalents_by_gold(equivalence)))
        for name, metric in RANKING_METRICS.items()
    }
    return RetrievalScore(
        question_id=question.id,
        set_id=question.set_id,
        retriever=ranking.retriever,
        **described,
        gold=len(gold),
        **numbers,
    )
