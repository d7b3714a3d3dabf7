"""Evidence for claims: from labels, an index, a file of texts, or PubMed."""

from fdarx_core.factuality.evidence.sources import EvidenceSource as EvidenceSource
from fdarx_core.factuality.evidence.sources import K as K
from fdarx_core.factuality.evidence.sources import open_evidence as open_evidence
from fdarx_core.factuality.evidence.sources import parse_evidence as parse_evidence
from fdarx_core.factuality.evidence.sources import reference_evidence as reference_evidence
from fdarx_core.factuality.evidence.subjects import ClaimQuery as ClaimQuery
