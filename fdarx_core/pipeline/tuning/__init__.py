"""Fine-tuning on Ray Train."""

from __future__ import annotations

import os

os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "Failed to query Ray Train Controller actor state")
"""Ray, which reads this when it is imported, would say so every second where it runs without a dashboard."""
