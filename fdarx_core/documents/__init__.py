"""Files to documents and their chunks, and a run's passages as chunks: what an index is made of."""

from fdarx_core.documents.chunks import chunks_of, chunks_of_label, is_benchmark, read_run
from fdarx_core.documents.cutting import cut
from fdarx_core.documents.reading import read_documents

__all__ = ["chunks_of", "chunks_of_label", "cut", "is_benchmark", "read_documents", "read_run"]
