"""Benchmarks in other evaluation harnesses: packages for inspect and lm-eval, and the scores of replies given there."""
