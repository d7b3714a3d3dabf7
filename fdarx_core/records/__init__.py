"""The typed rows that travel, and their Arrow schemas. Every other room stands on this one."""

from fdarx_core.records.asking import Request, Response
from fdarx_core.records.codec import arrow_schema, from_table, to_table
from fdarx_core.records.evaluation import (
    Cell,
    Comparison,
    Equivalence,
    Figure,
    Grade,
    Prediction,
    Ranking,
    RetrievalScore,
    Score,
    Subject,
)
from fdarx_core.records.judging import Verdict
from fdarx_core.records.labels import Highlight, Label, Passage, Section
from fdarx_core.records.questions import NO_ANSWER, QuestionAnswer, Reject, StageCount, content_id
from fdarx_core.records.rag import (
    Chunk,
    Document,
    Found,
    RagAnswer,
    RagDifference,
    RagFigure,
    RagQuestion,
    RagScore,
    RagUsage,
    TitleRank,
)

__all__ = [
    "NO_ANSWER",
    "Cell",
    "Chunk",
    "Comparison",
    "Document",
    "Equivalence",
    "Figure",
    "Found",
    "Grade",
    "Highlight",
    "Label",
    "Passage",
    "Prediction",
    "QuestionAnswer",
    "RagAnswer",
    "RagDifference",
    "RagFigure",
    "RagQuestion",
    "RagScore",
    "RagUsage",
    "Ranking",
    "Reject",
    "Request",
    "Response",
    "RetrievalScore",
    "Score",
    "Section",
    "StageCount",
    "Subject",
    "TitleRank",
    "Verdict",
    "arrow_schema",
    "content_id",
    "from_table",
    "to_table",
]
