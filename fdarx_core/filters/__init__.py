"""Why a question is dropped: rules and duplicates."""

from fdarx_core.filters.duplicates import drop_duplicates
from fdarx_core.filters.rules import RULES, Evidence, first_failure

__all__ = ["RULES", "Evidence", "drop_duplicates", "first_failure"]
