"""Write a benchmark: Parquet files, FDARxBench's published format, and the dataset card."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from fdarx_core.records import Passage, QuestionAnswer, arrow_schema, to_table
from fdarx_core.storage.published import QUESTION_TYPES, label_row, printed_title, question_row
from fdarx_core.storage.run_directory import LabelRows, RunDirectory, read_labels

_BASELINE = "baseline"
_ROLES = ("generator", "rephraser", "judge")
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
            self.endpoints |= {question.endpoint, question.judge} - {""}


def dataset_card(tally: BenchmarkCounts, about: Mapping[str, Any]) -> str:
    """Return the card: Markdown after the YAML header that `datasets.load_dataset(folder, "factual")` reads."""
    parts = (_INTRODUCTION, _making(tally, about), _counts(tally, about), _COLUMNS, _LIMITS, _LICENCE)
    return f"---\n{_header(tally)}---\n\n" + "\n\n".join(part.strip() for part in parts) + "\n"


def _header(tally: BenchmarkCounts) -> str:
    total = tally.types.total()
    # `datasets` refuses a split without rows, so a type that has no questions is no configuration.
    files = {name: [{"split": "train", "path": f"{name}.parquet"}] for name in QUESTION_TYPES if tally.types[name]}
    header = {
        "pretty_name": "Questions on FDA drug labels",
        "language": ["en"],
        "license": "other",
        "task_categories": ["question-answering"],
        "tags": ["medical", "drug-labels", "spl", "multi-hop", "refusal"],
        "size_categories": [next((name for bound, name in _SIZES if total < bound), _MORE)],
        "configs": [{"config_name": name, "data_files": paths} for name, paths in files.items()],
    }
    return yaml.safe_dump(header, sort_keys=False)


def _making(tally: BenchmarkCounts, about: Mapping[str, Any]) -> str:
    config = {name: value for name, value in about.get("config", {}).items() if name not in _PATHS}
    # A model that judged all questions away took part as well, so the options count, not only the questions.
    roles = [config[role] for role in _ROLES if role in config]
    asked = tally.endpoints | {role if isinstance(role, str) else role["name"] for role in roles}
    facts = {
        "asked": ", ".join(sorted(asked)) or "no endpoint",
        **{name.replace("_", " "): json.dumps(value, ensure_ascii=False) for name, value in sorted(config.items())},
        "versions": ", ".join(f"{name} {number}" for name, number in sorted(about.get("versions", {}).items())),
        "digest of the input": about.get("input", {}).get("digest", "not recorded"),
    }
    note = _NO_MODEL if asked <= {_BASELINE} else _BY_MODEL
    return f"{_MAKING.strip()}\n\n{note.strip()}\n\n{_table(('setting', 'value'), facts.items())}"


def _counts(tally: BenchmarkCounts, about: Mapping[str, Any]) -> str:
    kinds = [(*kind, f"{count:,}") for kind, count in sorted(tally.kinds.items())]
    categories = [(name, f"{count:,}") for name, count in sorted(tally.categories.items())]
    stages = [(one["stage"], f"{one['rows_in']:,}", f"{one['rejected']:,}") for one in about.get("stages", [])]
    tables = [
        f"## Counts\n\n{tally.types.total():,} questions on {tally.labels:,} labels with {tally.passages:,} passages.",
        _table(("type", "source", "kind of answer", "questions"), kinds),
        _table(("topic", "questions"), categories),
    ]
    if stages:
        tables.append("What went into each stage of the build and what was dropped there, with a reason in `rejects/`:")
        tables.append(_table(("stage", "rows in", "rejected"), stages))
    return "\n\n".join(tables)


def _table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


_INTRODUCTION = """
# Questions on FDA drug labels

Questions with gold answers, and the label passages that bear the answers out, made from Structured Product Labeling
(SPL) of human prescription drugs. Three kinds, after the design of FDARxBench:

- `factual`: answered by one place of one label;
- `multihop`: answered only by two places of one label together;
- `refusal`: asks one label about something that it nowhere mentions; the right answer is that it does not say.

```python
from datasets import load_dataset

factual = load_dataset("path/to/this/folder", "factual", split="train")
```

The same questions stand in `qa.jsonl`, and the labels with their passages in `labels.jsonl`, in the format in which
FDARxBench was published.
"""

_MAKING = """
## How it was made

FDARx read the labels' XML, cut their bodies into passages, and chose passages and pairs of passages to ask about.
Highlights gave questions by template, with the statement as the answer; single passages and pairs of them were put to
the endpoint named below; refusal questions came from templates filled with things whose absence from the whole label
was checked. Rules then dropped questions that were incomplete, damaged, too long or short, did not name the drug,
joined two questions, or whose answers the passages did not bear out, and those that repeat another of their label.
The endpoint named as judge was then asked of each whether it is relevant, supported by its passages and, refusals
apart, free of faults; only what passed is here.
"""

_NO_MODEL = """
**No language model took part.** The questions were written by rules (the endpoint `baseline`): patterns and templates
over the labels' own sentences. They are plainer and more alike than those a model or a person would write.
"""

_BY_MODEL = """
**Language models took part**, as generator, rephraser or judge, see the settings. What they wrote was parsed and
filtered by rules; no person has read it all.
"""

_COLUMNS = """
## Columns of the Parquet files

| column | content |
| --- | --- |
| id | stable id of the question, from its content |
| type, answer_kind | factual, multihop, refusal; the first also as factual, list or numeric |
| source | highlights, section, section_pair, refusal_template |
| category | the label topic it belongs to, by rule |
| set_id, drug_name | the SPL document, and the drug as it names it |
| question, answer | text; all refusal questions have the same answer |
| gold_passages | doc_chunk_index of the passages that the answer rests on; none for refusal |
| gold_codes | LOINC codes of their sections |
| gold_has_answer | whether the answer stands in that passage |
| gold_texts, gold_titles | their texts, and their sections' numbers and titles |
| template, entity | the template it was made from; for refusal, the absent thing |
| task, task_version, endpoint, response_key | the response it came from, in the run's `responses/` |
| relevance, judge, verdict_keys | what the judge says of its relevance, who judged, by which responses |

In `qa.jsonl`, `qfilter_category` and `qfilter_relevance` are the judge's topic and relevance, "NA" where none judged.
"""

_LIMITS = """
## Known limits

- Gold passages are those the question was made from. Labels repeat themselves, so other passages may answer it as well.
- A label says what it says in its own version; later versions, and other makers' labels, may differ.
- Absence was checked by words: something named in the label in other words may be asked for as absent.
- Not for clinical use.
"""

_LICENCE = """
## Licence

Label texts are those that manufacturers filed with the FDA as SPL and that the National Library of Medicine publishes
on DailyMed; read DailyMed's and openFDA's terms before you pass them on. The wording of questions that come from
templates is FDARx's own (Apache-2.0). Names of products may be trademarks of their owners.
"""


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
        about: its `run.json`; the card shows `config`, `versions`, `stages` and `input`.

    Raises:
        StorageError: the parts do not belong together.
    """
    tally = BenchmarkCounts()
    with ExitStack() as stack:

        def output(name: str) -> BinaryIO:
            return stack.enter_context(run.file(f"benchmark/{name}").open_output())

        tables: dict[str, _Table] = {}
        for name in QUESTION_TYPES:
            writer = pq.ParquetWriter(output(f"{name}.parquet"), SCHEMA, compression="zstd")
            tables[name] = _Table(stack.enter_context(writer))
        questions, labels = output("qa.jsonl"), output("labels.jsonl")
        for rows in read_labels(run):
            for question in rows.questions:
                tables[question.type].add(question, rows.gold(question))
                questions.write(orjson.dumps(question_row(question, rows), option=orjson.OPT_APPEND_NEWLINE))
            labels.write(orjson.dumps(label_row(rows), option=orjson.OPT_APPEND_NEWLINE))
            tally.add(rows)
        for table in tables.values():
            table.flush()
    run.file("benchmark/README.md").write_text(dataset_card(tally, about))
    return {name: tally.types[name] for name in QUESTION_TYPES}


@dataclass(slots=True)
class _Table:
    """A Parquet file, written in row groups of the same size however the rows are divided into parts."""

    writer: pq.ParquetWriter
    rows: list[tuple[QuestionAnswer, list[Passage]]] = field(default_factory=list)

    def add(self, question: QuestionAnswer, gold: list[Passage]) -> None:
        self.rows.append((question, gold))
        if len(self.rows) == _ROW_GROUP:
            self.flush()

    def flush(self) -> None:
        if not self.rows:  # some readers fail on row groups without rows
            return
        table = to_table((question for question, _ in self.rows), QuestionAnswer)
        texts = [[passage.text for passage in gold] for _, gold in self.rows]
        titles = [[printed_title(passage) for passage in gold] for _, gold in self.rows]
        for name, values in zip(_GOLD_COLUMNS, (texts, titles), strict=True):
            table = table.append_column(name, pa.array(values, _TEXTS))
        self.writer.write_table(table)
        self.rows = []
