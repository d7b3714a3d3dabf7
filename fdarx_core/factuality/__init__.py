"""Factuality of answers: claims, evidence, entailment, safety flags, Fact-Aligned Score."""
