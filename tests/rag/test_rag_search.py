"""Several searches' findings as one list: fair, and without anything twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.rag.comparison import compared_drugs, shared_contexts
from fdarx_core.rag.search import pool_candidates
from fdarx_core.records import SearchHit
from tests.rag.found import found


def names(pooled: list[SearchHit]) -> list[str]:
    return [one.chunk.id for one in pooled]


def test_searches_draw_in_turn() -> None:
    pooled = pool_candidates([[found("a"), found("b"), found("c")], [found("x"), found("y")]], [2, 2])
    assert names(pooled) == ["a", "x", "b", "y"]
    assert [one.search for one in pooled] == [0, 1, 0, 1]


def test_what_is_drawn_already_is_passed_over() -> None:
    pooled = pool_candidates([[found("a"), found("b")], [found("a"), found("b"), found("c"), found("d")]], [2, 2])
    assert names(pooled) == ["a", "b", "c", "d"]
    assert [one.search for one in pooled] == [0, 1, 1, 1]


def test_equal_texts_fill_one_slot() -> None:
    one = [found("a", text="Keep the\n records."), found("b", text="KEEP the records."), found("c", text="Else.")]
    assert names(pool_candidates([[found("z", text=" Keep the records. ")], one], [1, 2])) == ["z", "b", "c"]


def test_a_dry_search_leaves_its_rest_to_the_others() -> None:
    assert names(pool_candidates([[found("a")], [found(name) for name in "vwxyz"]], [3, 2])) == [
        "a",
        "v",
        "w",
        "x",
        "y",
    ]


def test_a_search_without_a_share_only_fills_up() -> None:
    assert names(pool_candidates([[found("a")], [found("x"), found("y")]], [2, 0])) == ["a", "x"]


def test_nothing_found_is_nothing() -> None:
    assert pool_candidates([], []) == []
    assert pool_candidates([[], []], [3, 3]) == []


def test_a_share_for_each_list() -> None:
    with pytest.raises(ValueError, match="zip"):
        pool_candidates([[found("a")]], [1, 1])


LISTS = st.lists(st.tuples(st.lists(st.sampled_from("abcdefghij"), max_size=10), st.integers(0, 6)), max_size=4)


@given(LISTS)
def test_all_that_can_be_drawn_is_drawn_once(given_lists: list[tuple[list[str], int]]) -> None:
    lists = [[found(name) for name in one] for one, _ in given_lists]
    shares = [share for _, share in given_lists]
    pooled = pool_candidates(lists, shares)
    assert len(set(names(pooled))) == len(pooled)
    assert len(pooled) == min(sum(shares), len({name for one, _ in given_lists for name in one}))
    for number, one in enumerate(lists):
        mine = [drawn.chunk.id for drawn in pooled if drawn.search == number]
        assert mine == sorted(mine, key=names(one).index)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_of_different_lists_each_gives_its_share(shares: list[int]) -> None:
    lists = [[found(f"{number}-{rank}") for rank in range(9)] for number in range(len(shares))]
    pooled = pool_candidates(lists, shares)
    assert [sum(one.search == number for one in pooled) for number in range(len(shares))] == shares
    assert {one.chunk.id for one in pooled[: len(shares)]} == {f"{number}-0" for number in range(len(shares))}


def test_each_of_several_drugs_gets_enough_contexts() -> None:
    hits = [replace(found(f"{drug}{at}"), named=drug) for drug in ("a", "b") for at in range(8)]
    assert names(shared_contexts(hits, ["a", "b"], 6)) == [f"{drug}{at}" for at in range(5) for drug in ("a", "b")]
    assert names(shared_contexts(hits[:8], ["a", "b"], 6)) == [f"a{at}" for at in range(6)]


def test_headings_have_the_names_as_labels_write_them() -> None:
    named = {"eliquis": "ELIQUIS", "co velora": "Co-Velora", "metformin": "metformin", "xr": "XR"}
    hits = [replace(found(drug, drug=drug), named=name) for name, drug in named.items()]
    headings = [drug.heading for drug in compared_drugs(hits, [*named])]
    assert headings == ["ELIQUIS:\n", "Co-Velora:\n", "Metformin:\n", "XR:\n"]
    other = [replace(found(drug, drug=drug), named=name) for name, drug in (("apixaban", "ELIQUIS"), ("x", "X"))]
    assert compared_drugs(other, ["apixaban", "x"])[0].heading == "Apixaban:\n"
