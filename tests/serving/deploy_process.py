"""Deploys a Serve config as the dashboard does for `serve deploy`, asks one question, and prints what became of it.

python tests/serving/deploy_process.py CONFIG.yaml
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import orjson
import ray
import yaml
from ray import serve
from ray.serve._private.common import ReplicaState
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

from tests.serving.editions import QUESTION


def main() -> None:
    config = yaml.safe_load(Path(sys.argv[1]).read_text())
    schema = ServeDeploySchema.model_validate(config)
    ray.init(address="local", include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": str(Path.cwd())}})
    serve.start(http_options=config["http_options"])
    client = _get_global_client()
    assert client is not None
    client.deploy_apps(schema)
    _await_running()
    print(_replicas())
    print(_answer(f"http://127.0.0.1:{config['http_options']['port']}/v1/answers"))
    ray.shutdown()


def _await_running() -> None:
    end = time.monotonic() + 180
    while (app := serve.status().applications.get("qa-rag")) is None or app.status != "RUNNING":
        if time.monotonic() > end or (app and app.status == "DEPLOY_FAILED"):
            raise SystemExit(f"not running: {app}")
        time.sleep(0.3)


def _replicas() -> str:
    deployments = serve.status().applications["qa-rag"].deployments
    return ", ".join(f"{name} {one.replica_states[ReplicaState.RUNNING]}" for name, one in sorted(deployments.items()))


def _answer(url: str) -> str:
    import urllib.request

    body = orjson.dumps({"question": QUESTION})
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return str(orjson.loads(reply.read())["answer"])


if __name__ == "__main__":
    main()
