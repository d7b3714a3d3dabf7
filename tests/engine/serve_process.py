"""A Ray head of its own with served models behind one HTTP proxy, until standard input ends.

python -m tests.engine.serve_process PORT METRICS_PORT CPUS READY FILE…, by the engine's interpreter; writes the file
READY once all models answer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ray
from ray import serve

from serving.models import build
from serving.served_model import load_served


def main(port: str, metrics: str, cpus: str, ready: str, *files: str) -> None:
    ray.init(
        address="local",
        include_dashboard=False,
        num_cpus=int(cpus),
        object_store_memory=200_000_000,
        _metrics_export_port=int(metrics),
    )
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
        for model in map(load_served, files):
            serve.run(build(model), name=model.name, route_prefix=f"/{model.name}")
        Path(ready).touch()
        sys.stdin.read()
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
