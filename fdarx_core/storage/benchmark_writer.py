"""Write a benchmark: Parquet files, FDARxBench's published format, and the dataset card."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from jinja2 import Environment, PackageLoader

from fdarx_core.records import Passage, QuestionAnswer, arrow_schema, to_table
from fdarx_core.storage.published import QUESTION_TYPES, label_row, printed_title, question_row
from fdarx_core.storage.run_directory import LabelRows, RunDirectory, read_labels

_BASELINE = "baseline"
_ROLES = ("generator", "reader", "judge")
_PATHS = ("labels",)
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
_MORE = "100K<n<1M"


@dataclass(slots=True)
class BenchmarkCounts:
    """The counts of the dataset card."""

    labels: int = 0
    passages: int = 0
    types: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    endpoints: set[str] = field(default_factory=set)

    def add(self, rows: LabelRows) -> None:
        self.labels += 1
        self.passages += len(rows.passages)
        for question in rows.questions:
            self.types[question.type] += 1
            self.kinds[question.type, question.source, question.answer_kind] += 1
            self.categories[question.category or "none"] += 1
            self.endpoints |= {question.endpoint, *question.judge.split(", ")} - {""}


def dataset_card(tally: BenchmarkCounts, about: Mapping[str, Any]) -> str:
    """Return the card: Markdown after the YAML header that `datasets.load_dataset(folder, "factual")` reads."""
    config = {name: value for name, value in about.get("config", {}).items() if name not in _PATHS}
    # A model that judged all questions away took part as well, so the options count, not only the questions.
    roles = [config[role] for role in _ROLES if role in config]
    models = [model for role in roles for model in (role if isinstance(role, list) else [role])]
    asked = tally.endpoints | {model if isinstance(model, str) else model["name"] for model in models}
    settings = {
        "asked": ", ".join(sorted(asked)) or "no endpoint",
        **{name.replace("_", " "): json.dumps(value, ensure_ascii=False) for name, value in sorted(config.items())},
        "versions": ", ".join(f"{name} {number}" for name, number in sorted(about.get("versions", {}).items())),
        "digest of the input": about.get("input", {}).get("digest", "not recorded"),
    }
    kinds = [(*kind, f"{count:,}") for kind, count in sorted(tally.kinds.items())]
    topics = [(name, f"{count:,}") for name, count in sorted(tally.categories.items())]
    stages = [(one["stage"], f"{one['rows_in']:,}", f"{one['rejected']:,}") for one in about.get("stages", [])]
    audit = about.get("audit", {})
    templates = Environment(loader=PackageLoader("fdarx_core.storage"), trim_blocks=True, keep_trailing_newline=True)
    return templates.get_template("dataset_card.md.j2").render(
        size=next((name for bound, name in _SIZES if tally.types.total() < bound), _MORE),
        types=[name for name in QUESTION_TYPES if tally.types[name]],
        by_rules=asked <= {_BASELINE},
        settings=settings,
        questions=tally.types.total(),
        labels=tally.labels,
        passages=tally.passages,
        kinds=kinds,
        topics=topics,
        stages=stages,
        failed=audit.get("failed", []),
        audit_rows=[
            (one.name, one.value or f"not measured: {one.reason}", one.interval, one.chance, one.bound, one.questions)
            for one in map(audit_row, audit.get("figures", []))
        ],
    )


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A figure of the artifact audit as text: "" for what it lacks, and `reason` says why it is not measured."""

    name: str
    value: str
    interval: str
    chance: str
    bound: str
    questions: str
    drugs: str
    reason: str


def audit_row(figure: Mapping[str, Any]) -> AuditRow:
    """Return a figure of the artifact audit, as run.json has it, as text. Shares have three decimals, lengths none."""
    digits = 0 if figure["metric"].startswith("answer_words") else 3
    value, low, high, chance, bound = (
        "" if figure[name] is None else f"{figure[name]:.{digits}f}"
        for name in ("value", "low", "high", "chance", "bound")
    )
    interval = f"{low} to {high}" if low and high else ""
    questions, drugs = (f"{figure[name]:,}" for name in ("rows", "clusters"))
    return AuditRow(figure["name"], value, interval, chance, bound, questions, drugs, figure["reason"])


_ROW_GROUP = 2000
_GOLD_COLUMNS = ("gold_texts", "gold_titles")
_TEXTS = pa.list_(pa.string())
SCHEMA = pa.schema([*arrow_schema(QuestionAnswer), *(pa.field(name, _TEXTS) for name in _GOLD_COLUMNS)])
"""The columns of the Parquet files: QuestionAnswer, and the texts and section titles of its gold passages."""


def write_benchmark(run: RunDirectory, *, about: dict[str, Any]) -> dict[str, int]:
    """Write `benchmark/` from the labels, passages and questions of a run; return the numbers of questions by type.

    Rows are sorted by set id, type and id, so equal rows give equal bytes in however many parts they are. Each file
    appears whole or not at all, the card last.

    Args:
        run: the run of a build.
        about: its `run.json`; the card shows `config`, `versions`, `stages`, `input` and `audit`.

    Raises:
        StorageError: the parts do not belong together.
    """
    tally = BenchmarkCounts()
    with ExitStack() as stack:

        def output(name: str) -> BinaryIO:
            return stack.enter_context(run.file(f"benchmark/{name}").open_output())

        writers = {
            name: stack.enter_context(pq.ParquetWriter(output(f"{name}.parquet"), SCHEMA, compression="zstd"))
            for name in QUESTION_TYPES
        }
        pending: dict[str, list[tuple[QuestionAnswer, list[Passage]]]] = {name: [] for name in QUESTION_TYPES}
        questions, labels = output("qa.jsonl"), output("labels.jsonl")
        for rows in read_labels(run):
            for question in rows.questions:
                group = pending[question.type]
                group.append((question, rows.gold(question)))
                if len(group) == _ROW_GROUP:
                    _write_group(writers[question.type], group)
                questions.write(orjson.dumps(question_row(question, rows), option=orjson.OPT_APPEND_NEWLINE))
            labels.write(orjson.dumps(label_row(rows), option=orjson.OPT_APPEND_NEWLINE))
            tally.add(rows)
        for name, group in pending.items():
            if group:  # some readers fail on row groups without rows
                _write_group(writers[name], group)
    run.file("benchmark/README.md").write_text(dataset_card(tally, about))
    return {name: tally.types[name] for name in QUESTION_TYPES}


def _write_group(writer: pq.ParquetWriter, group: list[tuple[QuestionAnswer, list[Passage]]]) -> None:
    """Write a row group, and empty the list. Groups have the same size however the rows are divided into parts."""
    table = to_table((question for question, _ in group), QuestionAnswer)
    texts = [[passage.text for passage in gold] for _, gold in group]
    titles = [[printed_title(passage) for passage in gold] for _, gold in group]
    for name, values in zip(_GOLD_COLUMNS, (texts, titles), strict=True):
        table = table.append_column(name, pa.array(values, _TEXTS))
    writer.write_table(table)
    group.clear()
