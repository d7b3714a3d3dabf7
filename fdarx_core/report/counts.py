"""What a build's report counts, summed over the parts of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.report.parts import Part
from fdarx_core.report.retention import Dropped

ANY_TYPE = "any"
"""Stands for all question types together in `Counts.asked`."""


@dataclass(slots=True)
class Counts:
    """Aggregates of a run; their size depends on the kinds of rows, not on how many there are.

    `questions` by (type, source, category); `candidates` by type, before filters; `sections` by LOINC code: labels in
    which that core section has text; `asked` by (LOINC code, type or `ANY_TYPE`): labels in which a question's gold
    passages lie there; `passage_words` by length in words; `questions_per_label` by number of questions, 0 included.
    """

    labels: int = 0
    passages: int = 0
    questions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    candidates: Counter[str] = field(default_factory=Counter)
    dropped: Dropped = field(default_factory=Counter)
    sections: Counter[str] = field(default_factory=Counter)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    passage_words: Counter[int] = field(default_factory=Counter)
    questions_per_label: Counter[int] = field(default_factory=Counter)

    def add(self, part: Part) -> None:
        """Count one part in. Labels must not be spread over parts."""
        self.labels += part.labels.num_rows
        self.passages += part.passages.num_rows
        self.questions.update(_tally(part.questions, ["type", "source", "category"]))
        self.candidates.update(_single(_tally(part.candidates, ["type"])))
        self.dropped.update(_tally(_typed_rejects(part), ["stage", "reason", "type"]))
        self.passage_words.update(_word_counts(part.passages["text"]))
        self.questions_per_label.update(_questions_per_label(part))
        self._add_coverage(part)

    def _add_coverage(self, part: Part) -> None:
        sections = _distinct(part.passages, ["core_code", "set_id"])
        self.sections.update(_single(_tally(sections, ["core_code"])))
        asked = _asked_sections(part)
        self.asked.update(_tally(_distinct(asked, ["core_code", "type", "set_id"]), ["core_code", "type"]))
        either = _tally(_distinct(asked, ["core_code", "set_id"]), ["core_code"])
        self.asked.update({(code, ANY_TYPE): labels for (code,), labels in either.items()})


def quantile(lengths: Counter[int], share: float) -> int:
    """The smallest value that at least `share` of the counted rows don't exceed; 0 where nothing was counted."""
    left = share * lengths.total()
    for value in sorted(lengths):
        left -= lengths[value]
        if left <= 0:
            return value
    return 0


def _tally(table: pa.Table, names: Sequence[str]) -> Counter[Any]:
    grouped = table.select(list(names)).group_by(list(names)).aggregate([([], "count_all")])
    keys = zip(*(grouped[name].to_pylist() for name in names), strict=True)
    return Counter(dict(zip(keys, grouped["count_all"].to_pylist(), strict=True)))


def _single(tally: Counter[Any]) -> dict[str, int]:
    return {key: rows for (key,), rows in tally.items()}


def _distinct(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.select(list(names)).group_by(list(names)).aggregate([])


def _typed_rejects(part: Part) -> pa.Table:
    """Rejects with the type of the candidate they were, "" for rows that were no questions yet."""
    found = pc.index_in(part.rejects["id"], value_set=part.candidates["id"].combine_chunks())
    types = pc.fill_null(part.candidates["type"].take(found), "")
    return part.rejects.append_column("type", types)


def _word_counts(texts: pa.ChunkedArray) -> dict[int, int]:
    counted = pc.value_counts(pc.count_substring_regex(texts, r"\S+"))
    return {row["values"]: row["counts"] for row in counted.to_pylist()}


def _questions_per_label(part: Part) -> Counter[int]:
    asked = _tally(part.questions, ["set_id"])
    spread = Counter(asked.values())
    spread[0] += part.labels.num_rows - len(asked)
    return +spread


def _asked_sections(part: Part) -> pa.Table:
    """One row for each gold passage of each question: its label, its core section, the question's type."""
    questions = part.questions.combine_chunks()
    gold = questions["gold_passages"].combine_chunks()
    asking = questions.select(["set_id", "type"]).take(pc.list_parent_indices(gold))
    asking = asking.append_column("doc_chunk_index", pc.list_flatten(gold))
    places = part.passages.select(["set_id", "doc_chunk_index", "core_code"])
    return asking.join(places, keys=["set_id", "doc_chunk_index"], join_type="inner")
