"""The time to parse labels into passages, over the time that lxml takes for the bare tree of the same bytes.

    python -m benchmarks.parse [PATH …]

Both run on one core and alternate label by label, so that other load on the machine affects both; their CPU time is
measured. Exits 1 above a ratio of 3.8. RESULTS.md says what was tried to lower it.
"""

from __future__ import annotations

from statistics import median
from time import process_time

from lxml import etree

from benchmarks import read_documents, run
from fdarx_core.labels import parse_document

ROUNDS = 5
LIMIT = 3.8


def run_round(documents: list[bytes]) -> tuple[float, float, int]:
    """Return the seconds for the bare trees and for the parser, and the number of passages."""
    tree = parser = 0.0
    passages = 0
    for data in documents:
        start = process_time()
        etree.fromstring(data)
        between = process_time()
        _, found = parse_document(data)
        parser += process_time() - between
        tree += between - start
        passages += len(found)
    return tree, parser, passages


def main(*paths: str) -> int:
    """Print each round and the medians."""
    documents = read_documents(paths)
    megabytes = sum(map(len, documents)) / 1e6
    print(f"{len(documents)} labels, {megabytes:.1f} MB, {ROUNDS} rounds")
    rounds = [run_round(documents) for _ in range(ROUNDS)]
    for tree, parser, _ in rounds:
        print(f"  tree {tree:.3f} s   parser {parser:.3f} s   ratio {parser / tree:.2f}")
    ratio, seconds = median(parser / tree for tree, parser, _ in rounds), median(parser for _, parser, _ in rounds)
    print(f"{rounds[0][2]} passages, {len(documents) / seconds:.0f} labels/s, {megabytes / seconds:.1f} MB/s")
    print(f"parser over bare tree, median: {ratio:.2f} (at most {LIMIT})")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    run(main)
