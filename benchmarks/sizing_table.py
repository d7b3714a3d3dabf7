"""The sizing table: loads in requests and tokens, scaled to more labels, and the GPU-hours that models take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import mean, stdev
from textwrap import wrap

from fdarx_core.pipeline.build import LABELS_PER_PART
from serving.served_model import ServedModel

CONTEXT = 40_960
"""Tokens of a prompt and its reply together, as all of serving/models/*-a100.yaml have it."""
MORE = (5_000, 50_000)
"""Labels that the sample is scaled to; of prescription labels DailyMed has some 50,000."""
BEGIN, END = "<!-- sizing -->", "<!-- /sizing -->"
_NOTES = """
Build: one model writes, rephrases and judges, with the default amounts. Answers: one model in four settings, BM25,
{context:,} tokens of context. Grades: the same model judges the answers. `python -m benchmarks.sizing` counts requests
and tokens for {labels} labels with the functions behind `--plan`, and scales them to more labels; ± is half the 95 %
interval for other labels of the same kind. Identical requests are sent once, and larger sets have more of them, so
that the scaled counts are upper estimates. Shared: tokens at the beginning of a prompt that the previous prompt has
too. GPU-hours: GPUs × hours, from `throughput` in `serving/models/` (measured by `python -m benchmarks.throughput`),
with a prefix cache and, in brackets, without one.

A token is counted as four characters: on label text, 3 % more tokens than Llama 3's tokenizer counts, 2 % fewer than
Qwen's and 1 % more than Mistral's; on questions and replies, 10 to 16 % more. Tokens out are those of the built-in
rules' replies. Replies that are 100 tokens longer, as with reasoning, add {least} to {most} GPU-hours to the three
kinds of work on {labels} labels.
"""


@dataclass(slots=True)
class Load:
    """What one kind of work asks for `labels` labels; `parts` holds the prompt tokens of each part of them."""

    name: str
    labels: int
    requests: float = 0
    prompt: float = 0
    shared: float = 0
    completion: float = 0
    parts: list[int] = field(default_factory=list)

    def scaled(self, labels: int) -> Load:
        by = labels / self.labels
        return Load(self.name, labels, self.requests * by, self.prompt * by, self.shared * by, self.completion * by)

    def error(self, labels: int) -> str:
        """Half of the 95 % interval for so many other labels of the same kind, as a share of their tokens."""
        if len(self.parts) < 2:
            return "?"
        spread = stdev(self.parts) / mean(self.parts)
        return f"{1.96 * spread * sqrt(1 / len(self.parts) + LABELS_PER_PART / labels):.0%}"

    def gpu_hours(self, model: ServedModel, *, cached: bool) -> float:
        """Of a replica's cards together."""
        assert model.throughput is not None
        read = self.prompt - self.shared if cached else self.prompt
        seconds = read / model.throughput.prefill + self.completion / model.throughput.decode
        return seconds * model.tensor_parallel / 3600


def table(loads: Sequence[Load], models: Sequence[ServedModel]) -> str:
    """Two Markdown tables, and what they rest on."""
    sizes = (loads[0].labels, *MORE)
    lines = [
        "| labels | work | requests | tokens in | shared | tokens out | ± |",
        "|--:|---|--:|--:|--:|--:|--:|",
    ]
    lines += [_tokens(load, labels) for labels in sizes for load in loads]
    lines += ["", *_hours_head(sizes)]
    lines += [_hours(load, model, sizes) for model in models for load in loads]
    return "\n".join([*lines, "", *_notes(loads, models)])


def _tokens(load: Load, labels: int) -> str:
    one = load.scaled(labels)
    error = "" if labels == load.labels else load.error(labels)
    tokens = f"{_short(one.prompt)} | {one.shared / one.prompt:.0%} | {_short(one.completion)}"
    return f"| {labels:,} | {load.name} | {one.requests:,.0f} | {tokens} | {error} |"


def _hours_head(sizes: Sequence[int]) -> list[str]:
    named = " | ".join(f"{labels:,} labels" for labels in sizes)
    return [f"| model | GPUs | work | {named} |", "|---|--:|---" + "|--:" * len(sizes) + "|"]


def _hours(load: Load, model: ServedModel, sizes: Sequence[int]) -> str:
    cells = []
    for labels in sizes:
        one = load.scaled(labels)
        with_cache, without = one.gpu_hours(model, cached=True), one.gpu_hours(model, cached=False)
        cells.append(f"{_figures(with_cache)} ({_figures(without)})")
    return f"| {model.name} | {model.tensor_parallel} | {load.name} | {' | '.join(cells)} |"


def _notes(loads: Sequence[Load], models: Sequence[ServedModel]) -> list[str]:
    more = [replace(load, prompt=0.0, shared=0.0, completion=load.requests * 100) for load in loads]
    longer = [sum(load.gpu_hours(model, cached=True) for load in more) for model in models]
    least, most = (_figures(bound(longer, default=0.0)) for bound in (min, max))
    text = _NOTES.format(labels=loads[0].labels, context=CONTEXT, least=least, most=most)
    return [line for paragraph in text.strip().split("\n\n") for line in (*wrap(paragraph, 120), "")][:-1]


def _figures(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _short(value: float) -> str:
    return f"{value / 1e9:,.2f} G" if value >= 1e9 else f"{value / 1e6:,.1f} M"


def written(text: str, between: str) -> str:
    """The text with that between its marks. Raises ValueError where it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} … {END}; put both where the table is to stand")
    return f"{before}{BEGIN}\n{between}\n{END}{after}"
