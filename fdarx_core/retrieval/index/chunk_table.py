"""The chunks of an index as an Arrow table: filters, search texts, and the drugs of its labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Chunk, LabelVersion, Product, from_table, uploader_of
from fdarx_core.retrieval.encoders import HeadedText
from fdarx_core.retrieval.index.label_drugs import LabelDrugs, NameCompleter, NameCompletion, NamedDrug, normalize_name
from fdarx_core.retrieval.lexical import Integers, Mask, tokenize


@dataclass(frozen=True, slots=True)
class ChunkFilter:
    """Which chunks of an index a search may return; each field that is set narrows it, an empty filter passes all.

    Attributes:
        drug: the drug's name as labels have it, or any other name of one drug (see `LabelDrugs.named`); case and white
            space are ignored, as for titles.
        set_id: the label's set id.
        title: the document's whole title.
        exclude: ids, titles or sources of documents to leave out.
        drugs: any of several drugs.
        any_drug: whether a search that names drugs may return other drugs as well (see `rag.search`).
        each_drug: the same, with the best chunk of each drug first, then the second best of each.
        section: the LOINC code of a section of labels (`Chunk.section_code`).
        labeler: the labeler's whole name; case and white space are ignored.
        document_type: the LOINC code of a type of labels, such as 34391-3 for human prescription drugs.
        date_from: the first effective date of a label's version, in ISO 8601.
        date_to: the last one.

    Raises ValueError for a date that is not in ISO 8601, and where the last is before the first.
    """

    drug: str = ""
    set_id: str = ""
    title: str = ""
    exclude: tuple[str, ...] = ()
    drugs: tuple[str, ...] = ()
    any_drug: bool = False
    each_drug: bool = False
    section: str = ""
    labeler: str = ""
    document_type: str = ""
    date_from: str = ""
    date_to: str = ""

    def __post_init__(self) -> None:
        for name in ("date_from", "date_to"):
            text: str = getattr(self, name)
            try:
                if text and date.fromisoformat(text).isoformat() != text:
                    raise ValueError
            except ValueError:
                raise ValueError(f"{name} is {text!r}; give a date as YYYY-MM-DD") from None
        if self.date_to and self.date_from > self.date_to:
            raise ValueError(f"date_from {self.date_from} is after date_to {self.date_to}")

    @property
    def chooses_labels(self) -> bool:
        """Whether it chooses the labels of some drugs, or a document."""
        return bool(self.drug or self.set_id or self.title or self.drugs)

    def passes_label(self, label: LabelVersion | None) -> bool:
        """Return whether labeler, type and date of a label's version pass; a document without a label does not."""
        if label is None:
            return False
        return (
            (not self.labeler or normalize_name(label.labeler) == normalize_name(self.labeler))
            and (not self.document_type or label.document_type == self.document_type)
            and (not self.date_from or label.effective_date >= self.date_from)
            and (not self.date_to or "" < label.effective_date <= self.date_to)
        )


@dataclass(frozen=True, slots=True)
class FilterValue:
    """A value by which a search can be filtered: a LOINC code or name, its title, and how many labels have it."""

    value: str
    title: str
    labels: int


_COMPARED: dict[str, Callable[[str], str]] = {
    "drug": normalize_name,
    "title": normalize_name,
    "source": normalize_name,
    "document_id": str,
    "set_id": str,
    "section_code": str,
}
"""Columns that filters compare, and the form in which their values are compared."""


_HEADING = ("title", "section", "table_header")
_SEARCHED = (*_HEADING, "text")


def headed_chunk(chunk: Chunk) -> HeadedText:
    """Return a chunk for its vectors: each window of its text begins with its title, section and table header.

    On 593 published questions to 35 of 447 guidelines the right one is among the 24 chunks that BM25 finds in 0.976
    of cases, by the text alone in 0.934; with the guideline's title cut out of the question, in 0.953 and 0.939.
    """
    return HeadedText("\n".join(filter(None, (getattr(chunk, name) for name in _HEADING))), chunk.text)


class ChunkTexts(Sequence[str]):
    """The search texts of a table of chunks, made when they are read."""

    def __init__(self, chunks: pa.Table) -> None:
        self._columns = chunks.select(list(_SEARCHED))

    def __len__(self) -> int:
        return int(self._columns.num_rows)

    def __getitem__(self, at: int) -> str:  # type: ignore[override]  # nobody asks for slices
        return "\n".join(filter(None, (column[at].as_py() for column in self._columns.columns)))

    def __iter__(self) -> Iterator[str]:
        columns = (column.to_pylist() for column in self._columns.columns)
        return ("\n".join(filter(None, row)) for row in zip(*columns, strict=True))


_APPLICATIONS = {"NDA": 0, "BLA": 0, "NDA AUTHORIZED GENERIC": 1, "ANDA": 2}
"""Marketing categories of SPL, from that of the reference label on; a label has the rank of its best one."""


class ChunkTable:
    """All chunks of one version of an index. The position of a chunk is its row's number.

    Uploaded labels are apart from the others: they have no part in `label_drugs`, nor in what `filter_values` counts.

    Attributes:
        labels: what SPL says of the version of each label, by set id.
        uploaded: which chunks are of documents that clients have uploaded, shape (chunks,).
    """

    def __init__(self, chunks: pa.Table) -> None:
        self._chunks = chunks.combine_chunks()
        columns = {name: pc.dictionary_encode(self._chunks[name].combine_chunks()) for name in _COMPARED}
        self._distinct = {
            name: [_COMPARED[name](cell) for cell in column.dictionary.to_pylist()] for name, column in columns.items()
        }
        self._codes: dict[str, npt.NDArray[np.int32]] = {
            name: column.indices.to_numpy() for name, column in columns.items()
        }
        documents = self._codes["document_id"]
        self._in_order = np.lexsort((self._chunks["position"].to_numpy(), documents))
        self._starts = np.searchsorted(documents[self._in_order], np.arange(len(columns["document_id"].dictionary) + 1))
        by_document = np.array([bool(uploader_of(id)) for id in self._distinct["document_id"]], np.bool_)
        self._uploaded_documents = by_document
        self.uploaded: Mask = by_document[documents] if len(documents) else np.zeros(0, np.bool_)
        first = from_table(self._chunks.filter(pc.is_valid(self._chunks["label"])), Chunk)
        self.labels = {chunk.set_id: chunk.label for chunk in first if chunk.label}

    def __len__(self) -> int:
        return int(self._chunks.num_rows)

    def texts(self) -> ChunkTexts:
        """Return the text of each chunk that is searched: its title, section and text."""
        return ChunkTexts(self._chunks)

    def passages(self) -> list[str]:
        """Return the text of each chunk, without title and section."""
        return list(self._chunks["text"].to_pylist())

    def matching(self, filter: ChunkFilter) -> Mask:
        """Return which chunks pass the filter, shape (chunks,)."""
        passing = np.ones(len(self), dtype=np.bool_)
        for column, wanted in (
            ("title", [filter.title]),
            ("set_id", [filter.set_id]),
            ("drug", filter.drugs),
            ("section_code", [filter.section]),
        ):
            if any(wanted):
                passing &= self._have(column, wanted)
        if filter.drug:
            having = self._have("drug", [filter.drug])
            if not having.any():  # another name of one drug
                named = self.label_drugs.named(filter.drug) or self.uploads_named(filter.drug)
                having = np.isin(self._codes["document_id"], named[0].own if len(named) == 1 else [])
            passing &= having
        if filter.labeler or filter.document_type or filter.date_from or filter.date_to:
            fitting = [filter.passes_label(self.labels.get(set_id)) for set_id in self._distinct["set_id"]]
            passing &= np.array(fitting, dtype=np.bool_)[self._codes["set_id"]]
        if filter.exclude:
            for column in ("document_id", "title", "source"):
                passing &= ~self._have(column, filter.exclude)
        return passing

    def _have(self, column: str, names: Iterable[str]) -> Mask:
        """Return which chunks have one of the names in the column."""
        wanted = {_COMPARED[column](name) for name in names}
        has = np.array([name in wanted for name in self._distinct[column]], dtype=np.bool_)
        return has[self._codes[column]]

    def set_ids_of(self, documents: Sequence[int]) -> list[str]:
        """Return the set ids of documents, by their numbers."""
        first = self._in_order[self._starts[np.array(documents, np.int64)]]
        return list(self._chunks["set_id"].take(pa.array(first)).to_pylist())

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

    @cached_property
    def label_drugs(self) -> LabelDrugs:
        """The drugs of the labels in this index that nobody uploaded, and their names."""
        return self._drugs_of(~self._uploaded_documents)

    @cached_property
    def uploaded_drugs(self) -> LabelDrugs:
        """The drugs of the labels that clients have uploaded, and their names."""
        return self._drugs_of(self._uploaded_documents)

    def uploads_named(self, text: str) -> list[NamedDrug]:
        """Return the drugs that a text names and that only uploaded labels are of, see `LabelDrugs.named_beside`."""
        return self.uploaded_drugs.named_beside(text, self.label_drugs) if self._uploaded_documents.any() else []

    def _drugs_of(self, documents: Mask) -> LabelDrugs:
        """Return the drugs of the labels among some documents, shape (documents,), as if there were no others."""
        texts = self._chunks["text"]
        rows = (self._in_order[start:end] for start, end in pairwise(self._starts.tolist()))
        first = self._chunks.select(["set_id", "drug"]).take(pa.array(self._in_order[self._starts[:-1]])).to_pylist()
        within = documents.tolist()
        products: list[list[Product]] = []
        for row, kept in zip(first, within, strict=True):
            label, drug = self.labels.get(row["set_id"]), row["drug"]
            if kept and row["set_id"] and label and label.products:
                products.append(label.products)
            else:  # of a label whose products are not known, one of its drug's name
                products.append([Product([drug], [drug], [""], [""], [""])] if kept and drug else [])
        return LabelDrugs(
            products,
            (texts.take(pa.array(at)).to_pylist() if kept else [] for at, kept in zip(rows, within, strict=True)),
            [row["drug"] if kept else "" for row, kept in zip(first, within, strict=True)],
        )

    @property
    def documents(self) -> Integers:
        """The number of the document of each chunk, shape (chunks,)."""
        return self._codes["document_id"].astype(np.int64)

    @cached_property
    def has_labels(self) -> bool:
        """Whether any document is the label of a drug, and nobody uploaded it."""
        return bool((self.label_drugs.numbers >= 0).any())

    def reference_ranks(self) -> Integers:
        """Return the rank of each document, shape (documents,): that of the reference label of a drug comes first.

        Labels of new drug and biologics applications come before authorized generics, and these before labels of
        abbreviated applications; then the newest effective date comes first.
        """
        first = self._chunks["set_id"].take(pa.array(self._in_order[self._starts[:-1]])).to_pylist()
        labels = [self.labels.get(set_id) or LabelVersion() for set_id in first]
        by_date = sorted(range(len(labels)), key=lambda at: labels[at].effective_date, reverse=True)
        applications = [
            min((_APPLICATIONS.get(category.upper(), 3) for category in label.marketing_categories), default=3)
            for label in labels
        ]
        order = sorted(by_date, key=applications.__getitem__)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks

    @cached_property
    def headings(self) -> Mask:
        """Which chunks have nothing but the title of a section of some label, shape (chunks,)."""
        paths = pc.unique(self._chunks["section"]).to_pylist()
        titles = {tuple(tokenize(title)) for path in paths for title in path.split(" > ")} - {()}
        longest = max((sum(map(len, words)) + len(words) for words in titles), default=0)
        short = pc.less_equal(pc.utf8_length(self._chunks["text"]), longest).combine_chunks()
        found = np.zeros(len(self), np.bool_)
        positions = np.flatnonzero(short.to_numpy(zero_copy_only=False))
        texts = self._chunks["text"].take(pa.array(positions)).to_pylist()
        found[positions] = [tuple(tokenize(text)) in titles for text in texts]
        return found

    def find(self, chunk_id: str) -> int | None:
        """Return the position of the first chunk with that id, None where there is none."""
        position = pc.index(self._chunks["id"], pa.scalar(chunk_id, pa.string())).as_py()
        return None if position < 0 else int(position)

    def passage(self, chunk_id: str) -> tuple[Chunk, list[Chunk]] | None:
        """Return a chunk with what is `around` it, None where there is no such chunk."""
        position = self.find(chunk_id)
        return None if position is None else (self.chunk(position), self.around(position))

    def around(self, position: int) -> list[Chunk]:
        """Return the chunk and its surroundings, in order: its section of a label where that has several chunks, else
        its neighbors in the label or document."""
        here = self.chunk(position)
        code = self._codes["document_id"][position]
        rows = self._in_order[self._starts[code] : self._starts[code + 1]]
        section = [chunk for chunk in self.chunks(rows) if chunk.section == here.section] if here.set_id else []
        if len(section) > 1:
            return section
        at = int(np.flatnonzero(rows == position)[0])
        return self.chunks(rows[max(0, at - 1) : at + 2])

    def filter_values(self, labeler: str, limit: int) -> dict[str, list[FilterValue]]:
        """Return the values of the filters `section`, `document_type` and `labeler` that labels of this index have.

        Uploaded labels do not count. Each list begins with the most frequent; of labelers only the first `limit` that
        contain a text are listed.
        """
        rows = self._chunks.select(["section_code", "set_id"]).filter(pa.array(~self.uploaded))
        sections = Counter(code for code, _ in set(zip(*rows.to_pydict().values(), strict=True)))
        labels = [label for set_id, label in self.labels.items() if not uploader_of(set_id)]
        types = Counter(label.document_type for label in labels)
        titles = {label.document_type: label.document_type_name for label in labels}
        wanted = normalize_name(labeler)
        labelers = Counter(label.labeler for label in labels if wanted in normalize_name(label.labeler))
        return {
            "section": _most_frequent({code: (SECTION_NAMES.get(code, ""), count) for code, count in sections.items()}),
            "document_type": _most_frequent({code: (titles[code], count) for code, count in types.items()}),
            "labeler": _most_frequent({name: (name, count) for name, count in labelers.items()})[:limit],
        }

    def names(self, prefix: str, limit: int) -> list[NameCompletion]:
        """Return the drugs of labels, and the titles of other documents, with this prefix, see `NameCompleter`.

        Those that only uploads have come last.
        """
        indexed, uploaded = self._completers
        found = indexed.complete(prefix, limit)
        return found + uploaded.complete(prefix, limit - len(found))

    @cached_property
    def _completers(self) -> tuple[NameCompleter, NameCompleter]:
        indexed, uploaded = (
            [(row["drug"] or row["title"], self.labels.get(row["set_id"])) for row in names.to_pylist()]
            for mask in (~self.uploaded, self.uploaded)
            for names in [self._chunks.filter(pa.array(mask)).group_by(["set_id", "drug", "title"]).aggregate([])]
        )
        known = {normalize_name(name) for name, _ in indexed}
        new = (name for name in uploaded if normalize_name(name[0]) not in known)
        return NameCompleter(indexed), NameCompleter(new)


def _most_frequent(found: Mapping[str, tuple[str, int]]) -> list[FilterValue]:
    values = [FilterValue(value, title, count) for value, (title, count) in found.items() if value]
    return sorted(values, key=lambda value: (-value.labels, value.value))
