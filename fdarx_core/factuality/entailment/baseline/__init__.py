"""The rules by which the baseline judges entailment: words, numbers, populations and polarity, no model."""
