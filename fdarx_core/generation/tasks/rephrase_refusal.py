"""A refusal question in other words. Source: FDARxBench §B.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.generation.baseline.refusal import rephrase
from fdarx_core.llm import Reply, Task


class RephraseReply(Reply):
    """The same question in other words, drug and entity kept."""

    question: str


def by_rules(slots: Mapping[str, Any]) -> RephraseReply:
    """The baseline's answer."""
    return RephraseReply(question=rephrase(slots))


REPHRASE_REFUSAL = Task.load("rephrase_refusal", RephraseReply, by_rules)
