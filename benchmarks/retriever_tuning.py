"""MiniLM tuned on questions to half of the drugs: does it find more gold passages of the other half's drugs?

    python -m benchmarks.retriever_tuning RUN [--out FOLDER]

RUN is a build of the real labels with the built-in writer (`fdarx build`). Labels are divided by a hash of the names of
their moieties into the halves dev and test (`benchmarks.drug_search.is_test`); labels with moieties of both are left
out. Two encoders are tuned in one epoch on passages cut at 128 tokens, so that a CPU does it in minutes; the other
options are the defaults of `fdarx finetune retriever`. Nothing was chosen by a result. One encoder is tuned on the dev
half and measured on the test half's questions, on at most 6 labels a drug. The other is tuned on the test half and
measured on the questions that writers who read the labels of the dev half wrote (`marked/label_evidence.jsonl`). Of the
drugs of the training half, about 15 % decide when to stop. Prints recall@5 before and after, by vectors and fused with
BM25, with 95 % intervals by bootstrap over drugs. A passage is new if no gold passage of the training half shares 80 %
of its words, names of drugs aside: NSAIDs share much of their text. Exits 1 unless the recall by vectors has risen for
certain on the test half's questions, or where it has fallen for certain on the written ones.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import orjson

from benchmarks import run
from benchmarks.drug_search import is_test
from fdarx_core.baseline.tokens import content_words, words_of
from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.records import Difference, Passage, content_id
from fdarx_core.retrieval.encoders import SentenceEncoder, WindowVectors
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.retrievers import Collection, Queries, get_retriever, headed_passage, passage_search_text
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.run_directory import LabelRows, read_labels
from fdarx_core.tuning.evaluation import BASE, TUNED, RowFields, base_and_tuned
from fdarx_core.tuning.pairs import part_of
from fdarx_core.tuning.retriever_training import RetrieverSpec, answerable, retrieval_examples, train_retriever

LABELS_A_DRUG = 6
FIRST = 5
SAME = 0.8
MEASURES = {
    "cosine": "vectors, within the label",
    "hybrid": "vectors and BM25, within the label",
    "bm25": "BM25, within the label",
    "corpus": "vectors, among all labels",
}
EVIDENCE = Path(__file__).parent / "marked" / "label_evidence.jsonl"
SAME_WORDS, SAME_ORDER = 0.9, 0.85
"""Shares of a quotation's words, and of those in its order, from which a passage of another label has it as well."""
FIELDS = RowFields(model="model", cluster="drug", question="question_id")


def _words(text: str) -> list[str]:
    """Return the words and numbers of a text in lower case."""
    return re.findall(r"[a-z]+|\d+(?:\.\d+)?", text.lower())


def has_quote(text: str, quotes: Sequence[str]) -> bool:
    """Return whether a text has one of the quotations, or one with nearly the same words in the same order."""
    found = _words(text)
    for quote in map(_words, quotes):
        if quote and f" {' '.join(quote)} " in f" {' '.join(found)} ":
            return True
        if len(quote) < 5 or (Counter(quote) & Counter(found)).total() < SAME_WORDS * len(quote):
            continue
        blocks = SequenceMatcher(None, quote, found, autojunk=False).get_matching_blocks()
        if sum(block.size for block in blocks) >= SAME_ORDER * len(quote):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a label, and the positions of its gold passages; `new` as in the module's docstring."""

    id: str
    text: str
    gold: frozenset[int]
    new: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """The shares of the gold passages of a question that a model finds; `corpus` among the passages of all labels."""

    question_id: str
    drug: str
    model: str
    new: bool
    cosine: float
    hybrid: float
    bm25: float
    corpus: float


def half_of(rows: LabelRows) -> str:
    """Return the half of a label by its moieties, "" where they are in both."""
    halves = {is_test(moiety) for product in rows.label.products for moiety in product.moieties}
    return {True: "test", False: "dev"}[halves.pop()] if len(halves) == 1 else ""


def tuned_encoder(labels: Sequence[LabelRows], out: Path) -> str:
    """Tune MiniLM on a half's labels; return the directory of the model."""
    spec = RetrieverSpec(ModelDirectories().of("cosine"), length=128, epochs=1)
    parts: defaultdict[bool, list[LabelRows]] = defaultdict(list)
    for rows in labels:
        parts[{part_of(one, spec.seed) for one in rows.label.drug.split("+")} == {"train"}].append(rows)
    train, validation = (retrieval_examples(parts[part], spec.negatives)[0] for part in (True, False))
    if not (out / "model").exists():
        curve = train_retriever(spec, train, validation, out, lambda *told: print(*told, flush=True))
        print(f"{len(curve)} steps")
    print(f"tuned on {len(train)} questions to {len(parts[True])} labels, {len(validation)} for validation")
    return str(out / "model")


class SeenTexts:
    """The gold passages of the training half, without names of drugs."""

    def __init__(self, labels: Iterable[LabelRows]) -> None:
        texts = {frozenset(self._words(rows, rows.passages[at])) for rows in labels for at in _gold_of(rows)}
        self._texts = sorted(texts, key=len)

    def has(self, rows: LabelRows, passage: Passage) -> bool:
        """Return whether a passage has a near copy among them."""
        words = self._words(rows, passage)
        return any(len(words & one) >= SAME * len(words | one) for one in self._texts)

    @staticmethod
    def _words(rows: LabelRows, passage: Passage) -> frozenset[str]:
        return content_words(passage.text) - {word for name in rows.label.aliases for word in words_of(name)}


def _gold_of(rows: LabelRows) -> set[int]:
    return {at for question in answerable(rows) for at in gold_indices(question)}


def test_questions(labels: Iterable[LabelRows], seen: SeenTexts) -> Iterator[tuple[LabelRows, list[Asked]]]:
    """Yield at most `LABELS_A_DRUG` labels of each drug, chosen by a hash, with their questions."""
    of_drug: defaultdict[str, list[LabelRows]] = defaultdict(list)
    for rows in labels:
        of_drug[rows.label.drug].append(rows)
    for same in of_drug.values():
        for rows in sorted(same, key=lambda one: content_id(one.label.set_id))[:LABELS_A_DRUG]:
            places = {passage: at for at, passage in enumerate(rows.passages)}
            yield (
                rows,
                [
                    Asked(
                        one.id,
                        one.question,
                        frozenset(places[at] for at in gold_indices(one)),
                        not any(seen.has(rows, rows.passages[at]) for at in gold_indices(one)),
                    )
                    for one in answerable(rows)
                ],
            )


def written_questions(labels: Iterable[LabelRows]) -> Iterator[tuple[LabelRows, list[Asked]]]:
    """Yield the labels to which questions of `label_evidence.jsonl` were written, with these questions."""
    asked: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in filter(itemgetter("answerable"), map(orjson.loads, EVIDENCE.read_bytes().splitlines())):
        asked[row["set_id"]].append(row)
    for rows in labels:
        found = [
            Asked(row["id"], row["question"], frozenset(_quoting(rows, row["quotes"])))
            for row in asked[rows.label.set_id]
        ]
        if any(one.gold for one in found):
            yield rows, [one for one in found if one.gold]


def _quoting(rows: LabelRows, quotes: Sequence[str]) -> Iterator[int]:
    return (at for at, passage in enumerate(rows.passages.values()) if has_quote(passage.text, quotes))


def search(directory: str, model: str, asked: Sequence[tuple[LabelRows, list[Asked]]]) -> list[Found]:
    """Return what a model finds, within each label and among the passages of all labels."""
    encoder = SentenceEncoder(directory, fast=True)
    vectors = [encoder.encode_passages([*map(headed_passage, rows.passages.values())]) for rows, _ in asked]
    everything = WindowVectors.concatenate(vectors)
    owners = [(rows.label.drug, _text(one)) for rows, _ in asked for one in rows.passages.values()]
    found: list[Found] = []
    for (rows, questions), own in zip(asked, vectors, strict=True):
        passages = list(rows.passages.values())
        texts = [one.text for one in questions]
        queries = Queries(texts, {"cosine": encoder.encode_questions(texts)})
        collection = Collection([*map(passage_search_text, passages)], {"cosine": own})
        ranked = {name: get_retriever(name).rank(queries, collection, FIRST) for name in ("cosine", "hybrid", "bm25")}
        anywhere = Collection([""] * len(owners), {"cosine": everything}).nearest(
            "cosine", queries.vectors["cosine"], FIRST
        )
        for at, one in enumerate(questions):
            shares = {name: _share(one.gold, {place for place, _ in ranks[at]}) for name, ranks in ranked.items()}
            hits = {owners[place] for place, _ in anywhere[at]}
            gold = {(rows.label.drug, _text(passages[place])) for place in one.gold}
            found.append(Found(one.id, rows.label.drug, model, one.new, **shares, corpus=len(gold & hits) / len(gold)))
    return found


def both(directory: str, asked: Sequence[tuple[LabelRows, list[Asked]]]) -> list[Found]:
    """Return what MiniLM and the tuned model find."""
    return [*search(ModelDirectories().of("cosine"), BASE, asked), *search(directory, TUNED, asked)]


def _text(passage: Passage) -> str:
    return " ".join(passage.text.split())


def _share(gold: frozenset[int], found: set[int]) -> float:
    return len(gold & found) / min(len(gold), FIRST)


def print_changes(title: str, rows: Sequence[Found]) -> Difference:
    """Print the recall before and after; return the difference by vectors within the label."""
    counted = [one for one in rows if one.model == BASE]
    labels = f"{len(counted)} questions, {len({one.drug for one in counted})} drugs"
    print(f"\n{title}: {labels}; recall@{FIRST}:")
    measures = {name: (name, attrgetter(name)) for name in MEASURES}
    changes = base_and_tuned(rows, measures, FIELDS, seed=0, resamples=2000)
    for name, base, tuned, one in changes:
        bounds = "" if one.low is None else f" [{one.low:+.3f}, {one.high:+.3f}]"
        print(f"{MEASURES[name]:34} base {base.value:.3f}  tuned {tuned.value:.3f}  {one.value:+.3f}{bounds}")
    return next(difference for name, *_, difference in changes if name == "cosine")


def main(place: str, /, *, out: str = "") -> int:
    """Tune, measure and print."""
    halves: Mapping[str, list[LabelRows]] = {"dev": [], "test": [], "": []}
    for rows in read_labels(open_build(place)):
        halves[half_of(rows)].append(rows)
    asked = {half: [rows for rows in labels if answerable(rows)] for half, labels in halves.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(out or name)
        model = tuned_encoder(asked["dev"], folder / "dev")
        found = both(model, list(test_questions(asked["test"], SeenTexts(asked["dev"]))))
        template = print_changes("template questions", found)
        print_changes("those whose gold passage is new", [one for one in found if one.new])
        model = tuned_encoder(asked["test"], folder / "test")
        written = print_changes("written questions", both(model, list(written_questions(halves["dev"]))))
    return int((template.low or 0) <= 0 or (written.high or 0) < 0)


if __name__ == "__main__":
    run(main)
