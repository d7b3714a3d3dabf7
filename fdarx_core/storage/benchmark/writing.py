"""Writing a benchmark: every file of it in one pass over the run's labels."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from fdarx_core.records import QuestionAnswer, arrow_schema, to_table
from fdarx_core.storage.benchmark.card import CONFIGS, Tally, dataset_card
from fdarx_core.storage.benchmark.published import label_row, printed_title, question_row
from fdarx_core.storage.benchmark.reading import LabelRows, read_labels
from fdarx_core.storage.rundir import RunDirectory

_ROW_GROUP = 2000
_GOLD_COLUMNS = ("gold_texts", "gold_titles")
_TEXTS = pa.list_(pa.string())
SCHEMA = pa.schema([*arrow_schema(QuestionAnswer), *(pa.field(name, _TEXTS) for name in _GOLD_COLUMNS)])
"""Of the Parquet files: a QuestionAnswer, with its gold passages' texts and section titles position by position."""


def write_benchmark(run: RunDirectory, *, about: dict[str, Any]) -> dict[str, int]:
    """Write `benchmark/` from the run's labels, passages and questions; returns the number of questions by type.

    Args:
        about: what `run.json` says; `config`, `versions`, `stages` and `input` go into the dataset card, times don't.

    The rows go by set id, then type and id, so equal rows make equal bytes in however many parts they came. Each file
    appears whole or not at all, the card last. Raises `StorageError` where the parts don't fit together.
    """
    tally = Tally()
    with ExitStack() as stack:
        out = _Files.open(run, stack)
        for rows in read_labels(run):
            out.write(rows)
            tally.add(rows)
        out.flush()
    run.file("benchmark/README.md").write_text(dataset_card(tally, about))
    return {name: tally.types[name] for name in CONFIGS}


@dataclass(slots=True)
class _Table:
    """One Parquet file. Its row groups are filled to the same size wherever the rows came from."""

    writer: pq.ParquetWriter
    held: list[tuple[QuestionAnswer, list[str], list[str]]] = field(default_factory=list)

    def add(self, question: QuestionAnswer, texts: list[str], titles: list[str]) -> None:
        self.held.append((question, texts, titles))
        if len(self.held) == _ROW_GROUP:
            self.flush()

    def flush(self) -> None:
        if not self.held:  # readers stumble over row groups without rows
            return
        table = to_table((question for question, _, _ in self.held), QuestionAnswer)
        for place, name in enumerate(_GOLD_COLUMNS, 1):
            table = table.append_column(name, pa.array([row[place] for row in self.held], _TEXTS))
        self.writer.write_table(table)
        self.held = []


@dataclass(frozen=True, slots=True)
class _Files:
    tables: dict[str, _Table]
    questions: BinaryIO
    labels: BinaryIO

    @classmethod
    def open(cls, run: RunDirectory, stack: ExitStack) -> _Files:
        def output(name: str) -> BinaryIO:
            return stack.enter_context(run.file(f"benchmark/{name}").open_output())

        def table(name: str) -> _Table:
            writer = pq.ParquetWriter(output(f"{name}.parquet"), SCHEMA, compression="zstd")
            return _Table(stack.enter_context(writer))

        return cls({name: table(name) for name in CONFIGS}, output("qa.jsonl"), output("labels.jsonl"))

    def write(self, rows: LabelRows) -> None:
        for question in rows.questions:
            gold = rows.gold(question)
            self.tables[question.type].add(question, [one.text for one in gold], [printed_title(one) for one in gold])
            self.questions.write(orjson.dumps(question_row(question, rows), option=orjson.OPT_APPEND_NEWLINE))
        self.labels.write(orjson.dumps(label_row(rows), option=orjson.OPT_APPEND_NEWLINE))

    def flush(self) -> None:
        for table in self.tables.values():
            table.flush()
