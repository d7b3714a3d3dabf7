"""A versioned search index on a disk or on s3://, and the same in memory."""

from fdarx_core.retrieval.encoder_info import EncoderInfo
from fdarx_core.retrieval.index.errors import IndexConflict, IndexDamaged, IndexMissing
from fdarx_core.retrieval.index.index import Index
from fdarx_core.retrieval.index.manifest import Manifest
from fdarx_core.retrieval.index.only import Only
from fdarx_core.retrieval.index.store import IndexStore

__all__ = [
    "EncoderInfo",
    "Index",
    "IndexConflict",
    "IndexDamaged",
    "IndexMissing",
    "IndexStore",
    "Manifest",
    "Only",
]
