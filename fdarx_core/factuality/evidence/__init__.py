"""Evidence for claims: from labels, an index, a file of texts, or PubMed."""

from fdarx_core.factuality.evidence.sources import (
    EvidenceSource,
    K,
    open_evidence,
    parse_evidence,
    reference_evidence,
)
from fdarx_core.factuality.evidence.subjects import ClaimQuery

__all__ = ["ClaimQuery", "EvidenceSource", "K", "open_evidence", "parse_evidence", "reference_evidence"]
