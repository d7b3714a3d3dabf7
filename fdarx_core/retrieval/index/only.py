"""Which chunks of an index a search is kept to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Only:
    """A filter; empty, it lets everything through. Each field that is set narrows it.

    `drug` and `title` are compared without regard to case and to how much white space there is, whole; `set_id` as a
    whole. `exclude` leaves documents out by id, title or source (titles and sources compared as `title` is). `drugs`
    lets any of several through. `any_drug`: a search is not kept to the drugs that its text names (`rag.searching`).
    """

    drug: str = ""
    set_id: str = ""
    title: str = ""
    exclude: tuple[str, ...] = ()
    drugs: tuple[str, ...] = ()
    any_drug: bool = False


def folded(name: str) -> str:
    """As names are compared."""
    return " ".join(name.casefold().split())


class Names:
    """A column of names: each distinct one once, and which row has which."""

    def __init__(self, column: pa.ChunkedArray, *, exactly: bool = False) -> None:
        encoded = pc.dictionary_encode(column.combine_chunks())
        self.distinct: list[str] = encoded.dictionary.to_pylist()
        self.codes: npt.NDArray[np.int32] = encoded.indices.to_numpy()
        self._compared = self.distinct if exactly else [folded(name) for name in self.distinct]
        self._folded = (lambda name: name) if exactly else folded

    def rows(self, *names: str) -> Mask:
        """Those with one of the names."""
        wanted = {self._folded(name) for name in names}
        has = np.array([name in wanted for name in self._compared], dtype=np.bool_)
        return has[self.codes]


class Filters:
    """Says of an index's rows which pass a filter."""

    def __init__(self, chunks: pa.Table) -> None:
        self.drug, self.title, self._source = (Names(chunks[name]) for name in ("drug", "title", "source"))
        self.document, self.set_id = (Names(chunks[name], exactly=True) for name in ("document_id", "set_id"))

    def rows(self, only: Only) -> Mask:
        """Shape (rows,)."""
        passing = np.ones(len(self.document.codes), dtype=np.bool_)
        one_of = [(self.drug, (only.drug,)), (self.title, (only.title,)), (self.set_id, (only.set_id,))]
        for names, wanted in (*one_of, (self.drug, only.drugs)):
            if any(wanted):
                passing &= names.rows(*wanted)
        if only.exclude:
            for names in (self.document, self.title, self._source):
                passing &= ~names.rows(*only.exclude)
        return passing
