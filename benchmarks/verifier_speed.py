"""Pairs a CPU second of the cross-encoder engine, over one pair at a time with transformers on the same model.

    python -m benchmarks.verifier_speed [--model DIRECTORY] [--claims 16] [--threads 2]

Claims of MedLFQA's published answers are paired with their five nearest passages of real labels, which fit into one
input; whether windows cut a claim is counted on twenty passages in one text as well. One pair at a time is measured in
two ways: `padded` pads each pair to 512 tokens, as `tokenizer(..., padding="max_length", truncation=True)` does;
`unpadded` does not pad. Both ways and the engine use as many threads as there are CPUs, or --threads; seconds are those
of all threads together. torch's threads spin while they wait, which alone makes the ratios large on a busy machine:
`--threads 1` is the fairer comparison there. Without --model, the model is a MiniLM (6 layers of 384) with random
weights. Exits 1 where probabilities differ by more than 1e-6, a claim is cut, or the engine judges less than 4 times as
many pairs a CPU second as `padded`, 1.2 times as many as `unpadded`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import DATA, cpu_timed, json_lines, read_documents, run
from fdarx_core.baseline.claims import claims_of
from fdarx_core.labels import parse_document
from fdarx_core.records import CheckedAnswer
from fdarx_core.retrieval import Collection, Queries, get_retriever
from fdarx_core.verify.cross_encoder import CrossEncoder, InputBuilder
from fdarx_core.verify.engine import Inference, TextPair, Unjudged

ROUNDS = 3
LEAST = {"padded": 4.0, "unpadded": 1.2}
K = 5
TOLERANCE = 1e-6
LONGEST = 512
LABELS = 40
SHAPE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
"""The shape of MiniLM-L6."""
WORDS = 30_000
"""The size of the vocabulary, as in BERT: with a smaller one, texts would have more tokens."""
ANSWERS = ("medlfqa/kqa_golden_test.mistral-7b.jsonl", "medlfqa/live_qa_test.mistral-7b.jsonl")

Row = tuple[float, float, float]
Way = Callable[[Sequence[TextPair]], list[Row]]


def sampled_claims(wanted: int) -> list[str]:
    """Return so many claims, evenly from all answers."""
    rows = [row for name in ANSWERS for row in json_lines(DATA / name)]
    answers = [CheckedAnswer(str(at), str(at), row["question"], row["answer"], "m") for at, row in enumerate(rows)]
    found = [claim.resolved for answer in answers for claim in claims_of(answer)]
    return found[:: max(1, len(found) // wanted)][:wanted]


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
    config = BertConfig(**shape, vocab_size=WORDS, id2label=names, initializer_range=0.05)
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


def one_by_one(directory: str, padding: str | bool) -> Way:
    """Return the usual loop over pairs."""
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
        found = [one for one in entailment.infer(pairs) if isinstance(one, Inference)]
        return [(one.entailment, one.neutral, one.contradiction) for one in found]

    return judge


def measure(ways: Mapping[str, Way], pairs: Sequence[TextPair]) -> tuple[dict[str, float], float]:
    """Return the pairs a CPU second of each way, the median of rounds, and the largest difference of probabilities."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        results = {}
        for way, judge in ways.items():
            results[way], seconds = cpu_timed(partial(judge, pairs))
            taken[way].append(seconds)
    worst = max(
        abs(one - other)
        for row, others in zip(results["unpadded"], results["batched"], strict=True)
        for one, other in zip(row, others, strict=True)
    )
    return {way: len(pairs) / median(found) for way, found in taken.items()}, worst


def cut_claims(directory: str, pairs: Sequence[TextPair]) -> int:
    """Return how many inputs of the model do not hold the whole claim, and print how many there are."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    found = InputBuilder(tokenizer, LONGEST).of(pairs)
    inputs = [
        (one, pair.hypothesis)
        for pair, read in zip(pairs, found, strict=True)
        if not isinstance(read, Unjudged)
        for one in read
    ]
    cut: int = sum(one.claim.tolist() != tokenizer(text, add_special_tokens=False)["input_ids"] for one, text in inputs)
    print(f"{len(pairs)} pairs in {len(inputs)} inputs of at most {LONGEST} tokens; claims cut: {cut}")
    return cut


def main(*, model: str | None = None, claims: int = 16, threads: int | None = None) -> int:
    """Print differences, cut claims, pairs a CPU second and ratios."""
    import torch

    threads = threads or os.cpu_count() or 1
    torch.set_num_threads(threads)
    texts, passages = sampled_claims(claims), label_passages()
    with tempfile.TemporaryDirectory() as folder:
        directory = model or model_of(SHAPE, [*texts, *passages], Path(folder))
        pairs = pairs_of(texts, passages)
        cut = cut_claims(directory, [*pairs, *(TextPair("\n".join(passages[:20]), text) for text in texts)])
        ways = {
            "padded": one_by_one(directory, "max_length"),
            "unpadded": one_by_one(directory, False),
            "batched": batched(directory),
        }
        rates, worst = measure(ways, pairs)
    print(f"probabilities within {worst:.1e} of transformers' (at most {TOLERANCE:.0e}); load {os.getloadavg()[0]:.1f}")
    print(f"pairs a CPU second, {threads} threads: {', '.join(f'{way} {one:.1f}' for way, one in rates.items())}")
    ratios = {way: rates["batched"] / rates[way] for way in LEAST}
    print(f"over {', '.join(f'{way} {one:.2f} (at least {LEAST[way]})' for way, one in ratios.items())}")
    return int(cut > 0 or worst > TOLERANCE or any(ratios[way] < least for way, least in LEAST.items()))


if __name__ == "__main__":
    run(main)
