"""Why a question is dropped: rules and duplicates."""

from fdarx_core.filters.rules import RULES, LabelEvidence, drop_duplicates, first_failure

__all__ = ["RULES", "LabelEvidence", "drop_duplicates", "first_failure"]
