"""Export a benchmark as a package for another evaluation harness: samples as JSON lines, and the code of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated, Any, BinaryIO, Literal

import orjson
from cyclopts import Parameter
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import Field

from fdarx_core.evaluation.gold import equivalences, equivalents_by_gold, gold_indices
from fdarx_core.evaluation.predictions import ANSWER_TASKS
from fdarx_core.evaluation.settings import RETRIEVED, SETTINGS, TokenBudget, is_due, needs_whole_label, prompt_context
from fdarx_core.harnesses.scoring import METRICS, HarnessSample
from fdarx_core.records import Passage, content_id
from fdarx_core.retrieval.retrievers import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.specs.options import JobConfig, Names, one_of
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.benchmark_reader import Benchmark, BenchmarkItem, read_benchmark
from jobs.cli import run_as
from jobs.output import print_json
from jobs.progress import busy

_WHOLE_LABELS = ", because the benchmark has no complete text of its labels (labels.jsonl)"
_SYSTEM_MESSAGES = "system_messages.jsonl"
"""The file of the system messages, which many prompts share: a whole label stands there once."""
_RETRIEVER = "bm25"
_MAX_TOKENS = 1024
"""Maximum number of tokens of a reply: the default of `fdarx evaluate`."""
_CODE = {
    "inspect": {"fdarx_tasks.py": "inspect_tasks.py.j2"},
    "lm-eval": {
        "utils.py": "lm_eval_utils.py.j2",
        "fdarx.yaml": "lm_eval_group.yaml.j2",
        "fdarx_common": "lm_eval_common.yaml.j2",
    },
}
"""The code of a package, each file with its template, by harness. In lm-eval, each task has a file as well."""


class ExportConfig(JobConfig):
    """Options of `fdarx export`."""

    to: Literal["inspect", "lm-eval"]
    """harness that the package is for: inspect, lm-eval"""
    out: str
    """folder to write, on disk or s3://; it must be empty"""
    settings: Annotated[Names, one_of(SETTINGS, "setting")] = Field(list(SETTINGS))
    """evidence to show: closed_book, full_label, oracle, retrieved; separated by commas or spaces"""
    top_k: int = Field(5, ge=1)
    """number of passages that BM25 finds for the setting `retrieved`"""
    label_chars: int | None = Field(None, ge=1)
    """maximum number of characters of a label's text (complete text)"""


def export(benchmark: str, /, *, config: Annotated[ExportConfig, Parameter(name="*")]) -> int:
    """Export a benchmark as a package that runs in inspect or lm-eval, with the prompts and scores of FDARx.

    Parameters
    ----------
    benchmark
        A run of `fdarx build`, or a folder (or file) with qa*.jsonl and labels.jsonl in FDARxBench's published format;
        on disk or s3://.
    """
    with busy("reading the benchmark", quiet=config.quiet):
        opened = read_benchmark(benchmark)
    with busy("writing the package", quiet=config.quiet):
        counts = _write_package(opened, config)
    if config.as_json:
        print_json({"out": config.out, "samples": dict(counts), "rejected": len(opened.rejects)})
        return 0
    for setting in config.settings:
        why = "" if counts[setting] or not needs_whole_label(setting) else _WHOLE_LABELS
        print(f"{setting:12} {counts[setting]:,} questions{why}")
    if opened.rejects:
        print(f"{len(opened.rejects):,} rows of the benchmark cannot be read and are left out")
    print(f"README       {Location(config.out) / 'README.md'}")
    return 0


def _write_package(benchmark: Benchmark, config: ExportConfig) -> Counter[str]:
    """Write the package; return the number of samples by setting. Settings without any are left out."""
    folder = Location(config.out)
    if not folder.is_empty():
        raise StorageError(f"{folder} has files in it; give a new folder, or delete that one")
    counts = _write_samples(benchmark, folder, config)
    if not counts:
        raise StorageError(
            f"{benchmark.about['address']} has no question for the settings {', '.join(config.settings)}; full_label "
            "and retrieved need labels with their complete text (labels.jsonl)"
        )
    content: dict[str, Any] = {
        "about": benchmark.about,
        "counts": {setting: counts[setting] for setting in config.settings if setting in counts},
        "harness": config.to,
        "max_tokens": _MAX_TOKENS,
        "metrics": METRICS,
        "prompts": [f"{ANSWER_TASKS[name].name} (version {ANSWER_TASKS[name].version})" for name in counts],
        "system_messages": _SYSTEM_MESSAGES,
    }
    templates = Environment(
        loader=PackageLoader("fdarx_core.harnesses"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name, template in {**_CODE[config.to], "README.md": "readme.md.j2"}.items():
        (folder / name).write_text(templates.get_template(template).render(content))
    for setting in counts if config.to == "lm-eval" else ():
        task = templates.get_template("lm_eval_task.yaml.j2").render(setting=setting)
        (folder / f"fdarx_{setting}.yaml").write_text(task)
    return counts


def _write_samples(benchmark: Benchmark, folder: Location, config: ExportConfig) -> Counter[str]:
    """Write a file of samples for each setting, and the system messages once each; return the counts by setting."""
    counts: Counter[str] = Counter()
    messages: set[str] = set()
    with ExitStack() as files:
        streams: dict[str, BinaryIO] = {}

        def write(name: str, row: dict[str, Any]) -> None:
            if name not in streams:
                streams[name] = files.enter_context((folder / name).open_output())
            streams[name].write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

        for sample in (sample for item in benchmark.items() for sample in _samples(item, config)):
            key = content_id(sample.system)
            if key not in messages:
                messages.add(key)
                write(_SYSTEM_MESSAGES, {"id": key, "text": sample.system})
            write(f"{sample.setting}.jsonl", {**asdict(sample), "system": key})
            counts[sample.setting] += 1
    return counts


def _samples(item: BenchmarkItem, config: ExportConfig) -> Iterator[HarnessSample]:
    """Yield the samples of a label, setting by setting, with the messages that `fdarx evaluate` sends.

    Settings that need the whole label have none where it is not known.
    """
    equal = {equivalence.question_id: equivalence for equivalence in equivalences(item.questions, item.passages)}
    budget = TokenBudget(config.label_chars)
    for setting in config.settings:
        if needs_whole_label(setting) and not item.subject.whole:
            continue
        due = [question for question in item.questions if is_due(setting, question)]
        ranked: dict[str, list[Passage]] = {}
        if setting == RETRIEVED and due:
            collection = Collection([passage_search_text(passage) for passage in item.passages])
            queries = Queries([question.question for question in due])
            rankings = get_retriever(_RETRIEVER).rank(queries, collection, config.top_k)
            for question, found in zip(due, rankings, strict=True):
                ranked[question.id] = [item.passages[place] for place, _ in found]
        for question in due:
            context = prompt_context(setting, question, item.passages, ranked.get(question.id, ()), budget)
            messages = ANSWER_TASKS[setting].request(context.slots, endpoint="").messages
            system, user = (message["content"] for message in messages)
            yield HarnessSample(
                id=question.id,
                setting=setting,
                retriever=_RETRIEVER if setting == RETRIEVED else "",
                type=question.type,
                set_id=question.set_id,
                drug=question.drug_name,
                question=question.question,
                target=question.answer,
                gold=gold_indices(question),
                equivalents=[
                    [gold, member]
                    for (_, gold), members in equivalents_by_gold(equal.get(question.id)).items()
                    for _, member in sorted(members)
                ],
                citable=list(context.numbered),
                system=system,
                user=user,
            )


if __name__ == "__main__":
    run_as("export")
