"""The pages on which people judge, and what came of it."""

from fdarx_core.report.review.annotator import annotator_page

__all__ = ["annotator_page"]
