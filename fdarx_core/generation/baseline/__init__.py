"""The rule-based question writer behind the `baseline` endpoint."""

from fdarx_core.generation.baseline.factual import factual_questions

__all__ = ["factual_questions"]
