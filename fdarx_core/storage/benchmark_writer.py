"""Write a benchmark: Parquet files, FDARxBench's published format and the dataset card."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from fdarx_core.records import Label, Passage, QuestionAnswer, to_table
from fdarx_core.records.question_types import QUESTION_TYPES, TypeNames
from fdarx_core.storage.dataset_card import BenchmarkCounts, DataFile, dataset_card
from fdarx_core.storage.location import Location
from fdarx_core.storage.published import label_row, lines_file, printed_title, question_row
from fdarx_core.storage.run_directory import RunDirectory, read_labels
from fdarx_core.storage.splits import DEV, SPLITS, TEST, Splits

LABELS, PASSAGES = "labels", "passages"
CONFIGS = TypeNames(LABELS, PASSAGES)
"""The configurations of the dataset, by the names that `datasets.load_dataset` takes."""

_TEXTS = pa.list_(pa.string())
_ROW_GROUPS = {LABELS: 100}
_ROW_GROUP = 2000
"""Rows of a row group, which is in memory while it is collected; labels have all their text."""


def write_benchmark(run: RunDirectory, *, about: dict[str, Any]) -> dict[str, int]:
    """Write `benchmark/` from the labels, passages and questions of a run; return the numbers of questions by type.

    Rows are sorted by set id, type and id, so equal rows give equal bytes in however many parts they are. Each file
    appears whole or not at all, the card last. A configuration and split without rows has no file, because `datasets`
    refuses it.

    Args:
        run: the run of a build.
        about: its `run.json`; the card shows `config`, `versions`, `stages`, `input`, `splits` and `audit`.

    Raises:
        StorageError: the parts do not belong together.
    """
    tally, splits, folder = BenchmarkCounts(), Splits.of_run(about), run.file("benchmark")
    with ExitStack() as stack:
        tables = {
            (config, split): _TableWriter(folder / f"{config}/{split}.parquet", config, split, stack)
            for config in CONFIGS
            for split in SPLITS
        }
        written = (TEST, DEV) if splits.dev else (TEST,)
        names = {(kind, split): lines_file(kind, split) for split in written for kind in ("qa", LABELS)}
        lines = {key: stack.enter_context((folder / name).open_output()) for key, name in names.items()}
        for rows in read_labels(run):
            split, label = splits.of(rows.label.set_id), label_row(rows)
            lines[LABELS, split].write(_line(label))
            tables[LABELS, split].add((rows.label, label["label_raw"]))
            for passage in rows.passages.values():
                tables[PASSAGES, split].add(passage)
            for question in rows.questions:
                lines["qa", split].write(_line(question_row(question, rows)))
                tables[question.type, split].add((question, rows.gold(question)))
            tally.add(rows)
        for table in tables.values():
            table.flush()
    data = [table.file() for table in tables.values() if table.rows]
    (folder / "README.md").write_text(dataset_card(tally, data, about))
    return {name: tally.types[name] for name in QUESTION_TYPES}


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


@dataclass(slots=True)
class _TableWriter:
    """Writes one Parquet file, which is created with its first row."""

    place: Location
    config: str
    split: str
    stack: ExitStack
    rows: int = 0
    memory: int = 0
    schema: pa.Schema | None = None
    writer: pq.ParquetWriter | None = None
    pending: list[Any] = field(default_factory=list)

    def add(self, row: Any) -> None:
        self.pending.append(row)
        if len(self.pending) == _ROW_GROUPS.get(self.config, _ROW_GROUP):
            self.flush()

    def flush(self) -> None:
        """Write a row group. Groups have the same size however the rows are divided into parts of the run."""
        if not self.pending:
            return
        table = _table_of(self.config, self.pending)
        if self.writer is None:
            stream = self.stack.enter_context(self.place.open_output())
            self.schema = table.schema
            self.writer = self.stack.enter_context(pq.ParquetWriter(stream, table.schema, compression="zstd"))
        self.writer.write_table(table)
        self.rows += table.num_rows
        self.memory += table.nbytes
        self.pending.clear()

    def file(self) -> DataFile:
        """Return the file, after it was closed."""
        path = f"{self.config}/{self.place.name}"
        return DataFile(self.config, self.split, path, self.schema, self.rows, self.place.size(), self.memory)


def _table_of(config: str, rows: list[Any]) -> pa.Table:
    """Return a table of passages, of labels with their text, or of questions with the texts and titles of the gold."""
    if config == PASSAGES:
        return to_table(rows, Passage)
    if config == LABELS:
        table = to_table((label for label, _ in rows), Label).drop_columns(["source"])  # the path of its file
        return table.append_column("text", pa.array([text for _, text in rows], pa.string()))
    table = to_table((question for question, _ in rows), QuestionAnswer)
    texts = [[passage.text for passage in gold] for _, gold in rows]
    titles = [[printed_title(passage) for passage in gold] for _, gold in rows]
    table = table.append_column("gold_texts", pa.array(texts, _TEXTS))
    return table.append_column("gold_titles", pa.array(titles, _TEXTS))
