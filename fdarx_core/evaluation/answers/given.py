"""An answer made elsewhere, understood as a Prediction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fdarx_core.evaluation.answers.reading import read_reply
from fdarx_core.records import Passage, Prediction, QuestionAnswer, content_id
from fdarx_core.storage.predictions_file import GivenAnswer


def citing_settings(answers: Iterable[GivenAnswer]) -> frozenset[str]:
    """The settings in which any answer cites: there, one without citations counts as such.

    Where nobody was asked for any, none are missing.
    """
    return frozenset(one.setting for one in answers if one.cited or read_reply(one.text, {}).unknown)


def read_given(question: QuestionAnswer, passages: Sequence[Passage], given: GivenAnswer) -> Prediction:
    """What someone's model said to a question on the label of these passages, which it may cite all.

    Citations that the row names apart from the text stand in for those in the text.
    """
    numbered = {passage.doc_chunk_index: passage for passage in passages}
    reading = read_reply(given.text, numbered)
    cited, unknown = [passage.doc_chunk_index for passage in reading.cited], reading.unknown
    if given.cited is not None:
        named = list(dict.fromkeys(given.cited))
        cited = [index for index in named if index in numbered]
        unknown = len(named) - len(cited)
    return Prediction(
        id=content_id(question.id, given.model, given.setting, given.retriever),
        question_id=question.id,
        set_id=question.set_id,
        model=given.model,
        setting=given.setting,
        retriever=given.retriever,
        outcome=reading.outcome,
        answer=reading.answer,
        text=given.text,
        reason=reading.reason,
        cited=cited,
        cited_unknown=unknown,
    )
