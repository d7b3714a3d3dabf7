"""The answer to a question from numbered contexts. Source: QA-RAG §2.5."""

from __future__ import annotations

from fdarx_core.llm import TextTask
from fdarx_core.rag.baseline.answering import from_contexts

ANSWER_WITH_CITATIONS = TextTask.load("answer_with_citations", from_contexts)
