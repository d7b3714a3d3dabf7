"""Questions of labels, made by the built-in rules, each with a ranking and an answer that is right in part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
from rank_bm25 import BM25Okapi

from fdarx_core.generation.candidates import parse_candidates
from fdarx_core.generation.contexts import GenerationConfig, make_contexts
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.topic_questions import topic_wordings
from fdarx_core.generation.topics import find_topics
from fdarx_core.generation.writing import writing_tasks
from fdarx_core.labels import find_sources, parse_document, read_source
from fdarx_core.llm.baseline import response_to
from fdarx_core.records import Equivalence, Label, LabelSummary, Passage, QuestionAnswer, Ranking, Reject

LABELS = 10


@dataclass(frozen=True, slots=True)
class MetricRow:
    question: QuestionAnswer
    subject: LabelSummary
    passages: dict[int, Passage]
    ranking: Ranking
    equivalence: Equivalence
    answer: str
    cited: list[int]


@cache
def metric_rows(labels: Path) -> list[MetricRow]:
    """The rows of the first labels of an archive or folder."""
    made = (rows for label, passages in parsed(labels) if (rows := list(_of_label(label, passages))))
    return [row for rows in islice(made, LABELS) for row in rows]


def parsed(labels: Path) -> Iterator[tuple[Label, list[Passage]]]:
    for source in find_sources([str(labels)]).sources:
        for document in read_source(source):
            assert not isinstance(document, Reject)
            yield parse_document(document[1])


def _of_label(label: Label, passages: list[Passage]) -> Iterator[MetricRow]:
    questions = [question for question in _questions(label, passages) if question.type != "refusal"]
    if not questions:
        return
    subject = LabelSummary(label.set_id, label.drug_name, True, len(passages), sum(len(one.text) for one in passages))
    words = [_words(passage.text) for passage in passages]
    engine = BM25Okapi(words)
    for question in questions:
        random = Random(question.id)
        scores = engine.get_scores(_words(question.question))
        order = [int(index) for index in np.argsort(-scores, kind="stable")[:20]]
        ranking = Ranking(question.id, label.set_id, "bm25", order)
        equivalence = _alike(question, words)
        cited = random.choices(order[:4] + question.gold_passages, k=random.randrange(5))
        by_index = {passage.doc_chunk_index: passage for passage in passages}
        yield MetricRow(question, subject, by_index, ranking, equivalence, _answer(question, passages, random), cited)


def _questions(label: Label, passages: list[Passage]) -> list[QuestionAnswer]:
    """Two questions on everything that the label answers by rules."""
    answered = find_topics(label, passages).answers
    pairs = [TopicPair(topic, None, wording) for topic in answered for wording in topic_wordings(topic)[:2]]
    questions: list[QuestionAnswer] = []
    for context in make_contexts(label, passages, GenerationConfig(), pairs):
        task = writing_tasks()[context.task]
        request = task.request(context.slots, endpoint="baseline")
        made = parse_candidates(context, response_to(request, task.by_rules(context.slots)), label, passages)
        questions += [] if isinstance(made, Reject) else made
    return questions


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _alike(question: QuestionAnswer, words: Sequence[Sequence[str]]) -> Equivalence:
    """Passages that share an eighth of their words: loose, so that many questions have some."""
    found = Equivalence(question.id, question.set_id)
    for gold in question.gold_passages:
        for index, others in enumerate(words):
            here, there = set(words[gold]), set(others)
            if index != gold and len(here & there) >= 0.125 * len(here | there):
                found.gold.append(gold)
                found.members.append(index)
                found.why.append("near_duplicate")
    return found


def _answer(question: QuestionAnswer, passages: Sequence[Passage], random: Random) -> str:
    """A stretch of a gold passage, now and then the gold answer itself, or nothing."""
    text = passages[random.choice(question.gold_passages)].text.split()
    start = random.randrange(len(text))
    return random.choice([*([" ".join(text[start : start + 30])] * 8), question.answer, ""])
