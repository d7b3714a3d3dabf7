"""Questions that name a drug by product, by ingredients, or with a typing error: is the first passage of that drug?

    python -m benchmarks.drug_search RUN [--index INDEX] [--questions 600] [--retriever bm25] [--part test]

RUN is a build (`fdarx build`), INDEX an index of the same labels (`fdarx index`), by default one that is made of the
build, without vectors. The questions are factual ones that name the product, on labels whose moieties are all in one
part: `test` served no tuning, `dev` did (by a hash of the moiety's name). The same chunks are searched by rank-bm25
without drug identity. Prints as well how often the gold passage is among the first 6: strictly (the same text, white
space aside), and a near copy of it of a label of the same drug. Exits 1 above 0.5 % wrong drugs by product, 1 % by
ingredients, 5 % with a typing error.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pandas as pd
from rank_bm25 import BM25Okapi

from benchmarks import run
from fdarx_core.rag.flow import CONTEXTS
from fdarx_core.rag.index import Index
from fdarx_core.records import Chunk, SearchHit
from fdarx_core.retrieval.lexical import tokenize
from jobs.cli import main as fdarx

LIMITS = {"product": 0.005, "ingredients": 0.01, "typing error": 0.05}


def is_test(moiety: str) -> bool:
    """Return whether a moiety is in the half for testing."""
    return int(sha256(moiety.lower().encode()).hexdigest(), 16) % 2 == 1


def mistyped(name: str, rng: random.Random) -> str:
    """Return a name with one error in its longest word: a letter lost, added, changed, or two swapped."""
    word = max(re.findall(r"[A-Za-z]+", name), key=len)
    at = rng.randrange(1, len(word) - 1)
    letter = rng.choice("abcdefghijklmnopqrstuvwxyz".replace(word[at].lower(), ""))
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    before, after = word[:at], word[at + 1 :]
    variants = [before + after, before + letter + word[at:], before + letter + after, swapped]
    return name.replace(word, rng.choice(variants), 1)


def renamed(question: str, name: str, other: str) -> str:
    """Return a question with another name in place of one, which may be in other case."""
    return re.sub(re.escape(name), lambda _: other, question, flags=re.IGNORECASE)


def sample_questions(run_folder: str, index: Index, count: int, part: str) -> pd.DataFrame:
    """Return factual questions on labels of a part, with the moieties of their drugs."""
    rows = pd.read_json(f"{run_folder}/benchmark/qa.jsonl", lines=True)
    rows["moieties"] = [index.reader.labels[set_id].moieties for set_id in rows["set_id"]]
    chosen = [
        row.task == "factual"
        and row.drug_name.casefold() in row.question.casefold()
        and row.moieties
        and all(is_test(moiety) == (part == "test") for moiety in row.moieties)
        for row in rows.itertuples()
    ]
    rows = rows[list(map(bool, chosen))]
    return rows.sample(min(count, len(rows)), random_state=0)


class Gold:
    """The gold passages of questions among the chunks of an index."""

    def __init__(self, index: Index, chunks: Sequence[Chunk]) -> None:
        self._clusters = index.reader.near_copies.clusters
        self._positions = {chunk.id: at for at, chunk in enumerate(chunks)}
        self._by_text: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for at, chunk in enumerate(chunks):
            self._by_text[chunk.set_id, " ".join(chunk.text.split())].append(at)

    def found(self, row: dict[str, Any], hits: Sequence[Chunk]) -> tuple[bool, bool]:
        """Return whether the hits have a gold passage of a question strictly, and whether they have a near copy."""
        texts = {" ".join(context["text"].split()) for context in row["context"]}
        gold = {self._clusters[at] for text in texts for at in self._by_text[row["set_id"], text]}
        strict = any(" ".join(hit.text.split()) in texts for hit in hits)
        return strict, strict or any(self._clusters[self._positions[hit.id]] in gold for hit in hits)


def main(
    run_folder: str,
    /,
    *,
    index: str = "",
    questions: int = 600,
    retriever: str = "bm25",
    part: Literal["dev", "test"] = "test",
) -> int:
    """Print the share of wrong drugs and of gold passages for each way of naming the drug."""
    ended = 0
    with TemporaryDirectory() as folder:
        if not index:
            fdarx(["index", "--documents", run_folder, "--words-only", "--out", folder, "--quiet"])
        opened = Index.open(index or folder)
    rows = sample_questions(run_folder, opened, questions, part)
    chunks = opened.reader.chunks(np.arange(len(opened)))
    peer = BM25Okapi([tokenize(f"{chunk.title}\n{chunk.section}\n{chunk.text}") for chunk in chunks])
    gold = Gold(opened, chunks)
    labels = f"{len(chunks)} passages of {opened.reader.manifest.documents} labels"
    print(f"{len(rows)} questions on {rows['set_id'].nunique()} labels of part {part}; {labels}")
    rng = random.Random(0)
    for way, limit in LIMITS.items():
        measured: defaultdict[str, list[tuple[bool, bool, bool]]] = defaultdict(list)
        for row in rows.to_dict("records"):
            name = row["drug_name"]
            ingredients = " and ".join(row["moieties"])
            named = {"product": name, "ingredients": ingredients, "typing error": mistyped(name, rng)}
            question = renamed(row["question"], name, named[way])
            best = np.argsort(-peer.get_scores(tokenize(question)), kind="stable")[:CONTEXTS]
            ours = opened.search(question, CONTEXTS, retriever=retriever)
            for searcher, hits in ((retriever, ours), ("rank-bm25", [SearchHit(chunks[at], 0.0) for at in best])):
                wrong = not hits or set(hits[0].moieties) != set(row["moieties"])
                measured[searcher].append((wrong, *gold.found(row, [hit.chunk for hit in hits])))
        for searcher, values in measured.items():
            wrong, strict, near = np.mean(values, axis=0)
            print(
                f"{way:13} {searcher:10} wrong drug first {wrong:.3f} (at most {limit}); gold passage in the first "
                f"{CONTEXTS} {strict:.3f}, or a near copy {near:.3f}"
            )
        ended |= np.mean(measured[retriever], axis=0)[0] > limit
    return int(ended)


if __name__ == "__main__":
    run(main)
