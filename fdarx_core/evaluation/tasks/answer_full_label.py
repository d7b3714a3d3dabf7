"""A question on the whole label, with citations. Source: FDARxBench §3.4, §B.6."""

from __future__ import annotations

from fdarx_core.evaluation.baseline.answering import from_passages
from fdarx_core.llm import TextTask

ANSWER_FULL_LABEL = TextTask.load("answer_full_label", from_passages)
