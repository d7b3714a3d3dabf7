"""When a server over HTTP wants to be asked again: all rooms that ask one read it alike."""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime


def retry_after(value: str | None) -> float | None:
    """Seconds to wait by a Retry-After header, which holds seconds or a date; None where it holds neither."""
    try:
        seconds = float(value or "")
    except ValueError:
        seconds = _seconds_until(value or "")
    return max(0.0, seconds) if seconds < float("inf") else None


def _seconds_until(date: str) -> float:
    try:
        until = parsedate_to_datetime(date)
    except ValueError:
        return float("inf")
    until = until if until.tzinfo else until.replace(tzinfo=timezone.utc)
    return (until - datetime.now(timezone.utc)).total_seconds()
