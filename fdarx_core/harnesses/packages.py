"""Packages that run a benchmark in another harness: the samples as JSON lines, and the code or YAML of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from fdarx_core.evaluation.predictions import ANSWER_TASKS
from fdarx_core.harnesses.samples import ExportOptions, samples_of
from fdarx_core.harnesses.scoring import METRICS
from fdarx_core.records import content_id
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.benchmark_reader import Benchmark

SYSTEM_MESSAGES = "system_messages.jsonl"
"""The file of the system messages, which many prompts share: a whole label stands there once."""
MAX_TOKENS = 1024
"""Maximum number of tokens of a reply: the default of `fdarx evaluate`."""

HARNESSES: Mapping[str, Mapping[str, str]] = {
    "inspect": {"fdarx_tasks.py": "inspect_tasks.py.j2"},
    "lm-eval": {
        "utils.py": "lm_eval_utils.py.j2",
        "fdarx.yaml": "lm_eval_group.yaml.j2",
        "fdarx_common": "lm_eval_common.yaml.j2",
    },
}
"""The code of a package, each file with its template, by harness. In lm-eval, each task has a file as well."""
_TASK = "lm_eval_task.yaml.j2"
_README = "readme.md.j2"

_TEMPLATES = Environment(
    loader=PackageLoader("fdarx_core.harnesses"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def write_package(harness: str, benchmark: Benchmark, folder: Location, options: ExportOptions) -> Counter[str]:
    """Write a package into a folder that is empty or does not exist yet.

    Args:
        harness: one of `HARNESSES`.
        benchmark: the questions and labels.
        folder: the folder, on a disk or on s3://.
        options: what to export.

    Returns:
        The number of samples by setting; settings without any are left out of the package.

    Raises:
        StorageError: the folder has files, or no setting has a sample.
    """
    if not folder.is_empty():
        raise StorageError(f"{folder} has files in it; give a new folder, or delete that one")
    counts = _write_samples(benchmark, folder, options)
    if not counts:
        raise StorageError(
            f"{benchmark.about['address']} has no question for the settings {', '.join(options.settings)}; full_label "
            "and retrieved need labels with their complete text (labels.jsonl)"
        )
    content: dict[str, Any] = {
        "about": benchmark.about,
        "counts": {setting: counts[setting] for setting in options.settings if setting in counts},
        "harness": harness,
        "max_tokens": MAX_TOKENS,
        "metrics": METRICS,
        "prompts": [f"{ANSWER_TASKS[name].name} (version {ANSWER_TASKS[name].version})" for name in counts],
        "system_messages": SYSTEM_MESSAGES,
    }
    for name, template in {**HARNESSES[harness], "README.md": _README}.items():
        _write(folder / name, template, content)
    for setting in counts if harness == "lm-eval" else ():
        _write(folder / f"fdarx_{setting}.yaml", _TASK, {"setting": setting})
    return counts


def _write(file: Location, template: str, content: Mapping[str, Any]) -> None:
    file.write_text(_TEMPLATES.get_template(template).render(content))


def _write_samples(benchmark: Benchmark, folder: Location, options: ExportOptions) -> Counter[str]:
    """Write a file of samples for each setting, and the system messages once each; return the counts by setting."""
    counts: Counter[str] = Counter()
    messages: set[str] = set()
    with ExitStack() as files:

        def opened(name: str) -> BinaryIO:
            return files.enter_context((folder / name).open_output())

        system_messages = opened(SYSTEM_MESSAGES)
        streams: dict[str, BinaryIO] = {}
        for item in benchmark.items():
            for sample in samples_of(item, options):
                key = content_id(sample.system)
                if key not in messages:
                    messages.add(key)
                    system_messages.write(_line({"id": key, "text": sample.system}))
                if sample.setting not in streams:
                    streams[sample.setting] = opened(f"{sample.setting}.jsonl")
                streams[sample.setting].write(_line({**sample.to_row(), "system": key}))
                counts[sample.setting] += 1
    return counts


def _line(row: Mapping[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
