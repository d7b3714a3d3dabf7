"""A scoring of answers' factuality as one self-contained HTML page."""

from fdarx_core.report.factuality.page import factuality_page
from fdarx_core.report.factuality.results import ExaminedAnswer, FactualityResults, Method

__all__ = ["ExaminedAnswer", "FactualityResults", "Method", "factuality_page"]
