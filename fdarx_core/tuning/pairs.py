"""Question-answer pairs for fine-tuning: reading, near-duplicates, and the split into parts.

A pair has a prompt without passages, or that of the service with the gold passages among others. Preference pairs for
DPO are answers of an evaluation that a judge graded, correct ones over incorrect ones.
Source: QA-RAG §2.3; Rafailov et al. 2023 (DPO).
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from math import ceil, log
from typing import Any

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from fdarx_core.documents.labels import chunk_label, label_version
from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.llm import Task
from fdarx_core.rag.flow import number_contexts
from fdarx_core.rag.questions import read_questions
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS, HYPOTHETICAL_ANSWER
from fdarx_core.records import (
    Chunk,
    Grade,
    Passage,
    Prediction,
    QuestionAnswer,
    Reject,
    SearchHit,
    SettingProgress,
    content_id,
)
from fdarx_core.retrieval.retrievers import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.storage import Location, RunDirectory, StorageError, read_records
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.run_directory import LabelRows, read_labels
from fdarx_core.text.refusals import DOCUMENTS_SAY_NOTHING
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.tokens import content_words, word_overlap

STAGE = "pairs"
SHARES = {"train": 0.85, "validation": 0.10, "test": 0.05}
PARTS = tuple(SHARES)
NEEDED = ceil(log(0.01) / log(1 - min(SHARES.values())))
"""The number of groups of which, in 99 of 100 splits, at least one is in the smallest part."""
MIN_SIMILARITY = 0.9
"""The edit similarity from which two texts are near-duplicates."""
MIN_ANSWER_WORDS = 10
"""Shorter answers ("Yes.", "10 mg once daily") answer many questions and make no pairs near-duplicates."""
MAX_OVERLAP = 0.5
"""The share of the answer's content words from which a passage might answer the question."""
MAX_SIMILARITY = 0.8
"""The Jaccard similarity of content words from which a passage is a near copy of a gold passage."""
_DEPTH = 50
"""Passages of the ranking of BM25 that are looked at."""
_ANSWER_PREFIX = re.compile(r"^\s*answer\s*:\s*", re.IGNORECASE)
_ROWS = 128
_SLACK = 1e-6


@dataclass(slots=True)
class PromptMessage:
    """One message of a chat; `role` is system, user or assistant."""

    role: str
    content: str


@dataclass(slots=True)
class TrainingPair:
    """A question and its answer. `about` is the document or label that the pair comes from.

    `group` names its group of near-duplicates, and `part` is train, validation or test; both are "" before the split.
    `messages` is the prompt that the answer replies to; of a preference pair, `rejected` is the worse answer.
    """

    id: str
    question: str
    answer: str
    about: str
    group: str = ""
    part: str = ""
    messages: list[PromptMessage] = field(default_factory=list)
    rejected: str = ""

    @property
    def prompt(self) -> list[dict[str, str]]:
        """The messages as chat templates take them."""
        return [asdict(turn) for turn in self.messages]


def prompt_messages(task: Task[Any], slots: Mapping[str, Any]) -> list[PromptMessage]:
    """Return the messages that a server gets for a task, as it gets them in answering questions."""
    return [PromptMessage(**message) for message in task.request(slots, endpoint="").messages]


def closed_book_messages(question: str) -> list[PromptMessage]:
    """Return the prompt of a question without passages: that of hypothetical answers."""
    return prompt_messages(HYPOTHETICAL_ANSWER, {"question": question})


def read_pairs(place: str) -> tuple[list[TrainingPair], list[Reject]]:
    """Read the pairs of a build, or of a file that `read_questions` takes, and the rows that give none.

    The answer in a file is the first reference, without a leading "Answer:". The prompts have no passages, so refusal
    questions of a build are left out: only the label tells what to refuse. Raises StorageError where the place can't be
    read, ValueError where it holds no pair.
    """
    rejects: list[Reject] = []
    if (Location(place) / "run.json").exists():
        pairs = []
        for row in open_build(place).records("questions", QuestionAnswer):
            if not row.answerable:
                rejects.append(Reject(row.id, STAGE, "refusal", row.question, set_id=row.set_id))
            else:
                pairs.append(TrainingPair(row.id, row.question, row.answer, row.set_id))
    else:
        questions, rejects = read_questions(place)
        pairs = [
            TrainingPair(question.id, question.question, question.references[0], question.title or question.id)
            for question in questions
        ]
    kept: list[TrainingPair] = []
    for pair in pairs:
        if answer := _ANSWER_PREFIX.sub("", pair.answer).strip():
            kept.append(replace(pair, answer=answer, messages=closed_book_messages(pair.question)))
        else:
            rejects.append(Reject(pair.id, STAGE, "no_answer", "the answer is empty", source=pair.about))
    if not kept:
        raise ValueError(f"{place} holds no pair to train on: {len(rejects)} rows were left out")
    return kept, rejects


def split_pairs(pairs: Sequence[TrainingPair], seed: int) -> list[TrainingPair]:
    """Return the pairs in their order, each with its group and part.

    Near-duplicates go into one part, chosen by a hash of the seed and the least id among them. So the share of a part
    is near `SHARES`, not exact, and added pairs move few others. Raises ValueError where a part is empty.
    """
    split, groups = list(pairs), near_duplicate_groups(pairs)
    for members in groups:
        group = min(pairs[index].id for index in members)
        part = part_of(group, seed)
        for index in members:
            split[index] = replace(pairs[index], group=group, part=part)
    for part in PARTS:
        if not any(pair.part == part for pair in split):
            raise ValueError(
                f"none of {len(pairs)} pairs in {len(groups)} groups of near-duplicates is in the {part} part; hardly "
                f"any split of {NEEDED} groups leaves a part empty, so give more pairs, or another --seed"
            )
    return split


def part_of(group: str, seed: int) -> str:
    """Return the part of all pairs of a group, by a hash of the seed and the name of the group."""
    fraction, bound = int(content_id(str(seed), group), 16) / 2**64, 0.0
    for part, share in SHARES.items():
        bound += share
        if fraction < bound:
            return part
    return PARTS[-1]


def near_duplicate_groups(pairs: Sequence[TrainingPair]) -> list[list[int]]:
    """Group the indices of pairs that are near-duplicates, directly or through others.

    Two pairs are near-duplicates if their questions, or their answers of at least `MIN_ANSWER_WORDS` words, or question
    and answer as one text have an edit similarity of at least `MIN_SIMILARITY`. Case and white space do not count.
    """
    group_of = [[index] for index in range(len(pairs))]
    asked, answers = [_normalized(pair.question) for pair in pairs], [_normalized(pair.answer) for pair in pairs]
    both = [_normalized(f"{pair.question} {pair.answer}") for pair in pairs]
    long = [index for index, answer in enumerate(answers) if len(answer.split()) >= MIN_ANSWER_WORDS]
    of_long = near_duplicates([answers[index] for index in long], MIN_SIMILARITY)
    for first, second in chain(
        near_duplicates(asked, MIN_SIMILARITY),
        near_duplicates(both, MIN_SIMILARITY),
        ((long[first], long[other]) for first, other in of_long),
    ):
        if group_of[first] is not group_of[second]:
            group_of[first] += group_of[second]
            for index in group_of[second]:
                group_of[index] = group_of[first]
    return [sorted(group) for index, group in enumerate(group_of) if index == min(group)]


def _normalized(text: str) -> str:
    return _one_line(unicodedata.normalize("NFKC", text).casefold())


def _one_line(text: str) -> str:
    return " ".join(text.split())


def near_duplicates(texts: Sequence[str], least: float) -> Iterator[tuple[int, int]]:
    """Yield the indices of all pairs of texts with an edit similarity of at least `least`.

    The edit similarity is 1 minus the Levenshtein distance over the length of the longer text. Equal texts are yielded
    with the first of them only. Pairs are compared unless their lengths rule them out with certainty.
    """
    first: dict[str, int] = {}
    for index, text in enumerate(texts):
        if (before := first.setdefault(text, index)) != index:
            yield before, index
    indices = sorted(first.values(), key=lambda index: len(texts[index]))
    ordered = [texts[index] for index in indices]
    lengths = np.array([len(text) for text in ordered])
    scorer = Levenshtein.normalized_similarity
    for start in range(0, len(ordered), _ROWS):
        rows = ordered[start : start + _ROWS]
        end = int(np.searchsorted(lengths, len(rows[-1]) / least + _SLACK, side="right"))
        similarity = process.cdist(
            rows, ordered[start:end], scorer=scorer, score_cutoff=least, dtype=np.float64, workers=-1
        )
        for row, other in zip(*np.nonzero(np.triu(similarity >= least, k=1)), strict=True):
            yield indices[start + row], indices[start + other]


def read_preferences(place: str) -> tuple[list[TrainingPair], list[Reject]]:
    """Return a pair for each incorrect answer of an evaluation, and the questions that give none.

    The better answer is one that was graded correct, in turn by a hash, or else the gold answer. Equal answers count
    once. The prompt is that of a question without passages. Refusal questions are left out.

    Args:
        place: the run of `fdarx evaluate`.

    Raises:
        StorageError: the place is not a finished run of an evaluation.
        ValueError: no question has an incorrect answer.
    """
    run = RunDirectory.open(place)
    if not run.complete or run.info()["job"] != "evaluate":
        raise StorageError(f"{place} is not a finished run of fdarx evaluate, whose graded answers DPO needs")
    answers = _graded_answers(run)
    pairs: list[TrainingPair] = []
    rejects: list[Reject] = []
    for question in run.records("questions", QuestionAnswer):
        wrong = sorted(answers[question.id, "incorrect"]) if question.answerable else []
        if not wrong:
            reason = "no_incorrect_answer" if question.answerable else "refusal"
            rejects.append(Reject(question.id, STAGE, reason, question.question, set_id=question.set_id))
        right = answers[question.id, "correct"] - {*wrong}
        better = sorted(right, key=lambda text: content_id(question.id, text)) or [question.answer]
        pairs += [
            TrainingPair(
                content_id(question.id, rejected),
                question.question,
                better[number % len(better)],
                question.set_id,
                messages=closed_book_messages(question.question),
                rejected=rejected,
            )
            for number, rejected in enumerate(wrong)
        ]
    if not pairs:
        raise ValueError(f"{place} holds no answer that was graded incorrect")
    return pairs, rejects


def _graded_answers(run: RunDirectory) -> defaultdict[tuple[str, str], set[str]]:
    """Return the distinct answers by question id and grade."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for model in sorted({cell.model for cell in read_records(run.file("cells.parquet"), SettingProgress)}):
        graded = {grade.prediction_id: grade.outcome for grade in run.records(f"grades/{model}", Grade)}
        for prediction in run.records(f"predictions/{model}", Prediction):
            if prediction.outcome == "answered" and prediction.answer.strip():
                found[prediction.question_id, graded[prediction.id]].add(prediction.answer.strip())
    return found


def distractors(rows: LabelRows, most: int) -> list[list[Passage]]:
    """Return for each question of a label its first passages by BM25 that do not answer it, at most `most`.

    Left out are the gold passages, near copies of them, and passages that have the words of the answer.
    """
    passages = list(rows.passages.values())
    asked = Queries([question.question for question in rows.questions])
    rankings = get_retriever("bm25").rank(asked, Collection([*map(passage_search_text, passages)]), _DEPTH)
    found = []
    for question, ranked in zip(rows.questions, rankings, strict=True):
        gold_words = [content_words(passage.text) for passage in rows.gold(question)]
        misleading = dict[str, Passage]()  # by text, each once
        for passage in (passages[at] for at, _ in ranked):
            answers = question.answerable and word_overlap(question.answer, passage.text) >= MAX_OVERLAP
            words = content_words(passage.text)
            similarities = (len(words & of_gold) / max(1, len(words | of_gold)) for of_gold in gold_words)
            if not answers and all(similarity < MAX_SIMILARITY for similarity in similarities):
                misleading.setdefault(_one_line(passage.text), passage)
        found.append(list(misleading.values())[:most])
    return found


def read_cited_pairs(place: str, distractor_count: int, seed: int) -> list[TrainingPair]:
    """Return a pair for each question of a build, with the gold passages among passages that do not answer it.

    The distractors are the first passages of the label by BM25 that do not answer the question. The order of the
    contexts is by a hash of the seed. A refusal question has distractors alone, and is answered with the sentence with
    which the service refuses. Raises ValueError where the build, at `place`, has no question.
    """
    pairs = []
    for rows in read_labels(open_build(place)):
        version = label_version(rows.label)
        chunks = {
            chunk.position: replace(chunk, label=version)
            for chunk in chunk_label(rows.passages.values(), drug=rows.label.drug_name)
        }
        for question, found in zip(rows.questions, distractors(rows, distractor_count), strict=True):
            gold = gold_indices(question) if question.answerable else []
            shown = [*gold, *(passage.doc_chunk_index for passage in found)]
            shown.sort(key=lambda index: content_id(str(seed), question.id, str(index)))
            slots = {
                "question": question.question,
                "contexts": number_contexts([SearchHit(chunks[index], 0.0) for index in shown]),
                "drug": "",
                "others": [],
            }
            answer = cited_answer(question, {shown.index(index) + 1: chunks[index] for index in gold})
            messages = prompt_messages(ANSWER_WITH_CITATIONS, slots)
            pairs.append(TrainingPair(question.id, question.question, answer, question.set_id, messages=messages))
    if not pairs:
        raise ValueError(f"{place} holds no question to train on")
    return pairs


def cited_answer(question: QuestionAnswer, gold: Mapping[int, Chunk]) -> str:
    """Return the gold answer, after each sentence the number of the context that has most of its words.

    `gold` has the gold passages by the numbers of their contexts; without any, the answer is the refusal.
    """
    if not gold:
        return DOCUMENTS_SAY_NOTHING
    cited = []
    for sentence in split_sentences(question.answer, "answer") or [question.answer]:
        number = max(gold, key=lambda number: word_overlap(sentence, gold[number].text))
        cited.append(f"{sentence.rstrip('. ')} [{number}].")
    return " ".join(cited)
