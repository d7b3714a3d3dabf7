"""Training of an encoder for retrieval by sentence-transformers: questions, their gold passages, and hard negatives.

Source: Henderson et al. 2017 (in-batch negatives), Karpukhin et al. 2020 (hard negatives of BM25).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.evaluation.metrics import mean_metric
from fdarx_core.evaluation.scoring import question_features, score_ranking
from fdarx_core.records import QuestionAnswer, Ranking, RetrievalScore
from fdarx_core.retrieval.encoders import SentenceEncoder
from fdarx_core.retrieval.models import has_bfloat16
from fdarx_core.retrieval.retrievers import Collection, Queries, get_retriever, headed_passage, passage_search_text
from fdarx_core.storage import RunDirectory, write_records
from fdarx_core.storage.benchmark_reader import BenchmarkItem
from fdarx_core.storage.run_directory import LabelRows, read_labels
from fdarx_core.tuning.evaluation import BASE, TUNED, base_and_tuned, write_changes
from fdarx_core.tuning.pairs import NEEDED, PARTS, SIBLINGS, TrainingPair, distractors, near_duplicate_groups, part_of
from fdarx_core.tuning.trainer import (
    LossPoint,
    Report,
    TrainingSpec,
    curve_summary,
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


def split_labels(labels: Iterable[LabelRows], seed: int) -> tuple[dict[str, list[LabelRows]], Counter[str]]:
    """Return the labels with answerable questions by part, and how many were left out by reason.

    All labels of a moiety are in one part, chosen by a hash of the seed. Left out are labels of moieties that fall into
    different parts (`several_parts`), and labels without a question that has a gold passage (`no_question`). Raises
    ValueError where a part is empty.
    """
    parts: dict[str, list[LabelRows]] = {part: [] for part in PARTS}
    left_out: Counter[str] = Counter()
    moieties: set[str] = set()
    for rows in labels:
        names = (rows.label.drug or rows.label.drug_name.lower()).split("+")
        found = {part_of(name, seed) for name in names}
        moieties.update(names)
        if not answerable(rows) or len(found) > 1:
            left_out["several_parts" if answerable(rows) else "no_question"] += 1
        else:
            parts[found.pop()].append(rows)
    for part, held in parts.items():
        if not held:
            raise ValueError(
                f"no label of the build, whose drugs have {len(moieties)} moieties, is in the {part} part; hardly any "
                f"split of {NEEDED} moieties leaves a part empty, so give more drugs, or another --seed"
            )
    return parts, left_out


def answerable(rows: LabelRows) -> list[QuestionAnswer]:
    """Return the questions of a label that have gold passages."""
    return [question for question in rows.questions if question.answerable and question.gold_passages]


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
        at = next(number for number, same_label in enumerate(same) if same_label is rows)
        siblings = [same[(at + step) % len(same)] for step in range(1, min(SIBLINGS + 1, len(same)))]
        hard = distractors(rows, questions, siblings, negatives)
        for question, passages in zip(questions, hard, strict=True):
            if len(passages) < negatives:
                lacking += 1
                continue
            texts = [passage_search_text(passage) for passage in passages]
            for gold in gold_indices(question):
                text = passage_search_text(rows.passages[gold])
                found.append(RetrievalExample(question.id, rows.label.drug, question.question, text, texts))
    pairs = [TrainingPair(example.id, example.question, example.positive, example.drug) for example in found]
    for members in near_duplicate_groups(pairs):
        for at in members:
            found[at].group = found[members[0]].id
    return found, lacking


def train_retriever(
    spec: TrainingSpec,
    train: Sequence[RetrievalExample],
    validation: Sequence[RetrievalExample],
    out: Path,
    report: Report,
) -> list[LossPoint]:
    """Train an encoder and save that of the lowest validation loss to `out`/model.

    The loss is the cross-entropy of the gold passage among all passages of the batch. A batch has at most one example
    of a group of near-duplicates, and no text twice. Of the validation part, one example of each group is used.
    Checkpoints are in `out`/checkpoints, on a local disk; a later call goes on from the newest whole one. Returns the
    loss curve, in nats a question. Raises ModelMissing without the `models` extra, ValueError for a loss that is not
    finite, or where there are fewer groups of examples than a batch has.
    """
    library = load_library("sentence_transformers")
    groups = len({example.group for example in train})
    if groups < spec.batch:
        raise ValueError(f"there are {groups} groups of similar questions to train on, and --batch {spec.batch}")
    load_library("transformers").set_seed(spec.seed)
    model = library.SentenceTransformer(spec.model, local_files_only=True)
    model.max_seq_length = min(spec.length, model.max_seq_length or spec.length)
    query_prompt = model.prompts.get("query")  # the model is asked with it later as well
    arguments = library.SentenceTransformerTrainingArguments(
        **training_arguments(out / "checkpoints", spec, bf16=has_bfloat16()),
        per_device_train_batch_size=spec.batch,
        per_device_eval_batch_size=spec.batch,
        warmup_steps=_WARM_UP,
        dataloader_drop_last=True,  # only near-duplicates are left for the last batches
        batch_sampler=_BatchesWithoutNearDuplicates(
            {(example.question, example.positive): example.group for example in train}
        ),
        prompts={"question": query_prompt} if query_prompt else {},
    )
    trainer = library.SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=_dataset(train),
        eval_dataset=_dataset({example.group: example for example in validation}.values()),
        loss=library.sentence_transformer.losses.MultipleNegativesRankingLoss(model),
        callbacks=training_callbacks(spec.patience, report),
    )
    curve = run_training(trainer, spec)
    model.save_pretrained(str(out / "model"))
    return curve


def _dataset(examples: Iterable[RetrievalExample]) -> Any:
    rows = [
        {"question": example.question, "positive": example.positive}
        | {f"negative_{number}": text for number, text in enumerate(example.negatives)}
        for example in examples
    ]
    return load_library("datasets").Dataset.from_list(rows)


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
    """Yield the scores of an encoder, under this name, on the questions of labels, each searched within its label."""
    retriever = get_retriever("cosine")
    for rows in labels:
        questions, passages = answerable(rows), list(rows.passages.values())
        texts = [question.question for question in questions]
        vectors = encoder.encode_passages([headed_passage(passage) for passage in passages])
        collection = Collection([passage_search_text(passage) for passage in passages], {"cosine": vectors})
        rankings = retriever.rank(Queries(texts, {"cosine": encoder.encode_questions(texts)}), collection, RANKED)
        item = BenchmarkItem.of(rows.label.set_id, rows.label.drug_name, True, passages, questions, rows.label.drug)
        for question, ranked in zip(questions, rankings, strict=True):
            ranking = Ranking(question.id, question.set_id, name, [passages[at].doc_chunk_index for at, _ in ranked])
            features = question_features(question, item.subject, rows.passages)
            if score := score_ranking(features, question, ranking, None):
                yield score


def fine_tune_retriever(
    run: RunDirectory,
    spec: TrainingSpec,
    build: RunDirectory,
    negatives: int,
    progress: Callable[[str, int, int, str], None],
) -> None:
    """Train an encoder on the questions of a build, with `negatives` hard negatives each, and score it.

    Raises as `split_labels` and `train_retriever`.
    """
    progress("read", 0, 1, "")
    parts, left_out = split_labels(read_labels(build), spec.seed)
    learnt: dict[str, list[RetrievalExample]] = {}
    for part in ("train", "validation"):
        learnt[part], lacking = retrieval_examples(parts[part], negatives)
        left_out["no_negative"] += lacking
        write_records(run.part(f"examples/{part}", 0), learnt[part], RetrievalExample)
    folder = Path(str(run.root))
    curve = train_retriever(spec, learnt["train"], learnt["validation"], folder, lambda *step: progress("train", *step))
    scores: list[RetrievalScore] = []
    for at, (name, directory) in enumerate({BASE: spec.model, TUNED: str(folder / "model")}.items()):
        encoder, held = SentenceEncoder(directory, fast=True), parts["test"]
        for number, rows in enumerate(held, 1):
            scores += score_encoder(encoder, name, [rows])
            progress("score", at * len(held) + number, 2 * len(held), "")
    write_records(run.file("curve.parquet"), curve, LossPoint)
    write_records(run.part("scores", 0), scores, RetrievalScore)
    metrics = [mean_metric(attrgetter(name), name) for name in RETRIEVAL_MEASURES]
    fields = {"model": "retriever", "cluster": "cluster", "question": "question_id"}
    write_changes(run, base_and_tuned(scores, metrics, **fields, seed=spec.seed, resamples=spec.resamples))
    run.finish(
        {
            "labels": {part: len(held) for part, held in parts.items()},
            "questions": {part: sum(len(answerable(rows)) for rows in held) for part, held in parts.items()},
            "left_out": dict(Counter(left_out)),
            **curve_summary(curve),
            "encoder": str(folder / "model"),
        }
    )
