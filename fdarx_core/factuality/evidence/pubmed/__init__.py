"""Evidence from PubMed, by Entrez: asked over the network like a model, and kept like a model's answers."""

from fdarx_core.factuality.evidence.pubmed.endpoint import PubMed
from fdarx_core.factuality.evidence.pubmed.settings import NAME, PubMedSettings
from fdarx_core.factuality.evidence.pubmed.task import YEARS, read_abstracts, search_request

__all__ = ["NAME", "YEARS", "PubMed", "PubMedSettings", "read_abstracts", "search_request"]
