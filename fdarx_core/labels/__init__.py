"""SPL XML to Label and Passages: from a file in any wrapping to citable pieces of text."""

from fdarx_core.labels.identify import Identity, identify
from fdarx_core.labels.parse import parse_label
from fdarx_core.labels.selection import Selection, select
from fdarx_core.labels.sources import MissingInput, Source, find_sources, read_document, read_source
from fdarx_core.labels.xml import BadDocument
from fdarx_core.storage.archives import BadSource

__all__ = [
    "BadDocument",
    "BadSource",
    "Identity",
    "MissingInput",
    "Selection",
    "Source",
    "find_sources",
    "identify",
    "parse_label",
    "read_document",
    "read_source",
    "select",
]
