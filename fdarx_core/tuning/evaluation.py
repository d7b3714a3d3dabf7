"""Answers to the test part before and after tuning, their losses and similarity to references, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from fdarx_core.evaluation.bootstrap import contrast, estimate
from fdarx_core.evaluation.metrics import ScoreColumns, mean_metric, metric_table
from fdarx_core.evaluation.similarity import AnswerSimilarity, rouge_l
from fdarx_core.records import Difference, Figure
from fdarx_core.retrieval.models import device
from fdarx_core.storage import RunDirectory, read_records, write_records
from fdarx_core.tuning.answerer_training import TuningSpec, answered_tokens, load_model, load_tokenizer, prompt_tokens
from fdarx_core.tuning.pairs import TrainingPair
from fdarx_core.tuning.trainer import load_library

BASE, TUNED = "base", "tuned"
_MODELS = (BASE, TUNED)
_BATCH_SIZE = 8


@dataclass(slots=True)
class TunedAnswer:
    """The answer of a model to a question of the test part.

    `model` is `BASE` or `TUNED`; `loss` is the mean cross-entropy of the tokens of the reference, in nats, and
    `rejected_loss` that of the worse answer of a preference pair. Similarities are None if no model for them was given.
    """

    id: str
    group: str
    model: str
    question: str
    reference: str
    answer: str
    loss: float
    rouge_l: float
    embedding_similarity: float | None = None
    bert_precision: float | None = None
    bert_recall: float | None = None
    bert_f1: float | None = None
    rejected_loss: float | None = None

    @property
    def preferred(self) -> float | None:
        """1 if the reference is likelier a token than the worse answer, else 0; None without a worse answer."""
        return None if self.rejected_loss is None else float(self.loss < self.rejected_loss)


MEASURES = {
    "loss": "Loss, nats per token",
    "preferred": "Better answer preferred",
    "rouge_l": "ROUGE-L",
    "embedding_similarity": "Embedding similarity",
    "bert_precision": "BERTScore precision",
    "bert_recall": "BERTScore recall",
    "bert_f1": "BERTScore F1",
}
"""The measures by the names of the attributes of `TunedAnswer`; a lower loss is better."""


Change = tuple[str, Figure, Figure, Difference]
"""A measure, its means for the base model and for the tuned one, and the difference of tuned from base."""


def answer_test_part(spec: TuningSpec, folder: str, pairs: Sequence[TrainingPair]) -> list[TunedAnswer]:
    """Return the measured answers of the base model and of the tuned one, whose files are in a local folder."""
    tokenizer = load_tokenizer(spec.model)
    rows: list[TunedAnswer] = []
    for name, model, context in _models(spec, folder):
        with context:
            for pair, text in zip(pairs, generate_answers(model, tokenizer, pairs, spec.max_tokens), strict=True):
                loss = answer_loss(model, tokenizer, pair, pair.answer)
                worse = answer_loss(model, tokenizer, pair, pair.rejected) if pair.rejected else None
                about = pair.id, pair.group, name, pair.question, pair.answer
                rows.append(TunedAnswer(*about, text, loss, 0.0, rejected_loss=worse))
    models = AnswerSimilarity(spec.bertscore_model, spec.bertscore_layers, spec.cosine_model)
    measured = models.measure([row.answer for row in rows], [row.reference for row in rows])
    return [
        replace(row, rouge_l=rouge_l(row.answer, row.reference), **found)
        for row, found in zip(rows, measured, strict=True)
    ]


def _models(spec: TuningSpec, folder: str) -> Iterator[tuple[str, Any, AbstractContextManager[Any]]]:
    """Yield the base model and the tuned one, each with the context in which it is itself."""
    base = load_model(spec)
    if spec.method == "full":
        yield BASE, _placed(base), nullcontext()
        del base  # both at once may not fit into the memory
        yield TUNED, _placed(load_model(spec, folder)), nullcontext()
        return
    tuned = _placed(load_library("peft").PeftModel.from_pretrained(base, folder))
    yield BASE, tuned, tuned.disable_adapter()
    yield TUNED, tuned, nullcontext()


def _placed(model: Any) -> Any:
    """Return the model in evaluation mode on the device; bitsandbytes has placed one of 4 bits already."""
    return (model if getattr(model, "is_loaded_in_4bit", False) else model.to(device())).eval()


def answer_loss(model: Any, tokenizer: Any, pair: TrainingPair, answer: str) -> float:
    """Return the mean cross-entropy of the tokens of an answer and the end of its turn, in nats."""
    torch = load_library("torch")
    tokens, start = answered_tokens(tokenizer, pair.prompt, answer)
    row = torch.tensor([tokens], device=model.device)
    with torch.inference_mode():
        logits = model(input_ids=row, use_cache=False).logits[0, start - 1 : -1].float()
        return float(torch.nn.functional.cross_entropy(logits, row[0, start:]))


def generate_answers(model: Any, tokenizer: Any, pairs: Sequence[TrainingPair], max_tokens: int) -> list[str]:
    """Answer the prompts of pairs by greedy decoding, with up to `max_tokens` tokens an answer, in their order."""
    torch = load_library("torch")
    answers = [""] * len(pairs)
    prompts = [prompt_tokens(tokenizer, pair.prompt) for pair in pairs]
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    for start in range(0, len(order), _BATCH_SIZE):
        batch = order[start : start + _BATCH_SIZE]
        # padding on the left, so that all replies begin at the same position
        padded = tokenizer.pad(
            {"input_ids": [prompts[index] for index in batch]}, padding_side="left", return_tensors="pt"
        ).to(model.device)
        with torch.inference_mode():
            generated = model.generate(
                **padded, do_sample=False, max_new_tokens=max_tokens, pad_token_id=tokenizer.pad_token_id
            )
        width = padded["input_ids"].shape[1]
        for index, row in zip(batch, generated, strict=True):
            answers[index] = str(tokenizer.decode(row[width:], skip_special_tokens=True)).strip()
    return answers


def tuning_figures(rows: Sequence[TunedAnswer], *, seed: int, resamples: int) -> list[Change]:
    """Return the means of each measure over the test part, with intervals by bootstrap over groups of similar pairs.

    The key of a figure is model.
    """
    metrics = [mean_metric(attrgetter(name), name) for name in MEASURES if getattr(rows[0], name) is not None]
    table = metric_table(rows, metrics, cluster=attrgetter("group"), question=attrgetter("id"), keys=["model"])
    columns = ScoreColumns(table)
    masks = [columns.is_in("model", name) for name in _MODELS]
    slices = [[(metric, mask) for mask in masks] for metric in metrics]
    means = estimate(columns, [side for pair in slices for side in pair], seed=seed, resamples=resamples)
    differ = contrast(columns, [(tuned, base) for base, tuned in slices], seed=seed, resamples=resamples)
    names = [metric.name for metric in metrics]
    sides = {"first": {"model": TUNED}, "second": {"model": BASE}}
    return [
        (
            name,
            Figure.of(name, {"model": BASE}, base),
            Figure.of(name, {"model": TUNED}, tuned),
            Difference.of(name, {}, difference, **sides),
        )
        for name, base, tuned, difference in zip(names, means[::2], means[1::2], differ, strict=True)
    ]


def write_changes(run: RunDirectory, changes: Sequence[Change]) -> None:
    """Store the figures and the differences of changes in a run."""
    write_records(run.file("figures.parquet"), [figure for _, *means, _ in changes for figure in means], Figure)
    write_records(run.file("differences.parquet"), [difference for *_, difference in changes], Difference)


def stored_changes(run: RunDirectory) -> list[Change]:
    """Return the changes that `write_changes` stored."""
    means = {
        (figure.metric, figure.keys["model"]): figure for figure in read_records(run.file("figures.parquet"), Figure)
    }
    return [
        (difference.metric, means[difference.metric, BASE], means[difference.metric, TUNED], difference)
        for difference in read_records(run.file("differences.parquet"), Difference)
    ]


def change_lines(changes: Iterable[Change]) -> list[str]:
    """Return each change in a line: the name of its measure, both means, and the difference."""
    lines = []
    for measure, base, tuned, difference in changes:
        interval = "" if difference.low is None else f" [{difference.low:+.3f}, {difference.high:+.3f}]"
        means = f"base {base.value:.3f}  tuned {tuned.value:.3f}"
        lines.append(f"{MEASURES[measure]:<22} {means}  difference {difference.value:+.3f}{interval}")
    return lines
