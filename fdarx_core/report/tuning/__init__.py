"""The page of a fine-tuning."""

from fdarx_core.report.tuning.page import TuningResults, tuning_page

__all__ = ["TuningResults", "tuning_page"]
