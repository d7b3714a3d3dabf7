"""Training of an NLI cross-encoder by the Trainer of transformers, on marked pairs that are split by drug substance.

Pairs are also made from the labels of a build.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fdarx_core.baseline.tokens import contains_name, strip_references, vocabulary, word_overlap
from fdarx_core.evaluation.verifier_scores import MarkedPair
from fdarx_core.records import Highlight, Label, Passage, content_id
from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.run_directory import LabelRows, read_labels
from fdarx_core.tuning.pairs import PARTS, part_of
from fdarx_core.tuning.trainer import (
    LossPoint,
    Report,
    load_library,
    run_training,
    training_arguments,
    training_callbacks,
)
from fdarx_core.verify.engine import TextPair
from fdarx_core.verify.named_models import resolve
from fdarx_core.verify.nli_model import check_nli
from fdarx_core.verify.numbers import missing_number

T = TypeVar("T")

SOURCE = "labels"
MIN_OVERLAP = 0.6
"""The least share of a Highlights statement's words that its supporting text has; statements below give no pair."""
MAX_WORDS = 250
"""The words up to which a text is extended by passages that stand beside it in the same section."""
_SUBSTANCES = "; "
_NUMBER = re.compile(r"(?<![\w.,(/-])\d+(?:\.\d+)?(?![\w.,)-])")
_FACTORS = (2.0, 3.0, 10.0, 0.5)
_COPULA = re.compile(r"\b(is|are|was|were|should|must|does|do) (?!not\b|no\b)")
_NOT = re.compile(r"\b(is|are|was|were|should|must|does|do) not\b")


def label_pairs(build: RunDirectory, seed: int) -> Iterator[MarkedPair]:
    """Yield pairs from the labels of a build; their `drug` names the label's substances.

    A Highlights statement is supported by the sections that it cites. It is unsupported by a passage of another
    section, chosen by a hash, and contradicted by its own text once its number, unit, polarity or population is
    changed; one kind of change is chosen by a hash.
    """
    for rows in read_labels(build):
        drug = substances_of(rows.label)
        for highlight in rows.label.highlights:
            for mark, text, statement in _pairs_of(rows, highlight, str(seed)):
                yield MarkedPair(text, statement, mark, SOURCE, drug)


def substances_of(label: Label) -> str:
    """Return the substances of a label in order, in lower case, "; " between them; its drug's name without any."""
    return _SUBSTANCES.join(sorted({name.lower() for name in label.substances})) or label.drug_name.lower()


def _pairs_of(rows: LabelRows, highlight: Highlight, seed: str) -> Iterator[tuple[str, str, str]]:
    statement = strip_references(highlight.text).strip()
    passages = list(rows.passages.values())
    cited = [one for one in passages if _is_cited(one, highlight)]
    text = _supporting_text(statement, cited)
    if word_overlap(statement, text) < MIN_OVERLAP or missing_number(TextPair(text, statement)):
        return
    yield "supported", text, statement
    changed = list(changed_statements(statement, text, seed))
    if changed:
        yield "contradicted", text, _chosen([one for _, one in changed], seed, statement)
    own = {one.core_code for one in cited} | {highlight.code}
    others = [one.text for one in passages if one.core_code not in own and word_overlap(statement, one.text) < 0.5]
    if others:
        yield "unsupported", _chosen(others, seed, statement), statement


def _is_cited(passage: Passage, highlight: Highlight) -> bool:
    """Return whether a passage is of a section that the statement cites; of its own one where it cites none."""
    if not highlight.references:
        return passage.core_code == highlight.code
    return any(f"{passage.section_number}.".startswith(f"{number}.") for number in highlight.references)


def _supporting_text(statement: str, cited: Sequence[Passage]) -> str:
    """Return the cited passage with the largest share of the statement's words, and those after and before it."""
    if not cited:
        return ""
    best = max(range(len(cited)), key=lambda index: word_overlap(statement, cited[index].text))
    chosen, words = [best], len(cited[best].text.split())
    for step in (1, -1):
        at = best + step
        while 0 <= at < len(cited) and cited[at].section_path == cited[best].section_path:
            words += len(cited[at].text.split())
            if words > MAX_WORDS:
                break
            chosen.append(at)
            at += step
    return "\n".join(cited[index].text for index in sorted(chosen))


def changed_statements(statement: str, text: str, seed: str) -> Iterator[tuple[str, str]]:
    """Yield a statement that its text supports with one thing changed, after the kind of the change.

    Kinds are number, unit, polarity and population, each once at most, and left out where the text would still bear
    the statement out: a changed amount must be missing from it, and so must the name of the other population.
    """
    amounts = [
        ("number", statement[: one.start()] + f"{float(one[0]) * factor:g}" + statement[one.end() :])
        for one in _NUMBER.finditer(statement)
        for factor in (_chosen(_FACTORS, seed, statement, one[0]),)
    ]
    amounts += [("unit", one) for one in _replaced(statement, vocabulary(__package__)["units"], r"(?<=\d )", r"\b")]
    polarity = _replaced(statement, _opposites(), r"(?i:\b)", r"\b")
    polarity += [_NOT.sub(r"\1", statement, count=1)] if _NOT.search(statement) else []
    polarity += [] if _NOT.search(statement) else [_COPULA.sub(r"\1 not ", statement, count=1)]
    populations = [
        one
        for old, new in vocabulary(__package__)["populations"].items()
        if not contains_name(text, new)
        for one in _replaced(statement, {old: new}, r"\b", r"\b")
    ]
    kinds = {
        "number": [one for kind, one in amounts if kind == "number" and missing_number(TextPair(text, one))],
        "unit": [one for kind, one in amounts if kind == "unit" and missing_number(TextPair(text, one))],
        "polarity": [one for one in polarity if one != statement],
        "population": populations,
    }
    for kind, found in kinds.items():
        if found:
            yield kind, _chosen(found, seed, statement, kind)


def _replaced(statement: str, swaps: Mapping[str, str], before: str, after: str) -> list[str]:
    """Return the statement with one of its words replaced, for each place where a swap applies."""
    return [
        statement[: one.start()] + new + statement[one.end() :]
        for old, new in swaps.items()
        for one in re.finditer(f"{before}{re.escape(old)}{after}", statement)
    ]


def _opposites() -> dict[str, str]:
    """Return words with their opposites; `contraindicated`, which can't stand before a noun as others can, is none."""
    found: dict[str, str] = {}
    for first, second in map(str.split, vocabulary(__package__)["opposites"]):
        for old, new in ((first, second), (second, first)):
            if new != "contraindicated":
                found.setdefault(old, new)
    return found


def _chosen(options: Sequence[T], *about: str) -> T:
    return options[int(content_id(*about), 16) % len(options)]


def split_by_substance(
    pairs: Sequence[MarkedPair], seed: int, aliases: Mapping[str, str]
) -> tuple[dict[str, list[MarkedPair]], Counter[str]]:
    """Return the pairs of each part, and how many were left out by reason.

    All pairs of a substance are in one part, chosen by a hash of the seed; a pair without a drug goes by its text.
    `aliases` gives the substances of a label for each of its drug's names, in lower case. Left out are all pairs
    of sources with two classes (`two_classes`), whose supported pairs alone would make their wording a mark of support,
    and pairs of several substances of different parts (`several_parts`).

    Raises:
        ValueError: a part is empty.
    """
    parts: dict[str, list[MarkedPair]] = {part: [] for part in PARTS}
    left_out: Counter[str] = Counter()
    two_classes = {pair.source for pair in pairs if pair.mark == "not_supported"}
    for pair in dict.fromkeys(pairs):
        drug = aliases.get(pair.drug.lower(), pair.drug.lower()) or content_id(pair.text)
        found = {part_of(name, seed) for name in drug.split(_SUBSTANCES)}
        if pair.source in two_classes:
            left_out["two_classes"] += 1
        elif len(found) > 1:
            left_out["several_parts"] += 1
        else:
            parts[found.pop()].append(replace(pair, drug=drug if pair.drug else ""))
    for part, held in parts.items():
        if not held:
            raise ValueError(f"none of {len(pairs):,} pairs is in the {part} part; give more drugs, or another --seed")
    return parts, left_out


def aliases_of(build: RunDirectory) -> dict[str, str]:
    """Return the substances of the labels of a build by each name of their drugs, in lower case.

    A name of several drugs has those of the label with the fewest substances.
    """
    found: dict[str, str] = {}
    for rows in read_labels(build):
        drug = substances_of(rows.label)
        for name in map(str.lower, (rows.label.drug_name, *rows.label.aliases)):
            if name not in found or drug.count(_SUBSTANCES) < found[name].count(_SUBSTANCES):
                found[name] = drug
    return found


LABELS = ("entailment", "neutral", "contradiction")
_CLASS_OF = {"supported": "entailment", "unsupported": "neutral", "contradicted": "contradiction"}
_WARM_UP = 0.06


@dataclass(frozen=True, slots=True)
class VerifierSpec:
    """The base model, and how it is trained.

    `model` is a directory or a name as `named_models.resolve` takes it. `batch` is in pairs, `length` in tokens of text
    and statement together. `evaluate_every` is in steps; None evaluates four times an epoch. Training stops after
    `patience` evaluations without a lower validation loss.
    """

    model: str
    rate: float = 2e-5
    epochs: int = 2
    batch: int = 16
    length: int = 384
    evaluate_every: int | None = None
    patience: int = 4
    seed: int = 0


def train_verifier(
    spec: VerifierSpec,
    parts: Mapping[str, Sequence[MarkedPair]],
    out: Path,
    report: Report,
) -> tuple[list[LossPoint], int]:
    """Train a classifier of three classes and save that of the lowest validation loss to `out`/model.

    Checkpoints are in `out`/checkpoints; a later call goes on from the newest whole one. Texts are cut to `length` at
    their end, statements never: a pair whose statement has more than half of `length` tokens is left out.

    Args:
        spec: the base model, and how it is trained.
        parts: the pairs of the parts train and validation.
        out: a folder on a local disk.
        report: is told of each step.

    Returns:
        The loss curve, whose losses are in nats a pair, and the pairs left out.

    Raises:
        ModelMissing: the model or the `models` extra is missing.
        ValueError: the loss is not finite, or a part has no pair that fits.
    """
    transformers = load_library("transformers")
    transformers.set_seed(spec.seed)  # before the model, whose new head is random
    model, tokenizer = _load(transformers, spec.model)
    numbers = model.config.label2id
    encoded = {
        part: [_encode(tokenizer, pair, numbers, spec.length) for pair in parts[part]]
        for part in ("train", "validation")
    }
    fitting = {part: [row for row in rows if row is not None] for part, rows in encoded.items()}
    for part, rows in fitting.items():
        if not rows:
            raise ValueError(f"no statement of the {part} part fits into half of {spec.length} tokens; raise --length")

    trainer = transformers.Trainer(
        model=model,
        args=_arguments(transformers, spec, out),
        train_dataset=fitting["train"],
        eval_dataset=fitting["validation"],
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        callbacks=training_callbacks(spec.patience, report),
    )
    curve = run_training(trainer, batch=spec.batch, evaluate_every=spec.evaluate_every)
    trainer.save_model(str(out / "model"))
    tokenizer.save_pretrained(out / "model")
    left_out = sum(row is None for rows in encoded.values() for row in rows)
    return curve, left_out


def _load(transformers: Any, name: str) -> tuple[Any, Any]:
    """Return the model with three classes and its tokenizer. An NLI model keeps the order of its classes."""
    place, revision, _ = resolve(name)
    known = {"revision": revision or "main", "local_files_only": Path(place).is_dir()}
    labels = list(LABELS)
    try:
        classes = check_nli(name)
        if classes.contradiction is not None:
            places = dict(zip(LABELS, (classes.entailment, classes.neutral, classes.contradiction), strict=True))
            labels.sort(key=places.__getitem__)
    except ModelMissing:
        pass  # not an NLI model yet: it gets a new head
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: at for at, label in enumerate(labels)}}
    try:
        config = transformers.AutoConfig.from_pretrained(place, **known, **names)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, **known)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            place, config=config, ignore_mismatched_sizes=True, **known
        )
    except (OSError, ValueError) as error:
        raise ModelMissing(f"--model {name} can't be loaded: {' '.join(str(error).split())[:300]}") from error
    return model.float(), tokenizer


def _encode(tokenizer: Any, pair: MarkedPair, numbers: Mapping[str, int], length: int) -> dict[str, Any] | None:
    if len(tokenizer(pair.statement)["input_ids"]) > length // 2:
        return None
    row: dict[str, Any] = tokenizer(pair.text, pair.statement, truncation="only_first", max_length=length)
    return {**row, "label": numbers[_CLASS_OF[pair.mark]]}


def _arguments(transformers: Any, spec: VerifierSpec, out: Path) -> Any:
    return transformers.TrainingArguments(
        **training_arguments(out / "checkpoints", rate=spec.rate, epochs=spec.epochs, seed=spec.seed),
        per_device_train_batch_size=spec.batch,
        per_device_eval_batch_size=spec.batch,
        warmup_steps=_WARM_UP,
        weight_decay=0.01,
    )
