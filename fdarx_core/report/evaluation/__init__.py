"""An evaluation's report, and several evaluations side by side, each as one self-contained HTML page."""

from fdarx_core.report.evaluation.answers import find_answers, tell_answers
from fdarx_core.report.evaluation.compare import build_comparison_page, row_name, run_names
from fdarx_core.report.evaluation.page import build_evaluation_report

__all__ = ["build_comparison_page", "build_evaluation_report", "find_answers", "row_name", "run_names", "tell_answers"]
