"""What reading costs: XML bytes to Labels and Passages, against lxml building the bare tree of the same bytes.

    python -m benchmarks.parse [PATH …]

One core; the two take turns label by label, so that what else the machine does falls on both. Exits 1 above a ratio
of 4.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from lxml import etree

from fdarx_core.labels import find_sources, parse_document, read_source
from fdarx_core.records import Reject

ROUNDS = 5
LIMIT = 4.0


@dataclass(slots=True)
class Round:
    """Seconds over all documents: of the bare tree, of the parser; and how many passages came out."""

    tree: float = 0.0
    parser: float = 0.0
    passages: int = 0

    @property
    def ratio(self) -> float:
        """Parser over bare tree."""
        return self.parser / self.tree


def read_all(paths: list[str]) -> list[bytes]:
    """The bytes of every document under the paths, by default the real prescription labels of $FDARX_DATA."""
    data = os.environ.get("FDARX_DATA", "../shared/data")
    sources = find_sources(paths or [f"{data}/spl/dm_spl_release_human_rx.zip"]).sources
    found = (document for source in sources for document in read_source(source))
    return [document[1] for document in found if not isinstance(document, Reject)]


def run_round(documents: list[bytes]) -> Round:
    """Both readings of every document, in turn."""
    result = Round()
    for data in documents:
        start = perf_counter()
        etree.fromstring(data)
        between = perf_counter()
        _, passages = parse_document(data)
        result.parser += perf_counter() - between
        result.tree += between - start
        result.passages += len(passages)
    return result


def main(paths: list[str]) -> int:
    """Print the rounds and their median; exit 1 when the parser takes more than `LIMIT` times the bare tree."""
    documents = read_all(paths)
    megabytes = sum(map(len, documents)) / 1e6
    print(f"{len(documents)} labels, {megabytes:.1f} MB, {ROUNDS} rounds")
    rounds = [run_round(documents) for _ in range(ROUNDS)]
    for result in rounds:
        print(f"  tree {result.tree:.3f} s   parser {result.parser:.3f} s   ratio {result.ratio:.2f}")
    ratio, seconds = median(result.ratio for result in rounds), median(result.parser for result in rounds)
    print(f"{rounds[0].passages} passages, {len(documents) / seconds:.0f} labels/s, {megabytes / seconds:.1f} MB/s")
    print(f"parser over bare tree, median: {ratio:.2f} (at most {LIMIT})")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
