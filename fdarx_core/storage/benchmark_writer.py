"""Write a benchmark: Parquet files, FDARxBench's published format, Croissant metadata and the dataset card."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import orjson

from fdarx_core.storage.croissant import croissant_metadata
from fdarx_core.storage.dataset_card import BenchmarkCounts, dataset_card
from fdarx_core.storage.dataset_tables import DatasetTables
from fdarx_core.storage.published import QUESTION_TYPES, label_row, lines_file, question_row
from fdarx_core.storage.run_directory import RunDirectory, read_labels
from fdarx_core.storage.splits import DEV, TEST, Splits


def write_benchmark(run: RunDirectory, *, about: dict[str, Any]) -> dict[str, int]:
    """Write `benchmark/` from the labels, passages and questions of a run; return the numbers of questions by type.

    Rows are sorted by set id, type and id, so equal rows give equal bytes in however many parts they are. Each file
    appears whole or not at all, the card last.

    Args:
        run: the run of a build.
        about: its `run.json`; the card shows `config`, `versions`, `stages`, `input`, `splits` and `audit`.

    Raises:
        StorageError: the parts do not belong together.
    """
    tally, splits, folder = BenchmarkCounts(), Splits.of_run(about), run.file("benchmark")
    with ExitStack() as stack:
        tables = DatasetTables(folder, stack)
        names = {(kind, split): lines_file(kind, split) for split in _written(splits) for kind in ("qa", "labels")}
        lines = {key: stack.enter_context((folder / name).open_output()) for key, name in names.items()}
        for rows in read_labels(run):
            split, label = splits.of(rows.label.set_id), label_row(rows)
            for question in rows.questions:
                lines["qa", split].write(_line(question_row(question, rows)))
            lines["labels", split].write(_line(label))
            tables.add(split, rows, label["label_raw"])
            tally.add(rows)
        tables.flush()
    data = tables.files()
    metadata = croissant_metadata(folder, data, sorted(names.values()), about.get("started", ""))
    (folder / "croissant.json").write_bytes(metadata)
    (folder / "README.md").write_text(dataset_card(tally, data, about))
    return {name: tally.types[name] for name in QUESTION_TYPES}


def _written(splits: Splits) -> tuple[str, ...]:
    return (TEST, DEV) if splits.dev else (TEST,)


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
