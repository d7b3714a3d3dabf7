"""Official questions on FDA guidelines: is a right guideline among the first passages?

    python -m benchmarks.guideline_search INDEX [--reranker-model DIRECTORY] [--half all] [--k 6]

INDEX is `fdarx index --documents chunks.jsonl` on the guidelines of $FDARX_DATA, with vectors. The questions are those
of its `faq.jsonl`, without the titles that introduce them. A guideline is right if it has the question's title, or more
than half of the runs of 8 words of the question's answer; questions to which no guideline is right are left out and
counted. `cosine, first window` embeds the beginning of each chunk alone. `qa_rag` searches with hypothetical answers of
`baseline` as well. Halves of the guidelines (by a hash of the title) are for tuning (dev) and for figures (test).
Exits 1 if hybrid search finds less than 0.95 of `all` or `test`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from benchmarks import DATA, run
from benchmarks.drug_search import is_test
from fdarx_core.llm import Baseline
from fdarx_core.rag.index import Index
from fdarx_core.rag.metrics import same_title
from fdarx_core.rag.questions import read_questions
from fdarx_core.rag.search import SearchQuery, pool_candidates, search_index
from fdarx_core.rag.strategies import STRATEGIES
from fdarx_core.rag.tasks import HYPOTHETICAL_ANSWER, RAG_RULES_VERSION, RAG_TASKS
from fdarx_core.records import Chunk, RagQuestion
from fdarx_core.retrieval.encoders import SentenceEncoder
from fdarx_core.retrieval.index import ChunkFilter
from fdarx_core.retrieval.index.chunk_table import headed_chunk
from fdarx_core.retrieval.lexical import tokenize, top_k
from fdarx_core.retrieval.models import ModelDirectories

LEAST = 0.95
_RUN = 8

Half = Literal["all", "dev", "test"]
Titles = list[list[str]]
"""The titles of the passages found for each question, best first."""


def word_runs(text: str) -> list[tuple[str, ...]]:
    """Return all runs of 8 words of a text, one run where it is shorter."""
    words = tokenize(text)
    return [tuple(words[at : at + _RUN]) for at in range(max(1, len(words) - _RUN + 1))]


def right_guidelines(questions: Sequence[RagQuestion], chunks: Sequence[Chunk]) -> list[set[str]]:
    """Return the titles of the right guidelines of each question."""
    holders: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for chunk in chunks:
        for words in word_runs(chunk.text):
            holders[words].add(chunk.title)
    titles = {chunk.title for chunk in chunks}
    named = {name: {one for one in titles if same_title(one, name)} for name in {one.title for one in questions}}

    def holding(answer: str) -> set[str]:
        runs = word_runs(answer)
        counts = Counter(title for words in runs for title in holders.get(words, ()))
        return {title for title, count in counts.items() if count > len(runs) / 2}

    return [named[one.title] | holding(one.references[0]) for one in questions]


def ways(index: Index, questions: Sequence[str], reranker: bool, k: int) -> Iterator[tuple[str, Titles]]:
    """Yield each way to search with what it finds."""
    asked = [SearchQuery(question, k, is_question=True) for question in questions]
    chunks = index.reader.chunks(np.arange(len(index)))
    dense = "cosine" in index.retrievers
    names = [name for name in ("bm25", "tfidf", "cosine", "hybrid") if name in index.retrievers]
    vectors = index.encode(asked) if dense else None
    for name in names:
        found = search_index(index.reader, asked, ChunkFilter(), k, name, vectors)
        yield name, [[hit.chunk.title for hit in hits] for hits in found]
    if vectors is not None:
        encoder = SentenceEncoder(ModelDirectories().of("cosine"))
        rows = encoder.encode(["\n".join(filter(None, headed_chunk(chunk))) for chunk in chunks])
        first = top_k(vectors @ rows.T, k)
        yield "cosine, first window", [[chunks[at].title for at, _ in ranked] for ranked in first]
    for name in names[-1:] if reranker else ():
        found = index.search_many(asked, ChunkFilter(), k, f"{name}+rerank")
        yield f"{name}+rerank", [[hit.chunk.title for hit in hits] for hits in found]
    for name in dict.fromkeys(("bm25", names[-1])):
        yield f"{name}, qa_rag of baseline", dual_track(index, questions, name, k)


def dual_track(index: Index, questions: Sequence[str], retriever: str, k: int) -> Titles:
    """Search with each question and with the hypothetical answer that `baseline` writes."""
    baseline = Baseline(RAG_TASKS, RAG_RULES_VERSION)
    found: Titles = []
    for question in questions:
        [call] = STRATEGIES["qa_rag"].calls(question)
        request = HYPOTHETICAL_ANSWER.request(call[1], endpoint=baseline.name, sampling=baseline.sampling)
        reply = HYPOTHETICAL_ANSWER.parse(asyncio.run(baseline.ask(request)))
        searches = STRATEGIES["qa_rag"].searches(question, [reply], k)
        hits = index.search_many(searches, ChunkFilter(), k, retriever)
        found.append([hit.chunk.title for hit in pool_candidates(hits, [one.share for one in searches])])
    return found


def shares(found: Titles, right: Sequence[set[str]], depths: Sequence[int]) -> Mapping[int, float]:
    """Return the share of questions with a right guideline among the first passages, for each number of passages."""
    pairs = list(zip(found, right, strict=True))
    return {k: float(np.mean([bool(wanted & set(titles[:k])) for titles, wanted in pairs])) for k in depths}


def main(index_folder: str, /, *, reranker_model: str | None = None, half: Half = "all", k: int = 6) -> int:
    """Print the share of questions with a right guideline among the first 1 and k passages; return 1 if too low."""
    index = Index.open(index_folder, reranker_model=reranker_model)
    questions, _ = read_questions(str(DATA / "guidelines" / "faq.jsonl"), strip_title=True)
    rights = right_guidelines(questions, index.reader.chunks(np.arange(len(index))))
    asked = [
        (one.question, right)
        for one, right in zip(questions, rights, strict=True)
        if right and half in ("all", "test" if is_test(one.title) else "dev")
    ]
    windows = f"{len(index)} chunks, {index.reader.manifest.windows} windows"
    print(f"{len(asked)} of {len(questions)} questions have a right guideline here ({half}); {windows}")
    print("  " if reranker_model else "  no reranker: give --reranker-model")
    ended = 0
    for name, found in ways(index, [question for question, _ in asked], reranker_model is not None, k):
        measured = shares(found, [right for _, right in asked], (1, k))
        print(f"  {name:26} " + "   ".join(f"at {depth}: {share:.3f}" for depth, share in measured.items()), flush=True)
        ended |= name == "hybrid" and half != "dev" and measured[k] < LEAST
    return int(ended)


if __name__ == "__main__":
    run(main)
