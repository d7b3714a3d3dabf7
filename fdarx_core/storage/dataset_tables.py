"""The Parquet tables of a benchmark: a file for each configuration and split that has rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import file_digest
from importlib.resources import files
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from fdarx_core.records import Label, Passage, QuestionAnswer, arrow_schema, to_table
from fdarx_core.storage.location import Location
from fdarx_core.storage.published import QUESTION_TYPES, printed_title
from fdarx_core.storage.run_directory import LabelRows
from fdarx_core.storage.splits import SPLITS

LABELS, PASSAGES = "labels", "passages"
CONFIGS = (*QUESTION_TYPES, LABELS, PASSAGES)
"""The configurations of the dataset, by the names that `datasets.load_dataset` takes."""

_TEXTS = pa.list_(pa.string())
QUESTION_SCHEMA = pa.schema(
    [*arrow_schema(QuestionAnswer), pa.field("gold_texts", _TEXTS), pa.field("gold_titles", _TEXTS)]
)
"""The columns of QuestionAnswer, and the texts and section titles of the gold passages."""

LABEL_SCHEMA = pa.schema([*(one for one in arrow_schema(Label) if one.name != "source"), pa.field("text", pa.string())])
"""The columns of Label, without the path of its file, and the text with the marker of each passage."""

_ROW_GROUPS = {LABELS: 100}
_ROW_GROUP = 2000
"""Rows of a row group, which is in memory while it is collected; labels have all their text."""

COLUMNS: Mapping[str, Mapping[str, str]] = yaml.safe_load(
    files(__package__).joinpath("dataset_columns.yaml").read_text("utf-8")
)
"""What each column contains, for `questions`, `labels` and `passages`."""


def described_columns(config: str) -> Mapping[str, str]:
    """Return what each column of a configuration contains."""
    return COLUMNS["questions" if config in QUESTION_TYPES else config]


def schema_of(config: str) -> pa.Schema:
    """Return the Arrow schema of a configuration."""
    return {LABELS: LABEL_SCHEMA, PASSAGES: arrow_schema(Passage)}.get(config, QUESTION_SCHEMA)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of the dataset. `size` is in bytes; `memory` is the size of its rows in memory in bytes."""

    config: str
    split: str
    path: str
    rows: int
    size: int
    memory: int
    sha256: str


@dataclass(slots=True)
class _TableWriter:
    """Writes one Parquet file, which is created with its first row."""

    place: Location
    config: str
    split: str
    stack: ExitStack
    rows: int = 0
    memory: int = 0
    writer: pq.ParquetWriter | None = None
    pending: list[Any] = field(default_factory=list)

    def add(self, row: Any) -> None:
        if self.writer is None:
            stream = self.stack.enter_context(self.place.open_output())
            schema = schema_of(self.config)
            self.writer = self.stack.enter_context(pq.ParquetWriter(stream, schema, compression="zstd"))
        self.pending.append(row)
        if len(self.pending) == _ROW_GROUPS.get(self.config, _ROW_GROUP):
            self.flush()

    def flush(self) -> None:
        """Write a row group. Groups have the same size however the rows are divided into parts of the run."""
        if self.pending and self.writer:
            table = _table_of(self.config, self.pending)
            self.writer.write_table(table)
            self.rows += table.num_rows
            self.memory += table.nbytes
            self.pending.clear()


class DatasetTables:
    """The writers of all tables of a dataset below `folder`. The files appear when `stack` is closed, whole or not at
    all; a configuration and split without rows has no file, because `datasets` refuses it."""

    def __init__(self, folder: Location, stack: ExitStack) -> None:
        self._folder = folder
        self._writers = {
            (config, split): _TableWriter(folder / f"{config}/{split}.parquet", config, split, stack)
            for config in CONFIGS
            for split in SPLITS
        }

    def add(self, split: str, rows: LabelRows, text: str) -> None:
        """Add a label with its passages and questions. `text` is the text with the marker of each passage."""
        self._writers[LABELS, split].add((rows.label, text))
        for passage in rows.passages.values():
            self._writers[PASSAGES, split].add(passage)
        for question in rows.questions:
            self._writers[question.type, split].add((question, rows.gold(question)))

    def flush(self) -> None:
        """Write the rows that are still pending, before `stack` is closed."""
        for writer in self._writers.values():
            writer.flush()

    def files(self) -> list[DataFile]:
        """Return the files, after `stack` was closed."""
        return [
            DataFile(
                one.config, one.split, f"{one.config}/{one.place.name}", one.rows, one.place.size(), one.memory,
                digest_of(one.place),
            )
            for one in self._writers.values()
            if one.rows
        ]  # fmt: skip


def digest_of(place: Location) -> str:
    """Return the SHA-256 digest of a file in hexadecimal digits."""
    with place.open_input() as stream:
        return file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


def _table_of(config: str, rows: list[Any]) -> pa.Table:
    if config == PASSAGES:
        return to_table(rows, Passage)
    return _label_table(rows) if config == LABELS else _question_table(rows)


def _question_table(rows: list[tuple[QuestionAnswer, list[Passage]]]) -> pa.Table:
    texts = [[passage.text for passage in gold] for _, gold in rows]
    titles = [[printed_title(passage) for passage in gold] for _, gold in rows]
    table = to_table((question for question, _ in rows), QuestionAnswer)
    return table.append_column("gold_texts", pa.array(texts, _TEXTS)).append_column(
        "gold_titles", pa.array(titles, _TEXTS)
    )


def _label_table(rows: list[tuple[Label, str]]) -> pa.Table:
    table = to_table((label for label, _ in rows), Label).drop_columns(["source"])
    return table.append_column("text", pa.array([text for _, text in rows], pa.string()))
