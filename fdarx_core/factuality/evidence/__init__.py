"""Evidence for claims: from labels, an index, a file of texts, or PubMed."""

from fdarx_core.factuality.evidence.sources import (
    ClaimQuery,
    EvidenceSource,
    EvidenceSpec,
    K,
    open_evidence,
    reference_evidence,
)

__all__ = ["ClaimQuery", "EvidenceSource", "EvidenceSpec", "K", "open_evidence", "reference_evidence"]
