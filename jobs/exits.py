"""Exit codes that all jobs share; 2 is that of wrong arguments (`jobs.options`)."""

from __future__ import annotations

STOPPED = 3
"""Something was left open that running again may finish."""

INTERRUPTED = 130
