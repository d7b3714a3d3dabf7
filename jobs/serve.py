"""The options of `fdarx serve`, which `jobs.service` carries out."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field, model_validator

from jobs import run_job
from jobs.cli import run_as
from jobs.options import RolesConfig
from serving.settings import ServiceSettings


class ServeConfig(ServiceSettings, RolesConfig):
    """Options of `fdarx serve`: its own, then those of its HTTP side."""

    index: list[str] = Field(default_factory=list)
    """[NAME=]INDEX, one or more indexes of `fdarx index`, on disk or s3://, and the names of their corpora (those of
    their folders); the first is searched if a request names none"""
    port: int = Field(8000, ge=1, le=65535)
    """port of the service"""
    host: str = "127.0.0.1"
    """address of the service; with 0.0.0.0 other machines can use it, so set keys"""
    replicas: int = Field(1, ge=1)
    """number of processes for each of HTTP, search and models; more use more cores, and more memory for indexes"""
    poll_s: float = Field(3.0, gt=0)
    """seconds between checks for a newer version of an index"""
    log: str | None = None
    """file for the log of requests, one line of JSON each (Ray's own logs)"""
    metrics_port: int | None = Field(None, ge=1, le=65535)
    """port for Prometheus on this machine (a free port); other machines do not reach it"""
    new_key: str | None = None
    """make an API key of this name, add its hash to --keys-file, and print the key"""

    @model_validator(mode="after")
    def _sensible(self) -> ServeConfig:
        if self.new_key is not None:
            if self.keys_file is None:
                raise ValueError("--new-key wants --keys-file, the file to add it to")
        elif not self.index:
            raise ValueError("--index is missing: give an index of `fdarx index`")
        return self


def serve(*, config: Annotated[ServeConfig | None, Parameter(name="*")] = None) -> int:
    """Run the service until Ctrl-C or SIGTERM; returns its exit code: 0 ended, 2 wrong argument."""
    config = config or ServeConfig()
    if config.new_key is None:  # what the service imports takes seconds
        print("starting: importing Ray and reading the indexes", file=sys.stderr, flush=True)
    return run_job("service", config)


if __name__ == "__main__":
    run_as("serve")
