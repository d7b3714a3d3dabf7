"""Questions that name a drug by product, by ingredients, or with a typing error: is the first passage of that drug?

    python -m benchmarks.drug_search RUN [--questions 600] [--retriever bm25]

RUN is a build (`fdarx build`). The questions are those that were made from Highlights, on labels whose moieties are all
in the half that served no tuning (by a hash of the moiety's name). The same chunks are searched by rank-bm25 without
drug identity. Exits 1 above 0.5 % wrong drugs by product, 1 % by ingredients, 5 % with a typing error.
"""

from __future__ import annotations

import random
import re
from hashlib import sha256
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from rank_bm25 import BM25Okapi

from benchmarks import run
from fdarx_core.rag.index import Index
from fdarx_core.records import SearchHit
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


def sample_questions(run_folder: str, index: Index, count: int) -> pd.DataFrame:
    """Return questions from Highlights of test labels, with the moieties of their drugs."""
    rows = pd.read_json(f"{run_folder}/benchmark/qa.jsonl", lines=True)
    rows["moieties"] = [index.reader.labels[set_id].moieties for set_id in rows["set_id"]]
    tested = [
        row.source == "highlights"
        and row.drug_name in row.question
        and row.moieties
        and all(map(is_test, row.moieties))
        for row in rows.itertuples()
    ]
    rows = rows[list(map(bool, tested))]
    return rows.sample(min(count, len(rows)), random_state=0)


def main(run_folder: str, /, *, questions: int = 600, retriever: str = "bm25") -> int:
    """Print the share of questions whose first passage is of a wrong drug, for each way of naming the drug."""
    ended = 0
    with TemporaryDirectory() as folder:
        fdarx(["index", "--documents", run_folder, "--words-only", "--out", folder, "--quiet"])
        index = Index.open(folder)
    rows = sample_questions(run_folder, index, questions)
    chunks = index.reader.chunks(np.arange(len(index)))
    peer = BM25Okapi([tokenize(f"{chunk.title}\n{chunk.section}\n{chunk.text}") for chunk in chunks])
    labels = f"{len(chunks)} passages of {index.reader.manifest.documents} labels"
    print(f"{len(rows)} questions on {rows['set_id'].nunique()} labels; {labels}")
    rng = random.Random(0)
    for way, limit in LIMITS.items():
        wrong, wrong_peer = [], []
        for row in rows.to_dict("records"):
            name = row["drug_name"]
            ingredients = " and ".join(row["moieties"])
            named = {"product": name, "ingredients": ingredients, "typing error": mistyped(name, rng)}
            question = row["question"].replace(name, named[way])
            best = int(np.argmax(peer.get_scores(tokenize(question))))
            first = index.search(question, 1, retriever=retriever)
            wrong.append(not first or set(first[0].moieties) != set(row["moieties"]))
            wrong_peer.append(set(SearchHit(chunks[best], 0.0).moieties) != set(row["moieties"]))
        share = float(np.mean(wrong))
        print(f"{way:13} wrong drug first {share:.3f} (at most {limit}); rank-bm25 {np.mean(wrong_peer):.3f}")
        ended |= share > limit
    return int(ended)


if __name__ == "__main__":
    run(main)
