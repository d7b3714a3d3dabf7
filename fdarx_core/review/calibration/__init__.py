"""Accuracy as people would find it, from a judge's verdicts on all answers and people's on a few."""
