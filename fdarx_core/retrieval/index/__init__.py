"""A versioned search index, on a disk or on S3, and its readers and writers."""

from fdarx_core.retrieval.index.chunk_table import ChunkFilter as ChunkFilter
from fdarx_core.retrieval.index.chunk_table import FilterValue as FilterValue
from fdarx_core.retrieval.index.label_drugs import NameCompletion as NameCompletion
from fdarx_core.retrieval.index.label_sections import find_section as find_section
from fdarx_core.retrieval.index.reader import IndexReader as IndexReader
from fdarx_core.retrieval.index.segments import IndexDamaged as IndexDamaged
from fdarx_core.retrieval.index.segments import Manifest as Manifest
from fdarx_core.retrieval.index.store import IndexStore as IndexStore
