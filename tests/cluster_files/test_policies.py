"""Who reaches whom: policies, Ingress and budgets of cluster/, applied to the pods of all manifests."""

from __future__ import annotations

from itertools import product

import pytest

from tests.cluster_files import network
from tests.cluster_files.network import Peer
from tests.cluster_files.pods import clusters
from tests.cluster_files.tree import COMPONENTS, GUIDE, Tree, load

SERVE, DASHBOARD, GCS, CLIENT, METRICS, REDIS, WORKER_PORT = 8000, 8265, 6379, 10001, 8080, 6379, 30123
JOBS, SERVICE, SUBMITTERS = "RayCluster/fdarx/", "RayService/qa-rag/", ("build", "build-unattended", "sweep")

OPERATOR = Peer("operator", {"app.kubernetes.io/name": "kuberay-operator"}, "ray-system")
PROMETHEUS = Peer("prometheus", {"app.kubernetes.io/name": "prometheus"}, "monitoring")
CONTROLLER = Peer("controller", {"app.kubernetes.io/name": "traefik"}, "INGRESS-NAMESPACE")
DNS = Peer("dns", {"k8s-app": "kube-dns"}, "kube-system")
STRANGER = Peer("stranger", {"app.kubernetes.io/component": "jobs"}, "default")
"""A pod of another namespace, with a label of ours."""
NEIGHBOUR = Peer("neighbour", {"app": "notebook"})
"""A pod of our namespace that none of our manifests has made."""
INTERNET, METADATA = Peer("internet", address="52.216.1.2"), Peer("metadata", address="169.254.169.254")


@pytest.fixture(scope="module", params=[(), COMPONENTS], ids=["plain", "with components"])
def tree(request: pytest.FixtureRequest) -> Tree:
    return load(*request.param)


@pytest.fixture(scope="module")
def known(tree: Tree) -> dict[str, Peer]:
    return network.peers(tree)


def nodes(known: dict[str, Peer], cluster: str) -> list[Peer]:
    return [one for name, one in known.items() if name.startswith(cluster)]


def sources(tree: Tree, known: dict[str, Peer], target: Peer, port: int) -> set[str]:
    """The names of those that reach a port, clusters by their own name; clusters of a job count as that for jobs."""
    everyone = [*known.values(), OPERATOR, PROMETHEUS, CONTROLLER, DNS, STRANGER, NEIGHBOUR, INTERNET]
    found = {one.name for one in everyone if network.reaches(tree, one, target, port)}
    prefixes = {JOBS: JOBS, SERVICE: SERVICE, "RayJob/": JOBS}
    return {next((name for prefix, name in prefixes.items() if one.startswith(prefix)), one) for one in found}


def test_nodes_of_a_cluster_reach_each_other_on_all_ports(tree: Tree, known: dict[str, Peer]) -> None:
    for cluster in (JOBS, SERVICE):
        ours = nodes(known, cluster)
        assert len(ours) >= 3
        for one, other, port in product(ours, ours, (SERVE, DASHBOARD, GCS, CLIENT, WORKER_PORT)):
            assert network.reaches(tree, one, other, port), (one.name, other.name, port)


def test_ports_of_heads_are_reached_within_the_cluster_alone(tree: Tree, known: dict[str, Peer]) -> None:
    for cluster, port in product((JOBS, SERVICE), (GCS, CLIENT, WORKER_PORT)):
        assert sources(tree, known, known[f"{cluster}head"], port) == {cluster}
    assert sources(tree, known, known[f"{JOBS}head"], DASHBOARD) == {JOBS, "operator", *SUBMITTERS}
    assert sources(tree, known, known[f"{SERVICE}head"], DASHBOARD) == {SERVICE, "operator"}


def test_engines_are_reached_from_service_and_jobs_alone(tree: Tree, known: dict[str, Peer]) -> None:
    """An engine listens where Serve does. The Ingress controller routes only paths of the service, see below."""
    outside = {"controller"} if "Ingress/qa-rag" in tree.documents else set()
    for node in nodes(known, SERVICE):
        operator = {"operator"} if node.name.endswith("/head") else set()
        assert sources(tree, known, node, SERVE) == {SERVICE, JOBS} | outside | operator
    for node in nodes(known, JOBS):
        operator = {"operator"} if node.name.endswith("/head") else set()
        assert sources(tree, known, node, SERVE) == {JOBS} | operator


def test_redis_and_metrics(tree: Tree, known: dict[str, Peer]) -> None:
    assert sources(tree, known, known["redis"], REDIS) == {JOBS, SERVICE}
    assert sources(tree, known, known["redis"], METRICS) == set()
    assert sources(tree, known, known[f"{SERVICE}cpu"], METRICS) == {SERVICE, "prometheus"}
    assert sources(tree, known, known[f"{JOBS}head"], 44217) == {JOBS, "prometheus"}


def test_a_pod_that_no_manifest_made_reaches_nothing(tree: Tree, known: dict[str, Peer]) -> None:
    others = [*known.values(), INTERNET, DNS]
    assert [one.name for one in others if network.reaches(tree, NEIGHBOUR, one, 443)] == []
    assert not network.reaches(tree, OPERATOR, NEIGHBOUR, 80)


def test_what_pods_reach_outside_the_namespace(tree: Tree, known: dict[str, Peer]) -> None:
    ray = nodes(known, JOBS) + nodes(known, SERVICE)
    submitters = [known[name] for name in SUBMITTERS]
    for one in ray:
        assert network.reaches(tree, one, INTERNET, 443), "S3, weights, models on servers"
        assert not network.reaches(tree, one, INTERNET, 80)
        assert not network.reaches(tree, one, METADATA, 443) and not network.reaches(tree, one, METADATA, 80)
    for one in (*submitters, known["redis"]):
        assert not network.reaches(tree, one, INTERNET, 443)
    for one in (*ray, *submitters):
        assert network.reaches(tree, one, DNS, 53, "UDP") and network.reaches(tree, one, DNS, 53)
        assert not network.reaches(tree, one, DNS, 443)


@pytest.mark.parametrize("namespace", [OPERATOR.namespace, PROMETHEUS.namespace])
def test_the_guide_installs_operators_where_policies_expect_them(namespace: str) -> None:
    assert f"--namespace {namespace}" in GUIDE.read_text()


def test_a_budget_leaves_a_pod_to_evict() -> None:
    """The autoscaler may go down to minReplicas; with as many available pods required, no machine could be drained."""
    tree = load(*COMPONENTS)
    groups = dict(clusters(tree))["RayService/qa-rag"]["workerGroupSpecs"]
    least = {one["groupName"]: one["minReplicas"] for one in groups}
    budgets = [one["spec"] for one in tree.of("PodDisruptionBudget")]
    assert {one["selector"]["matchLabels"]["ray.io/group"] for one in budgets} == set(least)
    for one in budgets:
        assert set(one) == {"minAvailable", "selector"}, "the only limit that pods without a scale subresource take"
        assert 0 < one["minAvailable"] < least[one["selector"]["matchLabels"]["ray.io/group"]]
        selected = [name for name, pod in network.peers(tree).items() if network.selects(one["selector"], pod.labels)]
        assert len(selected) == 1 and selected[0].startswith(SERVICE)


def routed(tree: Tree, path: str) -> bool:
    """Whether the Ingress routes a path, as Kubernetes compares them: a prefix by whole elements."""
    [rule] = tree.documents["Ingress/qa-rag"]["spec"]["rules"]
    return any(
        path == one["path"] or (one["pathType"] == "Prefix" and path.startswith(one["path"] + "/"))
        for one in rule["http"]["paths"]
    )


def test_the_ingress_routes_the_service_by_tls_and_not_the_engine() -> None:
    tree = load(*COMPONENTS)
    spec = tree.documents["Ingress/qa-rag"]["spec"]
    for path in ("/", "/static/page.js", "/docs", "/openapi.json", "/healthz", "/readyz", "/v1/answers", "/mcp"):
        assert routed(tree, path), path
    for path in ("/llama-3.1-8b/v1/models", "/llama-3.1-8b", "/-/routes", "/-/healthz", "/v10", "/metrics"):
        assert not routed(tree, path), path
    [tls] = spec["tls"]
    assert tls["hosts"] == [rule["host"] for rule in spec["rules"]]
    assert tree.secrets[tls["secretName"]] == {"cert", "key"}
    services = {one["backend"]["service"]["name"] for one in spec["rules"][0]["http"]["paths"]}
    assert services == {"qa-rag-serve-svc"}, "the Service that KubeRay makes for the RayService qa-rag"
