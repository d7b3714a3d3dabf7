"""Claims a second of an NLI model: in batches by length, over one pair at a time with the same model and pairs.

    python -m benchmarks.factuality [--model DIRECTORY] [--claims 16]

Claims of MedLFQA's published answers are compared with their five nearest passages of real labels, then with their five
nearest PubMedQA abstracts. One pair at a time is measured in two ways: `padded` pads each pair to 512 tokens, as
`tokenizer(..., padding="max_length", truncation=True)` does; `plain` does not pad. Seconds are CPU seconds of one core.
Without --model, the model is a BERT with random weights. Exits 1 where batches judge less than 3 times as many claims a
second as `padded` on passages of labels, or results differ.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import DATA, command_line, cpu_timed, json_lines, read_documents
from fdarx_core.baseline.claims import claims_of
from fdarx_core.labels import parse_document
from fdarx_core.records import CheckedAnswer
from fdarx_core.retrieval import Collection, Queries, get_retriever
from fdarx_core.verify.cross_encoder import CrossEncoder
from fdarx_core.verify.engine import Inference, TextPair

ROUNDS = 3
LEAST = 3.0
K = 5
TOLERANCE = 1e-5
LONGEST = 512
LABELS = 40
SHAPE = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
"""The shape of BERT-mini: small for an NLI model, but nearly all of its time is arithmetic."""
WORDS = 30_000
"""The size of the vocabulary, as in BERT: with a smaller one, texts would have more tokens."""
ANSWERS = ("medlfqa/kqa_golden_test.mistral-7b.jsonl", "medlfqa/live_qa_test.mistral-7b.jsonl")

Row = tuple[float, float, float]
Way = Callable[[Sequence[TextPair]], list[Row]]


def claims(wanted: int) -> list[str]:
    """Return so many claims, evenly from all answers."""
    rows = [row for name in ANSWERS for row in json_lines(DATA / name)]
    answers = [CheckedAnswer(str(at), str(at), row["question"], row["answer"], "m") for at, row in enumerate(rows)]
    found = [claim.resolved for answer in answers for claim in claims_of(answer)]
    return found[:: max(1, len(found) // wanted)][:wanted]


def abstracts() -> list[str]:
    """Return the texts of the abstracts."""
    return ["\n".join(row["CONTEXTS"]) for row in json_lines(DATA / "pubmedqa" / "labelled.jsonl")]


def label_passages() -> list[str]:
    """Return the passages of the first labels."""
    return [passage.text for data in read_documents(most=LABELS) for passage in parse_document(data)[1]]


def pairs_of(texts: Sequence[str], passages: Sequence[str]) -> list[TextPair]:
    """Pair each claim with its nearest passages."""
    found = get_retriever("bm25").rank(Queries(texts), Collection(passages), K)
    return [TextPair(passages[at], text) for text, ranked in zip(texts, found, strict=True) for at, _ in ranked]


def model_of(shape: Mapping[str, int], texts: Sequence[str], folder: Path) -> str:
    """Write a BERT with random weights and a tokenizer of these texts; return its directory."""
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    plain = BertWordPieceTokenizer()
    plain.train_from_iterator(texts, vocab_size=WORDS, show_progress=False)
    plain.save_model(str(folder))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=LONGEST).save_pretrained(folder)
    torch.manual_seed(5)
    names = dict(enumerate(("entailment", "neutral", "contradiction")))
    config = BertConfig(**shape, vocab_size=WORDS, id2label=names, initializer_range=0.1)
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


def one_by_one(directory: str, padding: str | bool) -> Way:
    """Return the usual loop over pairs; longer pairs are truncated."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()

    def judge(pair: TextPair) -> Row:
        inputs = tokenizer(
            pair.premise, pair.hypothesis, truncation=True, max_length=LONGEST, padding=padding, return_tensors="pt"
        )
        with torch.no_grad():
            first, second, third = model(**inputs).logits.softmax(-1)[0].tolist()
        return first, second, third

    return lambda pairs: [judge(pair) for pair in pairs]


def batched(directory: str) -> Way:
    """Return our engine."""
    entailment = CrossEncoder(directory, device="cpu")

    def judge(pairs: Sequence[TextPair]) -> list[Row]:
        found = [one for one in entailment.judge(pairs) if isinstance(one, Inference)]
        return [(one.entailment, one.neutral, one.contradiction) for one in found]

    return judge


def measure(name: str, ways: Mapping[str, Way], pairs: Sequence[TextPair]) -> dict[str, float]:
    """Return the median seconds of each way, and print claims a second. Raises SystemExit where results differ."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        results = {}
        for way, judge in ways.items():
            results[way], seconds = cpu_timed(partial(judge, pairs))
            taken[way].append(seconds)
    worst = max(
        abs(one - other)
        for way in ("padded", "plain")
        for row, others in zip(results[way], results["batched"], strict=True)
        for one, other in zip(row, others, strict=True)
    )
    if worst > TOLERANCE:
        raise SystemExit(f"{name}: results differ by {worst:.1e}, at most {TOLERANCE} is due to rounding")
    medians = {way: median(found) for way, found in taken.items()}
    rates = "   ".join(f"{way} {len(pairs) / K / found:5.2f}" for way, found in medians.items())
    print(f"{name}: claims a CPU second: {rates}   results within {worst:.0e}", flush=True)
    return medians


def fitting(directory: str, pairs: Sequence[TextPair]) -> list[TextPair]:
    """Return the pairs that need no truncation."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    sizes = [len(tokenizer(pair.premise, pair.hypothesis, verbose=False)["input_ids"]) for pair in pairs]
    kept = [pair for pair, size in zip(pairs, sizes, strict=True) if size <= LONGEST]
    print(f"  {len(kept)} of {len(pairs)} pairs fit in {LONGEST} tokens; median {median(sizes):.0f} tokens a pair")
    return kept


def main() -> int:
    """Print claims a second and ratios."""
    import torch

    parser = command_line(__doc__)
    parser.add_argument("--model", help="directory of an NLI model")
    parser.add_argument("--claims", type=int, default=16)
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts, evidence = claims(options.claims), {"labels": label_passages(), "abstracts": abstracts()}
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        known = [*texts, *(text for passages in evidence.values() for text in passages)]
        directory = options.model or model_of(SHAPE, known, Path(folder))
        ways = {
            "padded": one_by_one(directory, "max_length"),
            "plain": one_by_one(directory, False),
            "batched": batched(directory),
        }
        print(f"{len(texts)} claims × {K} passages, {options.model or f'BERT of random weights, {SHAPE}'}")
        for name, passages in evidence.items():
            seconds = measure(name, ways, fitting(directory, pairs_of(texts, passages)))
            for way in ("padded", "plain"):
                ratios[name, way] = seconds[way] / seconds["batched"]
                print(f"  batched over {way}, one by one: {ratios[name, way]:.2f}")
    print(f"load average {os.getloadavg()[0]:.1f}; labels, over padded: at least {LEAST}")
    return int(ratios["labels", "padded"] < LEAST)


if __name__ == "__main__":
    sys.exit(main())
