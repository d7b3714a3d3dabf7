"""Passages in training: the hard negatives of a question, and pairs of the service's prompt and a cited answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fdarx_core.documents.labels import chunk_label, label_version
from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.rag.flow import number_contexts
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS
from fdarx_core.records import Chunk, Passage, QuestionAnswer, SearchHit, content_id
from fdarx_core.retrieval.retrievers import Collection, Queries, get_retriever, passage_search_text
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.run_directory import LabelRows, read_labels
from fdarx_core.text.refusals import DOCUMENTS_SAY_NOTHING
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.tokens import content_words, word_overlap
from fdarx_core.tuning.pairs import TrainingPair, prompt_messages

MAX_OVERLAP = 0.5
"""The share of the answer's content words from which a passage might answer the question."""
MAX_SIMILARITY = 0.8
"""The Jaccard similarity of content words from which a passage is a near copy of a gold passage."""
SIBLINGS = 2
"""Other labels of the drug whose passages are searched as well."""
_DEPTH = 50
"""Passages of the ranking of BM25 that are looked at."""


def distractors(
    rows: LabelRows, questions: Sequence[QuestionAnswer], siblings: Sequence[LabelRows], most: int
) -> list[list[Passage]]:
    """Return for each question the first passages of BM25 that do not answer it, at most `most`.

    Left out are the gold passages, near copies of them, passages that have the words of the answer, and passages of a
    sibling, another label of the drug, with a text that the label has too.
    """
    own = list(rows.passages.values())
    texts = {_normalized(one) for one in own}
    others = [one for label in siblings for one in label.passages.values() if _normalized(one) not in texts]
    passages = [*own, *others]
    asked = Queries([one.question for one in questions])
    rankings = get_retriever("bm25").rank(asked, Collection([*map(passage_search_text, passages)]), _DEPTH)
    found = []
    for question, ranked in zip(questions, rankings, strict=True):
        gold_words = [content_words(passage.text) for passage in rows.gold(question)]
        misleading = dict[str, Passage]()  # by text, each once
        for passage in (passages[at] for at, _ in ranked):
            answers = question.answerable and word_overlap(question.answer, passage.text) >= MAX_OVERLAP
            words = content_words(passage.text)
            similarities = (len(words & of_gold) / max(1, len(words | of_gold)) for of_gold in gold_words)
            if not answers and all(similarity < MAX_SIMILARITY for similarity in similarities):
                misleading.setdefault(_normalized(passage), passage)
        found.append(list(misleading.values())[:most])
    return found


def _normalized(passage: Passage) -> str:
    return " ".join(passage.text.split())


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
        misleading = distractors(rows, rows.questions, [], distractor_count)
        for question, found in zip(rows.questions, misleading, strict=True):
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
        number = max(gold, key=lambda one: word_overlap(sentence, gold[one].text))
        cited.append(f"{sentence.rstrip('. ')} [{number}].")
    return " ".join(cited)
