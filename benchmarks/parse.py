"""The time to parse labels into passages, over the time that lxml takes for the bare tree of the same bytes.

    python -m benchmarks.parse [PATH …]

Both run on one core and alternate label by label, so that other load on the machine affects both; their CPU time is
measured. A last pass measures the parts of the parser. Exits 1 above a ratio of 3.8.
RESULTS.md says what was tried to lower it.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from time import process_time

from lxml import etree

from benchmarks import read_documents, run
from fdarx_core.labels import parse_document
from fdarx_core.labels.blocks import MARK_TAGS, read_blocks, rewrite_marks
from fdarx_core.labels.metadata import SUBJECT, read_header, read_products
from fdarx_core.labels.xml import TEXT, parse_xml

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


def part_seconds(documents: list[bytes]) -> dict[str, float]:
    """Return the seconds for the bare trees and for the parts of the parser.

    Texts with tables are apart from others. What these parts leave of the parser's time is for sections, passages and
    other records, and for freeing the tree.
    """
    seconds = defaultdict[str, float](float)
    clock = process_time()

    def add(part: str) -> None:
        nonlocal clock
        seconds[part] += process_time() - clock
        clock = process_time()

    for data in documents:
        clock = process_time()
        etree.fromstring(data)
        add("bare tree")
        root, special = parse_xml(data, SUBJECT, *MARK_TAGS)
        add("tree with plain tags")
        read_header(root)
        read_products(element for element in special if element.tag == SUBJECT)
        add("header and products")
        notes = rewrite_marks(special)
        add("superscripts and footnotes")
        for text in root.iter(TEXT):
            part = "texts without tables" if next(text.iter("table"), None) is None else "texts with tables"
            clock = process_time()
            read_blocks(text, notes)
            add(part)
    return seconds


def main(*paths: str) -> int:
    """Print each round, the medians and the parts."""
    documents = read_documents(paths)
    megabytes = sum(map(len, documents)) / 1e6
    print(f"{len(documents)} labels, {megabytes:.1f} MB, {ROUNDS} rounds")
    rounds = [run_round(documents) for _ in range(ROUNDS)]
    for tree, parser, _ in rounds:
        print(f"  tree {tree:.3f} s   parser {parser:.3f} s   ratio {parser / tree:.2f}")
    ratio, seconds = median(parser / tree for tree, parser, _ in rounds), median(parser for _, parser, _ in rounds)
    print(f"{rounds[0][2]} passages, {len(documents) / seconds:.0f} labels/s, {megabytes / seconds:.1f} MB/s")
    parts = part_seconds(documents)
    tree = parts.pop("bare tree")
    for part, spent in parts.items():
        print(f"  {spent / tree:.2f} {part}")
    print(f"  {ratio - sum(parts.values()) / tree:.2f} sections, passages and other records; freeing the tree")
    print(f"parser over bare tree, median: {ratio:.2f} (at most {LIMIT})")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    run(main)
