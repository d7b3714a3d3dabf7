"""A question on the passages that a retriever found, with citations. Source: FDARxBench §3.4, §B.6."""

from __future__ import annotations

from fdarx_core.evaluation.baseline.answering import from_passages
from fdarx_core.llm import TextTask

ANSWER_RETRIEVED = TextTask.load("answer_retrieved", from_passages)
