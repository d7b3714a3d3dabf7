"""A comparison of retrieval strategies as one self-contained HTML page."""

from fdarx_core.report.rag.page import RagResults, rag_page

__all__ = ["RagResults", "rag_page"]
