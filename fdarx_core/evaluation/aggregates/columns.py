"""Score rows as arrays, in an order that does not depend on how they were written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


class Columns:
    """The columns of Score or RetrievalScore rows, sorted by label and question.

    `labels` are the distinct set ids in ascending order; `label_of` gives each row's position among them.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table.sort_by([("set_id", "ascending"), ("question_id", "ascending")]).combine_chunks()
        names, codes = np.unique(self.strings("set_id"), return_inverse=True)
        self.labels: list[str] = names.tolist()
        self.label_of: Codes = codes.astype(np.int64)
        self._numbers: dict[str, Numbers] = {}
        self._masks: dict[tuple[str, tuple[str, ...]], Mask] = {}

    @property
    def rows(self) -> int:
        return int(self._table.num_rows)

    def number(self, name: str) -> Numbers:
        """A numeric or boolean column as floats, NaN where it is null."""
        if name not in self._numbers:
            floats = pc.cast(self._table[name], pa.float64())
            self._numbers[name] = floats.to_numpy().astype(np.float64)
        return self._numbers[name]

    def measured(self, name: str) -> bool:
        """Whether the column has a number in any row."""
        return bool(self._table[name].null_count < self.rows)

    def is_in(self, name: str, *values: str) -> Mask:
        """The rows in which the column holds one of the values."""
        key = (name, values)
        if key not in self._masks:
            found = pc.is_in(self._table[name], value_set=pa.array(values, pa.string()))
            self._masks[key] = np.asarray(found.to_numpy(), dtype=np.bool_)
        return self._masks[key]

    def strings(self, name: str) -> NDArray[np.str_]:
        return np.asarray(self._table[name].to_pylist(), dtype=np.str_)
