"""The dataset card of a benchmark: Markdown after a YAML header, from which `datasets.load_dataset` loads it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import pyarrow as pa
import yaml
from jinja2 import Environment, PackageLoader

from fdarx_core.storage.run_directory import LabelRows
from fdarx_core.storage.splits import SPLITS

COLUMNS: Mapping[str, Mapping[str, str]] = yaml.safe_load(
    files(__package__).joinpath("dataset_columns.yaml").read_text("utf-8")
)
"""What each column contains, for `questions`, `labels` and `passages`."""
_DATASET: Mapping[str, Any] = yaml.safe_load(files(__package__).joinpath("dataset.yaml").read_text("utf-8"))
"""The parts of the card that all benchmarks share: the beginning of its header, and the citation."""

BASELINE, _NOBODY = "baseline", "none"
_ROLES = ("generator", "reader", "judge")
_PATHS = ("labels",)
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
_MORE = "100K<n<1M"
_AUDIT_COLUMNS = ("interval", "chance", "bound", "questions")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the dataset. `size` is in bytes; `memory` is the size of its rows in memory in bytes."""

    config: str
    split: str
    path: str
    schema: pa.Schema
    rows: int
    size: int
    memory: int


@dataclass(slots=True)
class BenchmarkCounts:
    """The counts of the dataset card."""

    labels: int = 0
    passages: int = 0
    types: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    near_misses: int = 0
    endpoints: set[str] = field(default_factory=set)
    unscored: int = 0
    known: int = 0

    def add(self, rows: LabelRows) -> None:
        self.labels += 1
        self.passages += len(rows.passages)
        for question in rows.questions:
            self.types[question.type] += 1
            self.kinds[question.type, question.source, question.answer_kind] += 1
            self.categories[question.category or "none"] += 1
            self.near_misses += bool(question.attribute)
            self.endpoints |= {question.endpoint, *question.judge.split(", ")} - {""}
            self.unscored += bool(question.unscored)
            self.known += question.known_without_label


def who_judged(config: Mapping[str, Any]) -> str:
    """Return the sentence that says who wrote the questions of a build, who judged them, and who answered them again.

    `config` is that of run.json; where it has no roles, the sentence says that it is not known.
    """
    if not all(role in config for role in _ROLES):
        return "It is not recorded who wrote and judged these questions."
    writer, reader, judges = (model_names(config[role]) for role in _ROLES)
    said = {names: "“" + names.replace(", ", "”, “") + "”" for names in (writer, reader, judges)}
    by_rules = writer == BASELINE
    wrote = (
        "Rules wrote these template questions from the structure of the labels"
        if by_rules
        else f"The model {said[writer]} wrote them"
    )
    if judges == _NOBODY:
        judged = "no model judged them"
    else:
        judged = f"{said[judges]} judged " + ("its own questions" if judges == writer else "them")
    again = "no model answered them again" if reader == _NOBODY else f"{said[reader]} answered them again"
    return f"{wrote}, {judged}, and {again}."


def model_names(role: Any) -> str:
    """Return the names of the models of a role as run.json has them: a name, a model with its settings, or a list."""
    if isinstance(role, list):
        return ", ".join(map(model_names, role))
    return str(role["name"] if isinstance(role, Mapping) else role)


def dataset_card(tally: BenchmarkCounts, data: Sequence[DataFile], about: Mapping[str, Any]) -> str:
    """Return the dataset card. `data` are the Parquet files, `about` is as in `write_benchmark`."""
    config = {name: value for name, value in about.get("config", {}).items() if name not in _PATHS}
    # A model that judged all questions away took part as well, so the options count, not only the questions.
    roles = [config[role] for role in _ROLES if role in config]
    models = [model for role in roles for model in (role if isinstance(role, list) else [role])]
    asked = (tally.endpoints | {model if isinstance(model, str) else model["name"] for model in models}) - {_NOBODY}
    settings = {
        "asked": ", ".join(sorted(asked)) or "no endpoint",
        **{name.replace("_", " "): json.dumps(value, ensure_ascii=False) for name, value in sorted(config.items())},
        "versions": ", ".join(f"{name} {number}" for name, number in sorted(about.get("versions", {}).items())),
        "digest of the input": about.get("input", {}).get("digest", "not recorded"),
    }
    audit = about.get("audit", {})
    templates = Environment(loader=PackageLoader("fdarx_core.storage"), trim_blocks=True, keep_trailing_newline=True)
    return templates.get_template("dataset_card.md.j2").render(
        header=_header(tally.types.total(), data),
        counts=tally,
        by_rules=asked <= {BASELINE},
        who_judged=who_judged(config),
        settings=settings,
        effective=sum(about.get("effective_size", {}).values()),
        splits=[
            (name, *(f"{sum(file.rows for file in files if file.split == split):,}" for split in SPLITS))
            for name, files in _by_config(data).items()
        ],
        dev=any(file.split != SPLITS[0] for file in data),
        note=about.get("splits", {}).get("note", ""),
        kinds=[(*kind, f"{count:,}") for kind, count in sorted(tally.kinds.items())],
        topics=[(name, f"{count:,}") for name, count in sorted(tally.categories.items())],
        stages=[(row["stage"], f"{row['rows_in']:,}", f"{row['rejected']:,}") for row in about.get("stages", [])],
        failed=audit.get("failed", []),
        audit_note=audit.get("note", ""),
        audit_rows=[
            (row["name"], row["value"] or f"not measured: {row['reason']}", *map(row.get, _AUDIT_COLUMNS))
            for row in map(audit_row, audit.get("figures", []))
        ],
        columns=COLUMNS,
        citation=_DATASET["citation"],
        license_link=_DATASET["header"]["license_link"],
    )


def _by_config(data: Sequence[DataFile]) -> dict[str, list[DataFile]]:
    configs: dict[str, list[DataFile]] = {}
    for file in data:
        configs.setdefault(file.config, []).append(file)
    return configs


def _header(questions: int, data: Sequence[DataFile]) -> str:
    """Return the YAML header. Its `configs` list the files of each split, its `dataset_info` their columns."""
    configs, infos = [], []
    for name, held in _by_config(data).items():
        files = [{"split": file.split, "path": file.path} for file in held]
        configs.append({"config_name": name, "data_files": files})
        infos.append({
            "config_name": name,
            "features": _features(held[0].schema),
            "splits": [{"name": file.split, "num_bytes": file.memory, "num_examples": file.rows} for file in held],
            "download_size": sum(file.size for file in held),
            "dataset_size": sum(file.memory for file in held),
        })  # fmt: skip
    header = {
        **_DATASET["header"],
        "size_categories": [next((name for bound, name in _SIZES if questions < bound), _MORE)],
        "configs": configs,
        "dataset_info": infos,
    }
    return yaml.safe_dump(header, sort_keys=False, allow_unicode=True, width=120)


def _features(columns: Iterable[pa.Field]) -> list[dict[str, Any]]:
    """Return columns as `dataset_info` has them: a `dtype`, a `list` of one, or a `struct` of named features."""
    return [{"name": column.name, **_feature(column.type)} for column in columns]


def _feature(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(kind):
        inner = _feature(kind.value_type)
        return {"list": inner.get("dtype") or inner["struct"]}
    return {"struct": _features(kind)} if pa.types.is_struct(kind) else {"dtype": str(kind)}


def audit_row(figure: Mapping[str, Any]) -> dict[str, str]:
    """Return a figure of the artifact audit, as run.json has it, as text, with three decimals.

    What it lacks is "", and `reason` says why it is not measured.
    """
    names = ("value", "low", "high", "chance", "bound")
    row = {name: "" if figure[name] is None else f"{figure[name]:.3f}" for name in names}
    row["interval"] = f"[{row['low']}, {row['high']}]" if row["low"] and row["high"] else ""
    if figure.get("low_bound") is not None:
        row["bound"] = f"{figure['low_bound']:.3f} to {row['bound']}"
    row["questions"], row["drugs"] = (f"{figure[name]:,}" for name in ("rows", "clusters"))
    return row | {name: figure[name] for name in ("name", "reason")}
