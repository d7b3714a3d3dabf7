"""Evidence to hold claims against: labels, an index, a file, PubMed."""

from fdarx_core.factuality.evidence.opening import EvidenceSpec, LocalEvidence, open_evidence
from fdarx_core.factuality.evidence.source import EvidenceSource, K, Query
from fdarx_core.factuality.evidence.stand_in import stand_in

__all__ = ["EvidenceSource", "EvidenceSpec", "K", "LocalEvidence", "Query", "open_evidence", "stand_in"]
