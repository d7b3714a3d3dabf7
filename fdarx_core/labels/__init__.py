"""SPL XML to Label and Passages: from a file in any wrapping to citable pieces of text."""

from fdarx_core.labels.parse import parse_label
from fdarx_core.labels.xml import BadDocument

__all__ = ["BadDocument", "parse_label"]
