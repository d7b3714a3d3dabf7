"""Whether an answer's claims hold against evidence: claims, evidence, entailment, safety flags, Fact-Aligned Score."""
