"""Evidence for claims: from labels, an index, a file of texts, or PubMed."""
