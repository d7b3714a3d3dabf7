"""Grafana's dashboard asks Prometheus only for what we, vLLM or Ray tell it, and by labels that are there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import ray
from ray.dashboard.modules.reporter.reporter_agent import METRICS_GAUGES

from fdarx_core.pipeline.metrics import COUNTERS, GAUGES
from serving.metrics import METRICS, metric_of
from tests.conftest import REPOSITORY

DASHBOARD: dict[str, Any] = json.loads((REPOSITORY / "cluster" / "grafana" / "fdarx.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
ADDED = {"instance", "WorkerId", "le"}
"""Labels of any metric: those that Ray and Prometheus add, and a histogram's."""
LISTED = {
    "ray_vllm_num_requests_running": {"model_name"},
    "ray_vllm_num_requests_waiting": {"model_name"},
    "ray_vllm_kv_cache_usage_perc": {"model_name"},
    "ray_vllm_prefix_cache_hits_total": {"model_name"},
    "ray_vllm_prefix_cache_queries_total": {"model_name"},
    "ray_vllm_prompt_tokens_total": {"model_name"},
    "ray_vllm_generation_tokens_total": {"model_name"},
    "ray_vllm_time_to_first_token_seconds_bucket": {"model_name"},
    "ray_node_gpus_utilization": {"GpuIndex"},
    "ray_node_gram_used": {"GpuIndex"},
    "ray_object_store_memory": {"Location"},
    "ray_node_manager_unexpected_worker_failure_total": set(),
    "ray_cluster_active_nodes": set(),
    "ray_cluster_pending_nodes": set(),
    "ray_cluster_failed_nodes": set(),
}
"""Metrics of others that are worth a place, with their labels."""


def ours() -> dict[str, set[str]]:
    """Every metric that we define, as Prometheus names it, with its labels."""
    known = {f"ray_{name}_total": set(tags) for name, (_, tags) in COUNTERS.items()}
    known |= {f"ray_{name}": {"run", "model"} for name in GAUGES}
    suffixes = {"Counter": "_total", "Gauge": "", "Histogram": "_bucket"}
    for name, (kind, _, _) in METRICS.items():
        known[f"ray_{name}{suffixes[kind.__name__]}"] = set(metric_of(name).info["tag_keys"])
    return known


def expressions() -> Iterator[str]:
    for panel in PANELS:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "5m").replace("$run", ".*")


def parts(node: Any) -> Iterator[Any]:
    """The expression and all within it."""
    yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "args"):
        below = getattr(node, name, None)
        for one in below if isinstance(below, list) else [below]:
            if one is not None:
                yield from parts(one)


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_query_is_promql_over_metrics_and_labels_that_there_are(expression: str) -> None:
    known = {**LISTED, **ours()}
    found = list(parts(promql.parse(expression)))
    selectors = [one for one in found if isinstance(one, promql.VectorSelector)]
    names = [one.name or "" for one in selectors]
    assert names and set(names) <= known.keys()
    for one in selectors:
        assert {matcher.name for matcher in one.matchers.matchers} <= known[one.name or ""] | ADDED
    grouped = {
        label
        for one in found
        if isinstance(one, promql.AggregateExpr) and one.modifier
        for label in one.modifier.labels
    }
    assert grouped <= set.intersection(*(known[name] for name in names)) | ADDED


def test_ray_has_what_is_listed_of_it() -> None:
    source = "\n".join(
        file.read_text() for file in (Path(ray.__file__).parent / "dashboard/modules/metrics/dashboards").glob("*.py")
    )
    gauges = {f"ray_{name}" for name in METRICS_GAUGES}
    for name in LISTED:
        assert name.removesuffix("_bucket") in source or name in gauges, name


def test_all_that_we_tell_has_a_place() -> None:
    shown = {
        one.name
        for text in expressions()
        for one in parts(promql.parse(text))
        if isinstance(one, promql.VectorSelector)
    }
    assert set(ours()) <= shown


def test_legends_name_labels_that_their_query_keeps() -> None:
    for panel in PANELS:
        for target in panel.get("targets", ()):
            named = {part.partition("}}")[0] for part in target["legendFormat"].split("{{")[1:]}
            query = promql.parse(target["expr"].replace("$__rate_interval", "5m"))
            kept = {
                label
                for one in parts(query)
                if isinstance(one, promql.AggregateExpr) and one.modifier
                for label in one.modifier.labels
            }
            assert named <= kept, target


def test_it_can_be_imported_anywhere() -> None:
    """No data source and no id of the Grafana that it was made on; nothing overlaps."""
    assert DASHBOARD["uid"] == "fdarx" and "id" not in DASHBOARD and DASHBOARD["schemaVersion"] >= 39
    assert max(Counter(panel["id"] for panel in PANELS).values()) == 1
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in PANELS if panel["type"] != "row")
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells
