"""Runs in Weights & Biases: on its server, or in a folder that `wandb sync` sends later (WANDB_MODE=offline)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fdarx_core.storage import Location, read_table
from fdarx_core.tracking.tracker import check_library

_INIT_S, _FINISH_S = 30.0, 300.0
"""Seconds until a server that does not answer is given up: at the start, and while files are sent."""


class WandbTracker:
    """A run in a project. The key is read by the library, for example from WANDB_API_KEY.

    The library is kept from logging this process: its arguments, console, code, packages and machine.
    """

    def __init__(self, address: str) -> None:
        """`address` is PROJECT or ENTITY/PROJECT. Raises ValueError for another, or where wandb is not installed."""
        check_library("wandb")
        *entity, self._project = address.split("/")
        if len(entity) > 1 or not self._project or "" in entity:
            raise ValueError(f"wandb:{address} does not name a project; write wandb:PROJECT or wandb:ENTITY/PROJECT")
        self._entity = entity[0] if entity else None
        self._run: Any = None

    def start(self, run_id: str | None, *, name: str, job: str, tags: Mapping[str, str]) -> str:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        if wandb.setup().settings.mode == "online" and not wandb.login(prompt=False):
            raise RuntimeError("there is no key; set WANDB_API_KEY, or WANDB_MODE=offline")
        self._run = wandb.init(
            entity=self._entity,
            project=self._project,
            id=run_id,
            resume="allow",
            name=name,
            job_type=job,
            config=dict(tags),
            reinit="create_new",
            settings=_settings(),
        )
        return str(self._run.id)

    def log_params(self, params: Mapping[str, str]) -> None:
        self._run.config.update(dict(params), allow_val_change=True)

    def log_metrics(self, metrics: Mapping[str, float], at: int) -> None:
        self._run.log(dict(metrics), commit=False)  # figures and tables are one step

    def log_table(self, file: Path) -> None:
        """Log a table that can be shown; a file with more rows than that is logged as an artifact."""
        import wandb

        table = read_table(Location(file))
        if table.num_rows > wandb.Table.MAX_ROWS:
            self.log_artifact(file)
        else:
            rows = [list(row.values()) for row in table.to_pylist()]
            self._run.log({f"tables/{file.stem}": wandb.Table(columns=table.column_names, data=rows)}, commit=False)

    def log_artifact(self, file: Path) -> None:
        import wandb

        artifact = wandb.Artifact(f"{self._run.id}-{file.stem}", type=file.suffix.removeprefix("."))
        artifact.add_file(str(file))
        self._run.log_artifact(artifact)

    def finish(self, *, complete: bool) -> str:
        if self._run is None:
            return ""
        self._run.finish(exit_code=0 if complete else 1)
        return str(Path(self._run.dir).parent if self._run.offline else self._run.url)


def _settings() -> Any:
    import wandb

    return wandb.Settings(
        silent=True,
        console="off",
        disable_code=True,
        disable_git=True,
        save_code=False,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
        init_timeout=_INIT_S,
        finish_timeout=_FINISH_S,
        finish_timeout_raises=True,
    )
