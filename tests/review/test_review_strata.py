"""How many rows each stratum gets, and which."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.review.strata import allocate, draw


@dataclass(frozen=True)
class Row:
    id: str
    keys: tuple[str, ...]


sizes = st.dictionaries(st.text("abcdef", min_size=1), st.integers(1, 60), min_size=1, max_size=12)
rows = st.lists(
    st.builds(
        Row, st.uuids().map(str), st.tuples(st.sampled_from("kd"), st.sampled_from("fm"), st.sampled_from("xyz"))
    ),
    min_size=1,
    max_size=60,
    unique_by=lambda row: row.id,
)


@given(sizes, st.integers(0, 400))
def test_each_stratum_has_one_at_least_and_larger_ones_no_fewer(sizes: dict[str, int], more: int) -> None:
    n = len(sizes) + more
    shares = allocate(sizes, n)
    assert sum(shares.values()) == min(n, sum(sizes.values()))
    assert all(1 <= shares[name] <= size for name, size in sizes.items())
    for name, size in sizes.items():
        assert all(shares[other] <= shares[name] for other, less in sizes.items() if less < size)


def test_shares_are_those_of_sainte_lague_after_one_each() -> None:
    # one each, then 53/1.5 = 35.3 a, 53/2.5 = 21.2 a, 24/1.5 = 16 b, 23/1.5 = 15.3 c before 53/3.5 = 15.1
    assert allocate({"a": 53, "b": 24, "c": 23}, 7) == {"a": 3, "b": 2, "c": 2}
    assert allocate({"a": 98, "b": 1, "c": 1}, 10) == {"a": 8, "b": 1, "c": 1}


@given(rows, st.integers(1, 80), st.integers(0, 5), st.randoms())
def test_the_same_rows_are_drawn_whatever_their_order(rows: list[Row], n: int, seed: int, random: object) -> None:
    sample = draw(rows, n, seed)
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert draw(shuffled, n, seed) == sample
    assert len(sample.rows) == min(n, len(rows)) == len({row.id for row, _ in sample.rows})
    assert sum(one.size for one in sample.strata) == len(rows)
    for row, stratum in sample.rows:
        assert stratum.name == (" · ".join(row.keys[: sample.depth]) or "all")


@given(rows, st.integers(1, 80))
def test_strata_are_merged_only_as_far_as_needed(rows: list[Row], n: int) -> None:
    depth = draw(rows, n, 0).depth
    assert len({row.keys[:depth] for row in rows}) <= n
    assert depth == 3 or len({row.keys[: depth + 1] for row in rows}) > n


def test_another_seed_draws_others_and_a_larger_sample_holds_the_smaller() -> None:
    rows = [Row(str(number), ("kept",)) for number in range(200)]
    first = {row.id for row, _ in draw(rows, 20, 0).rows}
    assert first != {row.id for row, _ in draw(rows, 20, 1).rows}
    assert first < {row.id for row, _ in draw(rows, 50, 0).rows}
