"""How good the answers to answerable questions are. Source: FDARxBench §3.5, §B.7, §B.8."""

from __future__ import annotations

from fdarx_core.evaluation.aggregates.aggregate import (
    ANSWERABLE,
    EVERY,
    Aggregate,
    answerable_questions,
    averaged,
    every_row,
    portion,
    ratio,
    refused,
    understood,
)
from fdarx_core.evaluation.aggregates.columns import Columns, Mask, Numbers


def graded(columns: Columns) -> Mask:
    """Rows that have a verdict."""
    return understood(columns) & columns.is_in("grade", "correct", "incorrect", "not_attempted")


def accuracy(columns: Columns) -> Numbers:
    return portion(columns.is_in("grade", "correct"), graded(columns))


def not_attempted(columns: Columns) -> Numbers:
    return portion(columns.is_in("grade", "not_attempted"), graded(columns))


def attempts(columns: Columns) -> Mask:
    """Answerable questions but for those that the judge found not attempted."""
    return answerable_questions(columns) & ~columns.is_in("grade", "not_attempted")


def false_refusals(columns: Columns) -> Numbers:
    return portion(refused(columns), understood(columns))


def unparsed(columns: Columns) -> Numbers:
    return portion(columns.is_in("outcome", "unparsed"), every_row(columns))


def failed(columns: Columns) -> Numbers:
    return portion(columns.is_in("outcome", "failed"), every_row(columns))


def overlap(metric: str) -> Aggregate:
    """The mean of a text overlap with the gold answer, a column of Score; about nothing where no row has it."""

    def over(columns: Columns) -> Mask:
        return answerable_questions(columns) & columns.measured(metric)

    return Aggregate(metric, over, lambda columns: averaged(columns.number(metric)), ratio, ANSWERABLE)


ANSWERS: tuple[Aggregate, ...] = (
    Aggregate("accuracy", answerable_questions, accuracy, ratio, ANSWERABLE),
    Aggregate("accuracy_given_attempted", attempts, accuracy, ratio, ANSWERABLE),
    Aggregate("not_attempted_rate", answerable_questions, not_attempted, ratio, ANSWERABLE),
    Aggregate("false_refusal_rate", answerable_questions, false_refusals, ratio, ANSWERABLE),
    Aggregate("unparsed_rate", every_row, unparsed, ratio, EVERY),
    Aggregate("failed_rate", every_row, failed, ratio, EVERY),
    *map(overlap, ("bleu", "meteor", "rouge_l", "bert_score")),
)
