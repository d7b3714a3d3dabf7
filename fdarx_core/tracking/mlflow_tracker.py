"""Runs in MLflow: on a tracking server, or in a database such as sqlite:///mlflow.db."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fdarx_core.tracking.tracker import check_library

_EXPERIMENT_VARIABLE, _EXPERIMENT = "MLFLOW_EXPERIMENT_NAME", "fdarx"
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Variables of the library that are set unless the user has set them. By its own defaults, a server that is down is
tried again for minutes, and addresses are printed with their password."""
_METRICS_PER_REQUEST, _PARAMS_PER_REQUEST = 1000, 100
"""Limits of MLflow's REST API."""


class MlflowTracker:
    """A run in the experiment `fdarx`, or in that of MLFLOW_EXPERIMENT_NAME.

    MLflow reads credentials from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN.
    """

    def __init__(self, address: str) -> None:
        """`address` is a tracking URI. Raises ValueError where mlflow is not installed."""
        check_library("mlflow")
        self._address = address
        self._client: Any = None
        self._run_id = self._experiment_id = ""

    def start(self, run_id: str | None, *, name: str, job: str, tags: Mapping[str, str]) -> str:
        for variable, value in _DEFAULTS.items():
            os.environ.setdefault(variable, value)
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=self._address)
        if run_id is None:
            run = self._client.create_run(self._find_experiment(), run_name=name)
        else:
            self._client.update_run(run_id, status="RUNNING")
            run = self._client.get_run(run_id)
        self._run_id, self._experiment_id = run.info.run_id, run.info.experiment_id
        for tag, value in {"job": job, **tags}.items():
            self._client.set_tag(self._run_id, tag, value)
        return self._run_id

    def log_params(self, params: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        rows = [Param(name, value) for name, value in params.items()]
        for first in range(0, len(rows), _PARAMS_PER_REQUEST):
            self._client.log_batch(self._run_id, params=rows[first : first + _PARAMS_PER_REQUEST])

    def log_metrics(self, metrics: Mapping[str, float], at: int) -> None:
        from mlflow.entities import Metric

        rows = [Metric(name, value, at, 0) for name, value in metrics.items()]
        for first in range(0, len(rows), _METRICS_PER_REQUEST):
            self._client.log_batch(self._run_id, metrics=rows[first : first + _METRICS_PER_REQUEST])

    def log_table(self, file: Path) -> None:
        self._client.log_artifact(self._run_id, str(file), "tables")

    def log_artifact(self, file: Path) -> None:
        self._client.log_artifact(self._run_id, str(file))

    def finish(self, *, complete: bool) -> str:
        if not self._run_id:
            return ""
        self._client.set_terminated(self._run_id, "FINISHED" if complete else "FAILED")
        if not self._address.startswith("http"):
            return ""
        return f"{self._address.rstrip('/')}/#/experiments/{self._experiment_id}/runs/{self._run_id}"

    def _find_experiment(self) -> str:
        name = os.environ.get(_EXPERIMENT_VARIABLE) or _EXPERIMENT
        found = self._client.get_experiment_by_name(name)
        return str(found.experiment_id if found else self._client.create_experiment(name))
