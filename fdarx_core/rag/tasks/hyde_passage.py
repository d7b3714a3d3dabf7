"""A made-up passage that would answer a question, to search with. Source: QA-RAG §3.4; Gao et al. 2022."""

from __future__ import annotations

from fdarx_core.llm import TextTask
from fdarx_core.rag.baseline.rewriting import made_up_passage

HYDE_PASSAGE = TextTask.load("hyde_passage", made_up_passage)
