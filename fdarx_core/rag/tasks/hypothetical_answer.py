"""An expert's answer from memory, to search with. Source: QA-RAG §2.3."""

from __future__ import annotations

from fdarx_core.llm import TextTask
from fdarx_core.rag.baseline.rewriting import hypothetical_answer

HYPOTHETICAL_ANSWER = TextTask.load("hypothetical_answer", hypothetical_answer)
