"""Grades of answers, by rule or by a judge, and the numbers of one prediction or ranking, from which metrics follow.

Source: FDARxBench §B.8, §C.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from itertools import dropwhile
from typing import Any, Literal

from fdarx_core.baseline.numbers import extract_quantities, number_strings
from fdarx_core.baseline.tokens import content_words, normalize, vocabulary
from fdarx_core.evaluation.gold import PassageKey, equivalents_by_gold, gold_indices, gold_keys, passage_keys
from fdarx_core.evaluation.metrics import added_metrics
from fdarx_core.evaluation.ranking import STRICT, eq_hits, eq_right, f1_at, ndcg_at, recall_at, reciprocal_rank
from fdarx_core.evaluation.settings import FULL_LABEL, RETRIEVED
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
)
from fdarx_core.verify.exact import sentences_of, words_of

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
    either. `slots` are those of the task grade_answer. Raises Undecided for other answers.
    """
    drug, question, gold, predicted = (str(slots[name]) for name in ("drug", "question", "gold", "predicted"))
    asked = frozenset(words_of(f"{question} {drug}"))
    answer, reference = (
        {bare for one in sentences_of(text) if (bare := _without_asked(one, asked))} for text in (predicted, gold)
    )
    if not any(word[0].isalnum() for word in words_of(predicted)):
        return GradeReply(reason="abstained: no words", grade="NOT_ATTEMPTED")
    if reference and reference <= answer:
        return GradeReply(reason="the same words in the same order", grade="CORRECT")
    if not answer & reference and (detail := _unrelated(gold, predicted, f"{question} {drug}")):
        return GradeReply(reason=f"key_content_missing: {detail}", grade="INCORRECT")
    raise Undecided(f"{len(reference - answer)} of {len(reference)} sentences of the reference are in other words")


def _without_asked(sentence: tuple[str, ...], asked: Set[str]) -> tuple[str, ...]:
    """Return the sentence without the words of the question at its beginning.

    "5 mg once daily" and "The starting dose is 5 mg once daily" give the same answer to "What is the starting dose?".
    """
    return tuple(dropwhile(lambda word: word in asked, sentence))


_FEW_WORDS = 0.2
"""The share of the reference's words, without those of the question, below which an answer says something else."""
_FEWEST_WORDS = 6
"""Words of the reference, without those of the question, from which this share is taken."""


def _unrelated(gold: str, predicted: str, asked: str) -> str:
    """Return why an answer has nothing of the reference, "" where it may have.

    It has none of the reference's quantities but others in the same units, or hardly a word and no number of it.
    """
    reference, answer, question = (normalize(text, literal=True) for text in (gold, predicted, asked))
    due, given = (set(_quantities(text)) - set(_quantities(question)) for text in (reference, answer))
    units = {unit for _, unit in due} & {unit for _, unit in given}
    if units and not due & given and not number_strings(reference) & number_strings(answer):
        return f"none of its values is a value of the reference, in {', '.join(sorted(units)) or 'plain numbers'}"
    words = content_words(reference) - content_words(question)
    shared = words & content_words(answer)
    numbers = number_strings(reference) - number_strings(question)
    if numbers & number_strings(answer) or len(words) < _FEWEST_WORDS or len(shared) >= _FEW_WORDS * len(words):
        return ""
    return f"it has {len(shared)} of {len(words)} words and none of {len(numbers)} numbers of the reference"


def _quantities(text: str) -> list[tuple[float, str]]:
    return [(one.value, one.unit) for one in extract_quantities(text)[0]]


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
    if question.type == "refusal":
        return _grade(question, prediction, "incorrect", "answered_unanswerable", prediction.answer[:_SHOWN])
    return None


def grading_slots(question: QuestionAnswer, prediction: Prediction) -> dict[str, Any]:
    """Return the slots of the task grade_answer."""
    return {
        "drug": question.drug_name,
        "question": question.question,
        "gold": question.answer,
        "predicted": prediction.answer,
    }


def read_grade(question: QuestionAnswer, prediction: Prediction, response: Response) -> Grade:
    """Return the grade from the response of the judge; unscored, with the reason, if it cannot be parsed."""
    grade = _grade(question, prediction, "unscored")
    grade.judge, grade.task, grade.task_version = response.endpoint, response.task, response.task_version
    grade.response_key = response.key
    try:
        reply = GRADE_ANSWER.parse(response)
    except Unparsable as error:
        grade.reason, grade.detail = error.reason, error.detail
        return grade
    grade.outcome, grade.detail = reply.grade.lower(), reply.reason
    if grade.outcome != "correct":
        grade.reason, grade.detail = _named(reply.reason)
    return grade


def _named(reason: str) -> tuple[str, str]:
    """Split the reason of a judge into a name of `FAULTS` and the rest; the name is `unnamed` if it has none."""
    name, colon, rest = reason.partition(":")
    name = name.strip(" `\"'*").lower()
    return (name, rest.strip()) if colon and name in FAULTS else ("unnamed", reason)


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
    return {
        "cluster": subject.drug or subject.set_id,
        "type": question.type,
        "answer_kind": question.answer_kind,
        "category": question.category,
        "section": _section(question, passages),
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
) -> Score:
    """Return the row of one prediction; `citing` are the settings whose citations are compared with gold passages.

    Citations and overlaps are for answerable questions that were answered or refused. A refusal cites nothing, and its
    words are compared with the gold answer. Source: FDARxBench §B.7.
    """
    understood = question.type != "refusal" and prediction.outcome in ("answered", "refused")
    gold = gold_keys(question)
    cites = understood and bool(gold) and prediction.setting in citing
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
        **(_citations(prediction, gold, equivalents_by_gold(equivalence)) if cites else {}),
        **(overlaps(prediction.answer, question.answer) if understood else {}),
        **{name: getattr(prediction, name) for name in _USAGE},
        cuts=prediction.cuts,
        gold_shown=_gold_shown(prediction, gold),
        extra=_added_scores(question, prediction, grade),
    )


def score_ranking(
    described: Mapping[str, Any], question: QuestionAnswer, ranking: Ranking, equivalence: Equivalence | None
) -> RetrievalScore | None:
    """Return the row of one ranking; None for a question without gold passages, such as a refusal question."""
    gold = gold_keys(question)
    if not gold:
        return None
    ranked = passage_keys(question.set_id, ranking.ranked, ranking.ranked_set_ids)
    return RetrievalScore(
        question_id=question.id,
        set_id=question.set_id,
        retriever=ranking.retriever,
        **described,
        gold=len(gold),
        **_ranking_scores(ranked, gold, STRICT, ""),
        **_ranking_scores(ranked, gold, equivalents_by_gold(equivalence), "eq_"),
    )


def _gold_shown(prediction: Prediction, gold: list[PassageKey]) -> int | None:
    """Return how many gold passages the prompt had; None without gold passages, and for a prompt without passages."""
    if not gold or not (prediction.shown or prediction.cuts):
        return None
    return len(set(gold) & set(passage_keys(prediction.set_id, prediction.shown, prediction.shown_set_ids)))


def _added_scores(question: QuestionAnswer, prediction: Prediction, grade: Grade | None) -> dict[str, float]:
    """Return the numbers that metrics of other packages give to the answer, by the metrics' names."""
    scorers = {name: metric.score for name, metric in added_metrics().items() if metric.score}
    values = {name: scorer(question, prediction, grade) for name, scorer in scorers.items()}
    return {name: float(value) for name, value in values.items() if value is not None}


def _section(question: QuestionAnswer, passages: Mapping[int, Passage]) -> str:
    gold = gold_indices(question)
    if not gold:
        return OTHER_SECTION
    if gold[0] in passages:
        return SECTION_NAMES.get(passages[gold[0]].core_code, OTHER_SECTION)
    codes = dict(zip(question.gold_passages, question.gold_codes, strict=False))
    return SECTION_NAMES.get(codes.get(gold[0], ""), OTHER_SECTION)


def _citations(
    prediction: Prediction, gold: list[PassageKey], equivalents: Mapping[PassageKey, Collection[PassageKey]]
) -> dict[str, Any]:
    """Return the counts of citations; a cited passage that was not shown counts as wrong."""
    if prediction.outcome == "refused":
        return dict.fromkeys(("cited", "hits", "eq_hits", "eq_right"), 0)
    cited = passage_keys(prediction.set_id, prediction.cited, prediction.cited_set_ids)
    return {
        "cited": len(cited) + prediction.cited_unknown,
        "hits": eq_hits(cited, gold, STRICT),
        "eq_hits": eq_hits(cited, gold, equivalents),
        "eq_right": eq_right(cited, gold, equivalents),
    }


def _ranking_scores(
    ranked: list[PassageKey],
    gold: list[PassageKey],
    equivalents: Mapping[PassageKey, Collection[PassageKey]],
    prefix: str,
) -> dict[str, Any]:
    scores = {f"recall_{k}": recall_at(k, ranked, gold, equivalents) for k in (1, 5, 10)}
    scores["recall_gold"] = recall_at(len(gold), ranked, gold, equivalents)
    scores["f1_gold"] = f1_at(len(gold), ranked, gold, equivalents)
    scores["mrr"] = reciprocal_rank(ranked, gold, equivalents)
    scores["ndcg_10"] = ndcg_at(10, ranked, gold, equivalents)
    return {f"{prefix}{name}": value for name, value in scores.items()}
