"""The filtered list, blocks of details and choice of labels that the pages of all questions and all answers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fdarx_core.evaluation.gold import PassageKey
from fdarx_core.records import content_id
from fdarx_core.report.page_engine import packed
from fdarx_core.storage import Location, read_table

BLOCK = 400_000
"""Characters of passages after which a block of details ends."""


class BrowseTable:
    """The rows and the details of a page, as JSON values for its script.

    `columns` has the texts of the rows and, for each field, the positions of its values in `values`. `blocks` has, for
    each group of labels, the passages that its rows share and the details of each row; `starts` has the row with which
    each block begins.
    """

    def __init__(self, texts: Sequence[str], fields: Sequence[str]) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in (*texts, *fields)}
        self.blocks: list[dict[str, list[Any]]] = []
        self.starts: list[int] = []
        self._positions: dict[str, dict[str, int]] = {name: {} for name in fields}
        self._passages: dict[PassageKey, int] = {}
        self._size = BLOCK

    def begin_label(self) -> None:
        """Begin a new block, if the last one is large enough; the rows on a label are in one block."""
        if self._size >= BLOCK:
            self.blocks.append({"passages": [], "rows": []})
            self.starts.append(len(self.columns["id"]))
            self._passages, self._size = {}, 0

    def add_row(self, texts: Mapping[str, Any], values: Mapping[str, str], details: Any) -> None:
        """Add a row with the values of its fields; its details go into the last block."""
        for name, text in texts.items():
            self.columns[name].append(text)
        for name, value in values.items():
            self.columns[name].append(self.position(name, value))
        self.blocks[-1]["rows"].append(details)

    def position(self, field: str, value: str) -> int:
        """Return the position of a value among those of its field."""
        return self._positions[field].setdefault(value, len(self._positions[field]))

    def keep_passage(self, key: PassageKey, text: str, *about: str) -> int:
        """Store a passage once in the last block, as marker, section, text and more; return its position there.

        Args:
            key: the label and the position of the passage in it.
            text: its text.
            about: its marker, its section, and what follows the text.
        """
        if key not in self._passages:
            self._passages[key] = len(self._passages)
            marker, section, *more = about
            self.blocks[-1]["passages"].append([marker, section, text, *more])
            self._size += len(text)
        return self._passages[key]

    def packed(self, **more: Any) -> dict[str, Any]:
        """Return the list, with `more` in it, and the details, compressed, and the number of rows, for the template."""
        values = {name: list(positions) for name, positions in self._positions.items()}
        return {
            "table": packed({"columns": self.columns, "values": values, **more, "starts": self.starts}),
            "details": [packed(block) for block in self.blocks],
            "rows": len(self.columns["id"]),
        }


def chosen_labels(parts: Iterable[Location], seed: int, most: int) -> tuple[frozenset[str], int]:
    """Return the labels whose rows a page shows, and the number of all rows.

    They are all labels, or those with the smallest hash of seed and set id that have at most `most` rows together; the
    first of them is shown in any case.
    """
    counts = Counter[str]()
    for part in parts:
        counts.update(read_table(part, ["set_id"])["set_id"].to_pylist())
    left, chosen = most, set[str]()
    for set_id in sorted(counts, key=lambda one: content_id(str(seed), one)):
        left -= counts[set_id]
        if left < 0 and chosen:
            break
        chosen.add(set_id)
    return frozenset(chosen), counts.total()
