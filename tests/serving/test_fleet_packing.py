"""Models laid on nodes: never more than there is, the judge first, and all that fit get their turn."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from serving.applications import ClusterNode, ResourceRequest, all_fit, select_to_start, why_never_fits

NODES = st.lists(st.builds(ClusterNode, gpus=st.integers(0, 8), cpus=st.integers(0, 16)), min_size=1, max_size=4)
SIZES = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 3))


def wants_of(sizes: Sequence[tuple[int, int, int]]) -> list[ResourceRequest]:
    return [ResourceRequest(f"model{number}", *size) for number, size in enumerate(sizes)]


WANTS = st.lists(SIZES, min_size=1, max_size=6).map(wants_of)


def rounds(
    nodes: Sequence[ClusterNode], wants: Sequence[ResourceRequest], judge: str = ""
) -> list[list[ResourceRequest]]:
    """What is up after each start, if the oldest model but the judge is always the next to be done."""
    up: list[ResourceRequest] = []
    seen: list[list[ResourceRequest]] = []
    waiting = list(wants)
    while True:
        started = select_to_start(nodes, up, waiting, judge)
        up += started
        waiting = [want for want in waiting if want not in started]
        seen.append(list(up))
        done = next((want for want in up if want.name != judge), None)
        if done is None:
            return seen
        up.remove(done)


@given(NODES, WANTS)
def test_never_more_than_there_is(nodes: list[ClusterNode], wants: list[ResourceRequest]) -> None:
    for up in rounds(nodes, wants):
        assert sum(want.gpus * want.replicas for want in up) <= sum(node.gpus for node in nodes)
        assert sum(want.cpus * want.replicas for want in up) <= sum(node.cpus for node in nodes)
        assert all_fit(nodes, up)


@given(NODES, WANTS)
def test_all_that_fit_get_their_turn(nodes: list[ClusterNode], wants: list[ResourceRequest]) -> None:
    had = {want.name for up in rounds(nodes, wants) for want in up}
    assert had == {want.name for want in wants if not why_never_fits(nodes, want)}


@given(NODES, WANTS)
def test_the_judge_is_there_before_all_others(nodes: list[ClusterNode], wants: list[ResourceRequest]) -> None:
    judge = wants[-1]
    able = [want for want in wants if want is judge or not why_never_fits(nodes, want, judge)]
    seen = rounds(nodes, able, judge.name)
    if why_never_fits(nodes, judge):
        assert seen == [[]]
    else:
        assert all(up[0] == judge for up in seen)
        assert {want.name for up in seen for want in up} == {want.name for want in able}


def test_a_replica_does_not_span_nodes_but_replicas_do() -> None:
    nodes = [ClusterNode(2, 8), ClusterNode(2, 8)]
    assert not all_fit(nodes, [ResourceRequest("wide", gpus=4)])
    assert all_fit(nodes, [ResourceRequest("twice", gpus=2, replicas=2)])


def test_the_largest_starts_first_and_small_ones_fill_up() -> None:
    wants = [
        ResourceRequest("small", 1),
        ResourceRequest("large", 4),
        ResourceRequest("middle", 2),
        ResourceRequest("tiny", 1),
    ]
    assert [want.name for want in select_to_start([ClusterNode(4, 8), ClusterNode(2, 8)], [], wants)] == [
        "large",
        "middle",
    ]
    assert [want.name for want in select_to_start([ClusterNode(4, 8), ClusterNode(2, 8)], [], wants[:2])] == [
        "large",
        "small",
    ]


def test_a_small_model_leaves_whole_nodes_to_large_ones() -> None:
    assert all_fit([ClusterNode(4, 8), ClusterNode(2, 8)], [ResourceRequest("small", 1), ResourceRequest("large", 4)])


def test_a_card_of_another_type_does_not_do() -> None:
    nodes = [ClusterNode(8, 8, frozenset({"L4"})), ClusterNode(1, 8, frozenset({"A100"}))]
    assert all_fit(nodes, [ResourceRequest("one", 1, accelerator="A100")])
    assert "2 GPUs (A100) on one node" in why_never_fits(nodes, ResourceRequest("two", 2, accelerator="A100"))


def test_what_can_never_fit_is_told_with_a_remedy() -> None:
    assert "the cluster has no GPU" in why_never_fits([ClusterNode(0, 8)], ResourceRequest("one", 1))
    assert "nodes have 2, 2" in why_never_fits([ClusterNode(2, 8), ClusterNode(2, 8)], ResourceRequest("four", 4))
    assert "CPUs" in why_never_fits([ClusterNode(0, 1)], ResourceRequest("heavy", 0, 2))
    beside = why_never_fits([ClusterNode(2, 8)], ResourceRequest("two", 2), ResourceRequest("strong", 1))
    assert "beside strong, which stays deployed as the judge" in beside and "--gpus" in beside
