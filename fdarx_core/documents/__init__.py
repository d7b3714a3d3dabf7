"""Files to documents and their chunks, and a run's passages as chunks: what an index is made of."""

from fdarx_core.documents.chunks import chunk_document, chunk_label, is_benchmark, read_label_chunks, split_text
from fdarx_core.documents.reading import read_documents

__all__ = ["chunk_document", "chunk_label", "is_benchmark", "read_documents", "read_label_chunks", "split_text"]
