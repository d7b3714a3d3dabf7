"""Reads files as documents, splits them into chunks, and reads the passages of a run as chunks."""

from fdarx_core.documents.chunks import chunk_document as chunk_document
from fdarx_core.documents.chunks import chunk_label as chunk_label
from fdarx_core.documents.chunks import is_benchmark as is_benchmark
from fdarx_core.documents.chunks import read_documents as read_documents
from fdarx_core.documents.chunks import read_label_chunks as read_label_chunks
from fdarx_core.documents.chunks import split_text as split_text
