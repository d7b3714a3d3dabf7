"""NetworkPolicies, evaluated as Kubernetes defines them: which pod may open a connection to which port of which other.

A connection is allowed where the policies of both ends allow it. A pod that no policy of a direction selects has no
limits in that direction; otherwise a rule of one of these policies must match. Source: Kubernetes, "Network Policies".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from tests.cluster_files.pods import pods
from tests.cluster_files.tree import Document, Tree

OURS = "fdarx"


@dataclass(frozen=True)
class Peer:
    """One end of a connection: a pod of a namespace, or an address outside the cluster."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = OURS
    address: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether policies of our namespace can select it."""
        return self.namespace == OURS and not self.address


def peers(tree: Tree) -> dict[str, Peer]:
    """The pods of all manifests, with the labels that KubeRay adds. Source: KubeRay, `labelPod` in common/pod.go."""
    found = {}
    for pod in pods(tree):
        added = {}
        if pod.group:
            kind = "worker" if "groupName" in pod.group else "head"
            added = {"ray.io/node-type": kind, "ray.io/group": pod.group.get("groupName", "headgroup")}
        found[pod.owner] = Peer(pod.owner, {**pod.labels, **added})
    return found


def reaches(tree: Tree, source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether the policies of both ends allow the connection."""
    return _allows(tree, "Egress", source, target, port, protocol) and _allows(
        tree, "Ingress", target, source, port, protocol
    )


def _allows(tree: Tree, direction: str, own: Peer, other: Peer, port: int, protocol: str) -> bool:
    policies = [policy["spec"] for policy in tree.of("NetworkPolicy") if _applies(policy["spec"], direction, own)]
    rules = [rule for policy in policies for rule in policy.get(direction.lower(), ())]
    return not policies or any(_matches(rule, direction, other, port, protocol) for rule in rules)


def _applies(policy: Document, direction: str, own: Peer) -> bool:
    return own.is_ours and direction in policy["policyTypes"] and selects(policy["podSelector"], own.labels)


def _matches(rule: Document, direction: str, other: Peer, port: int, protocol: str) -> bool:
    ports, others = rule.get("ports"), rule.get("from" if direction == "Ingress" else "to")
    opened = not ports or any(_is_port(one, port, protocol) for one in ports)
    return opened and (not others or any(_is_peer(one, other) for one in others))


def _is_port(given: Document, port: int, protocol: str) -> bool:
    first = int(given.get("port", port))
    return given.get("protocol", "TCP") == protocol and first <= port <= int(given.get("endPort", first))


def _is_peer(given: Document, other: Peer) -> bool:
    if "ipBlock" in given:
        return bool(other.address) and _in_block(given["ipBlock"], other.address)
    if other.address:
        return False
    named = {"kubernetes.io/metadata.name": other.namespace}
    in_namespace = selects(given["namespaceSelector"], named) if "namespaceSelector" in given else other.is_ours
    return in_namespace and selects(given.get("podSelector", {}), other.labels)


def _in_block(block: Document, address: str) -> bool:
    def holds(cidr: str) -> bool:
        return ip_address(address) in ip_network(cidr)

    return holds(block["cidr"]) and not any(map(holds, block.get("except", ())))


def selects(selector: Document, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects what has these labels; an empty one selects everything."""
    same = all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())
    return same and all(_holds(one, labels) for one in selector.get("matchExpressions", ()))


def _holds(expression: Document, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", ())
    outcomes: dict[str, bool] = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return outcomes[expression["operator"]]


def faults(tree: Tree) -> Iterator[str]:
    """Policies and budgets that select no pod of the manifests, and ports that no selected pod has."""
    known = peers(tree)
    opened = {pod.owner: _numbers(pod.containers) for pod in pods(tree)}
    for document in (*tree.of("NetworkPolicy"), *tree.of("PodDisruptionBudget")):
        spec, name = document["spec"], f"{document['kind']}/{document['metadata']['name']}"
        selected = [
            one for one in known.values() if selects(spec.get("podSelector", spec.get("selector", {})), one.labels)
        ]
        if not selected:
            yield f"{name}: selects no pod"
        for number in _numbers_of(spec.get("ingress", ())):
            if not any(number in opened[one.name] for one in selected):
                yield f"{name}: no selected pod has a port {number}"


def _numbers(containers: list[Document]) -> set[int]:
    return {port["containerPort"] for one in containers for port in one.get("ports", ())}


def _numbers_of(rules: Any) -> set[int]:
    return {port["port"] for rule in rules for port in rule.get("ports", ())}
