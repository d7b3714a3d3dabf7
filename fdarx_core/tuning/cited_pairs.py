"""Training pairs with passages: the prompt of the answering service, and the gold answer with its citations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fdarx_core.baseline.refusals import DOCUMENTS_SAY_NOTHING
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import word_overlap
from fdarx_core.documents.labels import chunk_label, label_version
from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.rag.flow import number_contexts
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS
from fdarx_core.records import Chunk, QuestionAnswer, SearchHit, content_id
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.run_directory import LabelRows, read_labels
from fdarx_core.tuning.distractors import distractors
from fdarx_core.tuning.pairs import TrainingPair, prompt_messages


def read_cited_pairs(place: str, distractor_count: int, seed: int) -> list[TrainingPair]:
    """Return a pair for each question of a build, with the gold passages among passages that do not answer it.

    The distractors are the first passages of the label by BM25 that do not answer the question. The order of the
    contexts is by a hash of the seed. A refusal question has distractors alone, and is answered with the sentence with
    which the service refuses.

    Args:
        place: the run of a finished build.
        distractor_count: the most distractors of a question.
        seed: decides the order of the contexts.
    """
    pairs = [pair for rows in read_labels(open_build(place)) for pair in _pairs_of(rows, distractor_count, seed)]
    if not pairs:
        raise ValueError(f"{place} holds no question to train on")
    return pairs


def _pairs_of(rows: LabelRows, count: int, seed: int) -> Iterator[TrainingPair]:
    version = label_version(rows.label)
    chunks = {
        one.position: replace(one, label=version)
        for one in chunk_label(rows.passages.values(), drug=rows.label.drug_name)
    }
    misleading = distractors(rows, rows.questions, [], count)
    for question, found in zip(rows.questions, misleading, strict=True):
        gold = [] if question.type == "refusal" else gold_indices(question)
        shown = sorted(
            [*gold, *(one.doc_chunk_index for one in found)],
            key=lambda index: content_id(str(seed), question.id, str(index)),
        )
        slots = {
            "question": question.question,
            "contexts": number_contexts([SearchHit(chunks[index], 0.0) for index in shown]),
            "drug": "",
            "others": [],
        }
        answer = cited_answer(question, {shown.index(index) + 1: chunks[index] for index in gold})
        messages = prompt_messages(ANSWER_WITH_CITATIONS, slots)
        yield TrainingPair(question.id, question.question, answer, question.set_id, messages=messages)


def cited_answer(question: QuestionAnswer, gold: Mapping[int, Chunk]) -> str:
    """Return the gold answer, after each sentence the number of the context that has most of its words.

    Args:
        question: the question with its answer.
        gold: the gold passages by the numbers of their contexts; without any, the answer is the refusal.
    """
    if not gold:
        return DOCUMENTS_SAY_NOTHING
    return " ".join(_cited(sentence, gold) for sentence in _sentences(question.answer))


def _sentences(answer: str) -> Sequence[str]:
    return split_sentences(answer, "answer") or [answer]


def _cited(sentence: str, gold: Mapping[int, Chunk]) -> str:
    number = max(gold, key=lambda one: word_overlap(sentence, gold[one].text))
    return f"{sentence.rstrip('. ')} [{number}]."
