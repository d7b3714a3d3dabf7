"""A versioned search index, on a disk or on S3, and its readers and writers."""

from fdarx_core.retrieval.encoders import EncoderInfo
from fdarx_core.retrieval.index.chunk_table import ChunkFilter
from fdarx_core.retrieval.index.reader import IndexReader
from fdarx_core.retrieval.index.segments import IndexDamaged, Manifest
from fdarx_core.retrieval.index.store import IndexStore

__all__ = [
    "ChunkFilter",
    "EncoderInfo",
    "IndexDamaged",
    "IndexReader",
    "IndexStore",
    "Manifest",
]
