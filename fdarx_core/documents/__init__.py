"""Reads files as documents, splits them into chunks, and reads the passages of a run as chunks."""

from fdarx_core.documents.chunks import (
    chunk_document,
    chunk_label,
    is_benchmark,
    read_documents,
    read_label_chunks,
    split_text,
)

__all__ = ["chunk_document", "chunk_label", "is_benchmark", "read_documents", "read_label_chunks", "split_text"]
