"""Training of an encoder for retrieval by sentence-transformers: questions, their gold passages, and hard negatives.

Source: Henderson et al. 2017 (in-batch negatives), Karpukhin et al. 2020 (hard negatives of BM25).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.evaluation.scoring import question_features, score_ranking
from fdarx_core.records import QuestionAnswer, Ranking, RetrievalScore
from fdarx_core.retrieval.encoders import SentenceEncoder
from fdarx_core.retrieval.models import has_bfloat16
from fdarx_core.retrieval.retrievers import Collection, Queries, get_retriever, headed_passage, passage_search_text
from fdarx_core.storage.benchmark_reader import BenchmarkItem
from fdarx_core.storage.run_directory import LabelRows
from fdarx_core.tuning.distractors import SIBLINGS, distractors
from fdarx_core.tuning.evaluation import Change, RowFields, base_and_tuned
from fdarx_core.tuning.pairs import PARTS, TrainingPair, near_duplicate_groups, part_of
from fdarx_core.tuning.trainer import (
    LossPoint,
    Report,
    load_library,
    run_training,
    training_arguments,
    training_callbacks,
)

RANKED = 10
"""Passages of a ranking that are scored."""
RETRIEVAL_MEASURES = {"recall_1": "recall@1", "recall_5": "recall@5", "mrr": "MRR"}
"""The measures of `RetrievalScore` that are compared before and after."""
_WARM_UP = 0.1


@dataclass(slots=True)
class RetrievalExample:
    """A question, a passage that answers it, and passages of labels of the drug that do not.

    `drug` is as in `Label`; `group` names the group of near-duplicates of the example.
    """

    id: str
    drug: str
    question: str
    positive: str
    negatives: list[str]
    group: str = ""


@dataclass(frozen=True, slots=True)
class RetrieverSpec:
    """The base model, and how it is trained.

    `model` is a directory that sentence-transformers loads. `batch` is in questions, `length` in tokens of a passage,
    `negatives` the hard negatives of each question. `evaluate_every` is in steps; None evaluates four times an epoch.
    Training stops after `patience` evaluations without a lower validation loss.
    """

    model: str
    rate: float = 2e-5
    epochs: int = 3
    batch: int = 32
    length: int = 256
    negatives: int = 1
    evaluate_every: int | None = None
    patience: int = 4
    seed: int = 0
    report_to: tuple[str, ...] = ()


def split_labels(labels: Iterable[LabelRows], seed: int) -> tuple[dict[str, list[LabelRows]], Counter[str]]:
    """Return the labels with answerable questions by part, and how many were left out by reason.

    All labels of a moiety are in one part, chosen by a hash of the seed. Left out are labels of moieties that fall into
    different parts (`several_parts`), and labels without a question that has a gold passage (`no_question`). Raises
    ValueError where a part is empty.
    """
    parts: dict[str, list[LabelRows]] = {part: [] for part in PARTS}
    left_out: Counter[str] = Counter()
    for rows in labels:
        found = {part_of(moiety, seed) for moiety in (rows.label.drug or rows.label.drug_name.lower()).split("+")}
        if not answerable(rows):
            left_out["no_question"] += 1
        elif len(found) > 1:
            left_out["several_parts"] += 1
        else:
            parts[found.pop()].append(rows)
    for part, held in parts.items():
        if not held:
            raise ValueError(f"no label of the build is in the {part} part; give labels of more drugs, or another seed")
    return parts, left_out


def answerable(rows: LabelRows) -> list[QuestionAnswer]:
    """Return the questions of a label that have gold passages."""
    return [one for one in rows.questions if one.type != "refusal" and one.gold_passages]


def retrieval_examples(labels: Sequence[LabelRows], negatives: int) -> tuple[list[RetrievalExample], int]:
    """Return the examples of labels, and the number of questions for which too few negatives were found.

    A question has an example for each gold passage that holds its answer. The group of an example is that of
    `near_duplicate_groups`: labels of a drug repeat each other, and a copy of a gold passage is no negative.
    """
    of_drug: defaultdict[str, list[LabelRows]] = defaultdict(list)
    for rows in labels:
        of_drug[rows.label.drug].append(rows)
    found: list[RetrievalExample] = []
    lacking = 0
    for rows in labels:
        questions, same = answerable(rows), of_drug[rows.label.drug]
        at = next(number for number, one in enumerate(same) if one is rows)
        siblings = [same[(at + step) % len(same)] for step in range(1, min(SIBLINGS + 1, len(same)))]
        hard = distractors(rows, questions, siblings, negatives)
        for question, passages in zip(questions, hard, strict=True):
            if len(passages) < negatives:
                lacking += 1
                continue
            texts = [passage_search_text(one) for one in passages]
            for gold in gold_indices(question):
                text = passage_search_text(rows.passages[gold])
                found.append(RetrievalExample(question.id, rows.label.drug, question.question, text, texts))
    return _grouped(found), lacking


def _grouped(examples: Sequence[RetrievalExample]) -> list[RetrievalExample]:
    pairs = [TrainingPair(one.id, one.question, one.positive, one.drug) for one in examples]
    grouped = list(examples)
    for members in near_duplicate_groups(pairs):
        for at in members:
            grouped[at] = replace(examples[at], group=examples[members[0]].id)
    return grouped


def train_retriever(
    spec: RetrieverSpec,
    train: Sequence[RetrievalExample],
    validation: Sequence[RetrievalExample],
    out: Path,
    report: Report,
) -> list[LossPoint]:
    """Train an encoder and save that of the lowest validation loss to `out`/model.

    The loss is the cross-entropy of the gold passage among all passages of the batch. A batch has at most one example
    of a group of near-duplicates, and no text twice. Of the validation part, one example of each group is used.
    Checkpoints are in `out`/checkpoints; a later call goes on from the newest whole one.

    Args:
        spec: the base model, and how it is trained.
        train: the examples to learn from.
        validation: the examples that decide when to stop.
        out: a folder on a local disk.
        report: is told of each step.

    Returns:
        The loss curve, whose losses are in nats a question.

    Raises:
        ModelMissing: the `models` extra is missing.
        ValueError: the loss is not finite, or there are fewer groups of examples than a batch has.
    """
    library = load_library("sentence_transformers")
    groups = len({one.group for one in train})
    if groups < spec.batch:
        raise ValueError(f"there are {groups} groups of similar questions to train on, and --batch {spec.batch}")
    load_library("transformers").set_seed(spec.seed)
    model = library.SentenceTransformer(spec.model, local_files_only=True)
    model.max_seq_length = min(spec.length, model.max_seq_length or spec.length)
    trainer = library.SentenceTransformerTrainer(
        model=model,
        args=_arguments(spec, train, out, model),
        train_dataset=_dataset(train),
        eval_dataset=_dataset({one.group: one for one in validation}.values()),
        loss=library.sentence_transformer.losses.MultipleNegativesRankingLoss(model),
        callbacks=training_callbacks(spec.patience, report),
    )
    curve = run_training(trainer, batch=spec.batch, evaluate_every=spec.evaluate_every)
    model.save_pretrained(str(out / "model"))
    return curve


def _arguments(spec: RetrieverSpec, train: Sequence[RetrievalExample], out: Path, model: Any) -> Any:
    common = training_arguments(
        out / "checkpoints",
        rate=spec.rate,
        epochs=spec.epochs,
        seed=spec.seed,
        report_to=spec.report_to,
        bf16=has_bfloat16(),
    )
    return load_library("sentence_transformers").SentenceTransformerTrainingArguments(
        **common,
        per_device_train_batch_size=spec.batch,
        per_device_eval_batch_size=spec.batch,
        warmup_steps=_WARM_UP,
        dataloader_drop_last=True,  # only near-duplicates are left for the last batches
        batch_sampler=_BatchesWithoutNearDuplicates({(one.question, one.positive): one.group for one in train}),
        prompts=_prompts(model),
    )


def _dataset(examples: Iterable[RetrievalExample]) -> Any:
    rows = [
        {"question": one.question, "positive": one.positive}
        | {f"negative_{number}": text for number, text in enumerate(one.negatives)}
        for one in examples
    ]
    return load_library("datasets").Dataset.from_list(rows)


def _prompts(model: Any) -> dict[str, str]:
    """Return the model's prompt for questions, with which it is asked later as well."""
    prompt = model.prompts.get("query")
    return {"question": prompt} if prompt else {}


@dataclass(frozen=True, slots=True)
class _BatchesWithoutNearDuplicates:
    """Makes the batches for the trainer, which pickles it: no text and no group twice in a batch of training.

    `groups` has the group of each question with its gold passage in the training part.
    """

    groups: Mapping[tuple[str, str], str]

    def __call__(self, dataset: Any, **options: Any) -> Any:
        library = load_library("sentence_transformers.base.sampler")
        rows = zip(dataset["question"], dataset["positive"], strict=True)
        known = [self.groups.get(row) for row in rows]
        if None in known:  # the validation part, which has each group once
            return library.DefaultBatchSampler(range(len(dataset)), **options | {"drop_last": False})
        return library.NoDuplicatesBatchSampler(dataset.add_column("group", known), **options)


def score_encoder(encoder: SentenceEncoder, name: str, labels: Iterable[LabelRows]) -> Iterator[RetrievalScore]:
    """Yield the scores of an encoder on the questions of labels, each searched within its label.

    Args:
        encoder: the encoder.
        name: the name of the encoder in the scores.
        labels: the labels, with all their passages.
    """
    retriever = get_retriever("cosine")
    for rows in labels:
        questions, passages = answerable(rows), list(rows.passages.values())
        texts = [one.question for one in questions]
        vectors = encoder.encode_passages([headed_passage(one) for one in passages])
        collection = Collection([passage_search_text(one) for one in passages], {"cosine": vectors})
        rankings = retriever.rank(Queries(texts, {"cosine": encoder.encode_questions(texts)}), collection, RANKED)
        item = BenchmarkItem.of(rows.label.set_id, rows.label.drug_name, True, passages, questions, rows.label.drug)
        for question, ranked in zip(questions, rankings, strict=True):
            ranking = Ranking(question.id, question.set_id, name, [passages[at].doc_chunk_index for at, _ in ranked])
            features = question_features(question, item.subject, rows.passages)
            if score := score_ranking(features, question, ranking, None):
                yield score


def retrieval_changes(scores: Sequence[RetrievalScore], *, seed: int, resamples: int) -> list[Change]:
    """Return the means of the measures before and after, with intervals by bootstrap over drugs."""
    measures = {name: (name, attrgetter(name)) for name in RETRIEVAL_MEASURES}
    fields = RowFields(model="retriever", cluster="cluster", question="question_id")
    return base_and_tuned(scores, measures, fields, seed=seed, resamples=resamples)
