"""Figures: the value of a metric with its confidence interval, and the difference of two such values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from typing_extensions import Self


@dataclass(slots=True)
class Estimate:
    """A value with its 95 % interval.

    The value rests on `rows` rows in `clusters` clusters; a cluster is what the bootstrap draws, for example a label.
    `unscored` counts the rows that should have been measured and could not be. The value is None where it has no
    meaning; the bounds are None where there is no interval, for example because all rows are in one cluster.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    rows: int = 0
    clusters: int = 0
    unscored: int = 0

    def numbers(self) -> dict[str, Any]:
        """Return the value, its bounds and the counts by name, in this order."""
        return {field.name: getattr(self, field.name) for field in fields(Estimate)}


@dataclass(slots=True)
class Figure(Estimate):
    """An estimate of `metric`; `keys` say of what, for example of which model in which setting.

    Figures of an evaluation also say what they rest on: the `judge`, the `prompts` with their versions, the `engine`
    that answered, and of how many questions `due` in the cell there is a reply (`answered`).
    """

    metric: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    judge: str = ""
    prompts: str = ""
    engine: str = ""
    answered: int = 0
    due: int = 0

    @classmethod
    def of(cls, metric: str, keys: Mapping[str, str], estimate: Estimate, **more: Any) -> Self:
        """Return the estimate with its metric and keys."""
        return cls(**estimate.numbers(), metric=metric, keys=dict(keys), **more)

    def to_row(self) -> dict[str, Any]:
        """Return the figure as a flat row: the keys as columns, then metric, value, interval and counts."""
        return {**self.keys, "metric": self.metric, **self.numbers(), **self.provenance()}

    def provenance(self) -> dict[str, str | int]:
        """Return what the figure rests on by name; nothing for a figure that does not say it."""
        names = ("judge", "prompts", "engine", "answered", "due") if self.due else ()
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the figure of a flat row; columns without a meaning of their own are keys, null ones are left out."""
        known = {field.name for field in fields(cls)}
        named = {name: value for name, value in row.items() if value is not None}
        values = {name: value for name, value in named.items() if name in known}
        return cls(**{"value": None, **values}, **cls._keys({k: v for k, v in named.items() if k not in known}))

    @classmethod
    def _keys(cls, keys: dict[str, str]) -> dict[str, Any]:
        return {"keys": keys}


@dataclass(slots=True)
class Difference(Figure):
    """The value of `metric` for `first` minus its value for `second`; both share `keys`.

    `p` is the two-sided p value; `p_holm` is corrected for all comparisons of its family (Holm 1979).
    """

    first: dict[str, str] = field(default_factory=dict)
    second: dict[str, str] = field(default_factory=dict)
    p: float | None = None
    p_holm: float | None = None

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def to_row(self) -> dict[str, Any]:
        """Return the difference as a flat row; the keys of the two sides end in `_a` and `_b`."""
        sides = {f"{name}_{side}": value for side, keys in (("a", self.first), ("b", self.second))
                 for name, value in keys.items()}  # fmt: skip
        return {
            "metric": self.metric,
            **self.keys,
            **sides,
            **self.numbers(),
            "p": self.p,
            "p_holm": self.p_holm,
            **self.provenance(),
        }

    @classmethod
    def _keys(cls, keys: dict[str, str]) -> dict[str, Any]:
        first, second = (
            {name.removesuffix(end): value for name, value in keys.items() if name.endswith(end)}
            for end in ("_a", "_b")
        )
        shared = {name: value for name, value in keys.items() if not name.endswith(("_a", "_b"))}
        return {"keys": shared, "first": first, "second": second}
