"""Reports of runs as self-contained HTML pages: counts, retention, figures with their numbers, samples."""

from fdarx_core.report.build_page import build_report as build_report
from fdarx_core.report.questions_page import questions_page as questions_page
