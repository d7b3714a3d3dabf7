"""What a run gave, as one self-contained HTML page: counts, retention, figures with their numbers, samples."""

from fdarx_core.report.build_page import build_report

__all__ = ["build_report"]
