"""Experiment trackers, and what they are given of a run."""

from fdarx_core.tracking.run_log import TrackingFailed, log_run
from fdarx_core.tracking.tracker import Tracker
from fdarx_core.tracking.trackers import TRACKERS, TrackerSpec

__all__ = ["TRACKERS", "Tracker", "TrackerSpec", "TrackingFailed", "log_run"]
