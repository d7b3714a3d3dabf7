"""SPL XML to labels and passages: find the files, identify and select the documents, parse them."""

from fdarx_core.labels.parse import ParsedLabel, parse_document, parse_label, read_labels
from fdarx_core.labels.selection import Identity, Selection, find_sources, identify, read_source, select
from fdarx_core.labels.xml import BadDocument
from fdarx_core.storage.sources import Source, read_document

__all__ = [
    "BadDocument",
    "Identity",
    "ParsedLabel",
    "Selection",
    "Source",
    "find_sources",
    "identify",
    "parse_document",
    "parse_label",
    "read_document",
    "read_labels",
    "read_source",
    "select",
]
