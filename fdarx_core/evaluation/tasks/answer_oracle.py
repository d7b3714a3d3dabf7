"""A question on the passages that hold its answer. Source: FDARxBench §3.4, §B.6."""

from __future__ import annotations

from fdarx_core.evaluation.baseline.answering import from_gold
from fdarx_core.llm import TextTask

ANSWER_ORACLE = TextTask.load("answer_oracle", from_gold)
