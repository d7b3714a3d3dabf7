"""A question from memory alone. Source: FDARxBench §3.4, §B.6."""

from __future__ import annotations

from fdarx_core.evaluation.baseline.answering import from_memory
from fdarx_core.llm import TextTask

ANSWER_CLOSED_BOOK = TextTask.load("answer_closed_book", from_memory)
