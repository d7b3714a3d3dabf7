"""Answers held against evidence, as a job: claims, passages, entailment, verdicts, scores and safety flags."""
