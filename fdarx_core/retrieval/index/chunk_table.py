"""The chunks of an index as an Arrow table: filters, search texts, and the drugs that a text names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.labels.drugs import Drug, DrugNames, drug_of
from fdarx_core.records import Chunk, Product, from_table
from fdarx_core.retrieval.lexical import Mask, tokenize

_SHORTEST_NAME = 4
"""Letters of the shortest name that is looked for in texts; shorter ones ("Ice") mostly have other meanings."""


@dataclass(frozen=True, slots=True)
class ChunkFilter:
    """Which chunks of an index a search may return; each field that is set narrows it, an empty filter passes all.

    Attributes:
        drug: the drug's whole name; case and white space are ignored, as for titles.
        set_id: the label's set id.
        title: the document's whole title.
        exclude: ids, titles or sources of documents to leave out.
        drugs: any of several drugs.
        any_drug: whether a search that names drugs may return other drugs as well (see `rag.search`).
    """

    drug: str = ""
    set_id: str = ""
    title: str = ""
    exclude: tuple[str, ...] = ()
    drugs: tuple[str, ...] = ()
    any_drug: bool = False


def normalize_name(name: str) -> str:
    """Return a name in the form in which names are compared: case-folded, with single spaces."""
    return " ".join(name.casefold().split())


_COMPARED: dict[str, Callable[[str], str]] = {
    "drug": normalize_name,
    "title": normalize_name,
    "source": normalize_name,
    "document_id": str,
    "set_id": str,
}
"""Columns that filters compare, and the form in which their values are compared."""


def chunk_search_text(chunk: Chunk) -> str:
    """Return the text of a chunk for search and embedding: its title, section and text.

    On 593 published questions to 35 of 447 guidelines the right one is among the 24 chunks that BM25 finds in 0.976
    of cases, by the text alone in 0.934; with the guideline's title cut out of the question, in 0.953 and 0.939.
    """
    return _join(chunk.title, chunk.section, chunk.text)


def _join(*parts: str) -> str:
    return "\n".join(filter(None, parts))


class ChunkTexts(Sequence[str]):
    """The search texts of a table of chunks, made when they are read."""

    def __init__(self, chunks: pa.Table) -> None:
        self._columns = chunks.select(["title", "section", "text"])

    def __len__(self) -> int:
        return int(self._columns.num_rows)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(len(self)))]
        return _join(*(column[at].as_py() for column in self._columns.columns))

    def __iter__(self) -> Iterator[str]:
        columns = (column.to_pylist() for column in self._columns.columns)
        return (_join(*row) for row in zip(*columns, strict=True))


class NameMatcher:
    """Finds names in texts as whole words, regardless of case and of the signs between the words."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for name in names:
            words = tuple(tokenize(name))
            if sum(map(len, words)) >= _SHORTEST_NAME:
                self._names[words].append(name)
        self._longest = max(map(len, self._names), default=0)

    def find(self, text: str) -> tuple[str, ...]:
        """Return the names in the text, each once, in order of first mention; of nested names the longest."""
        return tuple(dict.fromkeys(name for words in self._matches(tokenize(text)) for name in self._names[words]))

    def _matches(self, words: list[str]) -> Iterator[tuple[str, ...]]:
        at = 0
        while at < len(words):
            lengths = range(min(self._longest, len(words) - at), 0, -1)
            match = next((one for n in lengths if (one := tuple(words[at : at + n])) in self._names), ())
            if match:
                yield match
            at += len(match) or 1


class ChunkTable:
    """All chunks of one version of an index. The position of a chunk is its row's number.

    Attributes:
        labels: what SPL says of the version of each label, by set id.
    """

    def __init__(self, chunks: pa.Table) -> None:
        self._chunks = chunks.combine_chunks()
        columns = {name: pc.dictionary_encode(self._chunks[name].combine_chunks()) for name in _COMPARED}
        self._distinct = {
            name: [_COMPARED[name](one) for one in column.dictionary.to_pylist()] for name, column in columns.items()
        }
        self._codes: dict[str, npt.NDArray[np.int32]] = {
            name: column.indices.to_numpy() for name, column in columns.items()
        }
        documents = self._codes["document_id"]
        self._in_order = np.lexsort((self._chunks["position"].to_numpy(), documents))
        self._starts = np.searchsorted(documents[self._in_order], np.arange(len(columns["document_id"].dictionary) + 1))
        self._names = _names(self._chunks)
        first = from_table(self._chunks.filter(pc.is_valid(self._chunks["label"])), Chunk)
        self.labels = {chunk.set_id: chunk.label for chunk in first if chunk.label}

    def __len__(self) -> int:
        return int(self._chunks.num_rows)

    def texts(self) -> ChunkTexts:
        """Return the text of each chunk that is searched, as `chunk_search_text` gives it."""
        return ChunkTexts(self._chunks)

    def matching(self, filter: ChunkFilter) -> Mask:
        """Return which chunks pass the filter, shape (chunks,)."""
        passing = np.ones(len(self), dtype=np.bool_)
        for column, wanted in (
            ("drug", [filter.drug]),
            ("title", [filter.title]),
            ("set_id", [filter.set_id]),
            ("drug", filter.drugs),
        ):
            if any(wanted):
                passing &= self._have(column, wanted)
        if filter.exclude:
            for column in ("document_id", "title", "source"):
                passing &= ~self._have(column, filter.exclude)
        return passing

    def _have(self, column: str, names: Iterable[str]) -> Mask:
        """Return which chunks have one of the names in the column."""
        wanted = {_COMPARED[column](name) for name in names}
        has = np.array([name in wanted for name in self._distinct[column]], dtype=np.bool_)
        return has[self._codes[column]]

    def set_ids(self, filter: ChunkFilter) -> list[str]:
        """Return the set ids of the labels with chunks that pass the filter."""
        codes = np.unique(self._codes["set_id"][self.matching(filter)])
        return [set_id for code in codes if (set_id := self._distinct["set_id"][code])]

    def label_chunks(self, set_id: str) -> list[Chunk]:
        """Return the chunks of a label, in order."""
        rows = np.flatnonzero(self.matching(ChunkFilter(set_id=set_id)))
        return sorted(self.chunks(rows), key=lambda chunk: chunk.position)

    def chunks(self, positions: Sequence[int] | np.ndarray) -> list[Chunk]:
        """Return the chunks at some positions, each with its label's version."""
        found = list(from_table(self._chunks.take(pa.array(positions, pa.int64())), Chunk))
        for chunk in found:
            chunk.label = self.labels.get(chunk.set_id)
        return found

    def chunk(self, position: int) -> Chunk:
        [chunk] = self.chunks([position])
        return chunk

    def drugs_named(self, text: str) -> tuple[str, ...]:
        """Return the names, in `Chunk.drug`, of those labels in this index whose drug a text names.

        A drug is named by its brand and generic names, substances and moieties, also with a typing error.
        """
        return tuple(dict.fromkeys(name for group in self.drug_groups(text) for name in group))

    def drug_groups(self, text: str) -> list[tuple[str, ...]]:
        """Return `drugs_named` for each drug that a text names, in order of first mention."""
        groups = dict.fromkeys(self._labels_of(mention.drugs) for mention in self.drug_names.find(text))
        return [names for names in groups if names]

    def corrected(self, text: str) -> str:
        """Return a text with the names of drugs in place of their misspellings."""
        for mention in reversed(self.drug_names.find(text)):
            if not mention.exact:
                text = text[: mention.start] + mention.name + text[mention.end :]
        return text

    def _labels_of(self, drugs: Sequence[Drug]) -> tuple[str, ...]:
        """Return the names of the labels of some drugs; of labels that combine them with others if there are none."""
        own = [name for drug in drugs for name in self._of_drug.get(drug, ())]
        combined = [
            name for drug in drugs for one, names in self._of_drug.items() if drug.keys < one.keys for name in names
        ]
        return tuple(dict.fromkeys(own or combined))

    @cached_property
    def drug_names(self) -> DrugNames:
        """The names of the drugs of all labels in this index."""
        texts = self._chunks["text"]
        ends = zip(self._starts, self._starts[1:], strict=False)
        rows = (self._in_order[start:end] for start, end in ends)
        return DrugNames(
            (products, texts.take(pa.array(at)).to_pylist())
            for products, at in zip(self._products(), rows, strict=True)
        )

    @cached_property
    def _of_drug(self) -> dict[Drug, list[str]]:
        """The names of the labels of each drug."""
        found: defaultdict[Drug, list[str]] = defaultdict(list)
        names = self._first_chunks["drug"].to_pylist()
        for name, products in zip(names, self._products(), strict=True):
            if products:
                found[drug_of(*products)].append(name)
        return found

    @property
    def _first_chunks(self) -> pa.Table:
        return self._chunks.select(["set_id", "drug"]).take(pa.array(self._in_order[self._starts[:-1]]))

    def _products(self) -> Iterator[list[Product]]:
        """Yield the products of the label of each document, none for other documents.

        A label whose products are not known has one of the label's name.
        """
        for row in self._first_chunks.to_pylist():
            label = self.labels.get(row["set_id"]) if row["set_id"] else None
            if label and label.products:
                yield label.products
            else:
                yield [Product([row["drug"]], [row["drug"]], [""], [""], [""])] if row["drug"] else []

    def find(self, chunk_id: str) -> int | None:
        """Return the position of the first chunk with that id, None where there is none."""
        position = pc.index(self._chunks["id"], pa.scalar(chunk_id, pa.string())).as_py()
        return None if position < 0 else int(position)

    def around(self, position: int) -> list[Chunk]:
        """Return the chunk and its surroundings, in order: its section of a label, its neighbors in a document."""
        here = self.chunk(position)
        code = self._codes["document_id"][position]
        rows = self._in_order[self._starts[code] : self._starts[code + 1]]
        if here.set_id:
            return [chunk for chunk in self.chunks(rows) if chunk.section == here.section]
        at = int(np.flatnonzero(rows == position)[0])
        return self.chunks(rows[max(0, at - 1) : at + 2])

    def names(self, prefix: str, limit: int) -> list[str]:
        """Return names of drugs (labels) and titles (other documents) that begin with the prefix, then that contain it.

        Case and white space are ignored; each group is in alphabetical order.
        """
        wanted = normalize_name(prefix)
        starting = [name for key, name in self._names if key.startswith(wanted)]
        containing = [name for key, name in self._names if wanted in key[1:] and not key.startswith(wanted)]
        return [*starting, *containing][: max(0, limit)]


def _names(chunks: pa.Table) -> list[tuple[str, str]]:
    """Return each drug's name or document's title, as compared and as first written, in alphabetical order."""
    column = pc.if_else(pc.equal(chunks["drug"], ""), chunks["title"], chunks["drug"])
    names: dict[str, str] = {}
    for name in pc.unique(column).to_pylist():
        names.setdefault(normalize_name(name), name)
    return sorted((key, name) for key, name in names.items() if key)
