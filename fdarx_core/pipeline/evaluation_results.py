"""The figures of an evaluation from its scored parts: tasks sum up some parts each, and the driver adds up the sums.

The driver holds the sums by cluster of the cells of one model, and then those of some pairs of cells; no rows. Sums of
pairs that do not fit wait in files of the run, so that each part is read three times, however many pairs there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import groupby, islice
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from fdarx_core.evaluation.bootstrap import (
    PairedRows,
    PairedSums,
    differences_of_sums,
    paired_sums,
    slice_sums,
    with_holm,
)
from fdarx_core.evaluation.cell_sums import (
    CellCounts,
    ClusterSums,
    pack_pairs,
    pack_slices,
    unpack_pairs,
    unpack_slices,
)
from fdarx_core.evaluation.comparability import excluded_metrics, with_provenance
from fdarx_core.evaluation.figures import (
    COMPARED,
    COMPARED_RETRIEVERS,
    RETRIEVAL_SUBGROUP_METRICS,
    SUBGROUP_METRICS,
    CellKey,
    Edges,
    Pair,
    StandingNames,
    Wanted,
    alike_pairs,
    comparison_pairs,
    figure_slices,
    figures_of_sums,
    named_differences,
    pair_slices,
    standing_names,
    tertiles,
)
from fdarx_core.evaluation.metrics import (
    RETRIEVAL_METRICS,
    CellFacts,
    Metric,
    Numbers,
    ScoreColumns,
    score_metrics,
)
from fdarx_core.pipeline.evaluation_models import with_bert_scores
from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.steps import batches
from fdarx_core.records import Difference, Figure, RetrievalScore, Score, SettingProgress, arrow_schema
from fdarx_core.storage import Location, RunDirectory, read_tables, write_records, write_table

_FILES_AT_ONCE = 160
"""Files of scores that a task reads and sums up. In smaller tasks, the fixed cost of each slice takes longer."""
_PAIRS_BYTES = 2**28
"""Bytes that the sums of the pairs that the driver holds at once may take; those of more pairs are kept in files."""
_KEPT_AT_ONCE = 16
"""Files of such sums that are read at a time."""
_PAIR_COLUMNS = 7
"""Sums by cluster of one metric of a pair: most metrics have at most three components in each cell, and a count."""
_PAIRS_AT_ONCE = 16
"""Pairs that are multiplied with the same samples at once: to draw them takes longer than to multiply."""

ScoredPart: TypeAlias = tuple[Location, Location | None]
"""The scores of a part of one model or retriever, and its BERTScores, if there are any."""


@dataclass(frozen=True, slots=True)
class CellLayout:
    """What must be known of a whole cell to sum up a part of it."""

    facts: CellFacts
    standing: StandingNames
    edges: Edges = (0.0, 0.0)
    clusters: int = 0


def write_results(
    executor: Executor,
    run: RunDirectory,
    cells: Sequence[SettingProgress],
    retrievers: Sequence[str],
    *,
    seed: int,
    resamples: int,
) -> list[SettingProgress]:
    """Write the figures, comparisons and cells of a run as Parquet, and the figures by question type as metrics.json.

    Args:
        executor: sums up the parts.
        run: the run with its scored parts.
        cells: the cells with their status and the questions due.
        retrievers: the retrievers with rankings.
        seed: fixes the intervals.
        resamples: bootstrap resamples.

    Returns:
        The cells with their counts.
    """
    options = {"seed": seed, "resamples": resamples}
    answers = _Cells(
        executor, run, {model: _scored_parts(run, model) for model in dict.fromkeys(one.model for one in cells)}
    )
    filled = answers.count(cells)
    by_key = {CellKey(one.model, one.setting, one.retriever): one for one in filled}
    made: list[Figure] = []
    for key, found in answers.figures(**options):
        made += with_provenance(found, by_key[key])
    names = [name for name, _ in COMPARED]
    pairs = comparison_pairs(
        alike_pairs(list(answers.layouts)), COMPARED, lambda a, b: excluded_metrics(by_key[a], by_key[b], names)
    )
    compared = answers.differences(pairs, **options)
    ranked = _Cells(executor, run, {name: _ranked_parts(run, name) for name in retrievers}, retrieval=True)
    ranked.count()
    made += [figure for _, found in ranked.figures(**options) for figure in found]
    compared += ranked.differences(dict.fromkeys(alike_pairs(list(ranked.layouts)), COMPARED_RETRIEVERS), **options)
    write_records(run.file("metrics.parquet"), made, Figure)
    write_records(run.file("comparisons.parquet"), compared, Difference)
    write_records(run.file("cells.parquet"), filled, SettingProgress)
    run.file("metrics.json").write_bytes(orjson.dumps(figures_by_cell(made), option=orjson.OPT_INDENT_2))
    return filled


class _Cells:
    """The cells in the parts of some models or retrievers; call `count` first. `layouts` are those with rows."""

    def __init__(
        self,
        executor: Executor,
        run: RunDirectory,
        parts: Mapping[str, Mapping[str, ScoredPart]],
        *,
        retrieval: bool = False,
    ) -> None:
        self.layouts: dict[CellKey, CellLayout] = {}
        self._executor, self._run, self._parts, self._retrieval = executor, run, parts, retrieval

    def count(self, cells: Sequence[SettingProgress] = ()) -> list[SettingProgress]:
        """Count the rows of all cells. Return the given cells with their counts, in their order."""
        filled = {CellKey(one.model, one.setting, one.retriever): one for one in cells}
        lengths: dict[str, dict[str, int]] = {}
        for name in self._parts:
            found: dict[CellKey, list[CellCounts]] = {}
            for counted in self._executor.map_ordered(partial(_count, self._retrieval), self._items([name])):
                for key, one in counted.items():
                    found.setdefault(key, []).append(one)
            for key in [key for key in (filled or found) if key in found]:
                total = CellCounts.total(found[key])
                self.layouts[key] = CellLayout(total.facts, standing_names(total.names), clusters=len(total.clusters))
                lengths.setdefault(key.retriever if self._retrieval else "", {}).update(total.lengths)
                if key in filled:
                    filled[key] = total.fill(filled[key])
        edges = {name: tertiles(known.values()) for name, known in lengths.items()}
        for key, layout in self.layouts.items():
            self.layouts[key] = replace(layout, edges=edges[key.retriever if self._retrieval else ""])
        return list(filled.values())

    def figures(self, *, seed: int, resamples: int) -> Iterator[tuple[CellKey, list[Figure]]]:
        """Yield the figures of each cell."""
        for name in self._parts:
            mine = {key: one for key, one in self.layouts.items() if name == _owner(key)}
            sums: dict[CellKey, ClusterSums] = {key: ClusterSums() for key in mine}
            named: dict[CellKey, list[tuple[str, str, str, int]]] = {}
            for found in self._executor.map_ordered(partial(_sum_up, self._retrieval, mine), self._items([name])):
                for key, (names, clusters, matrix) in found.items():
                    named[key] = names
                    sums[key].add(clusters, matrix)
            for key in named:
                metrics = [_metrics(self._retrieval)[metric] for _, _, metric, _ in named[key]]
                slices = unpack_slices(sums.pop(key).ordered(), metrics, [width for *_, width in named[key]])
                groups = [(by, group) for by, group, *_ in named[key]]
                yield key, figures_of_sums(key, groups, slices, seed=seed, resamples=resamples)

    def differences(self, pairs: Mapping[Pair, Wanted], *, seed: int, resamples: int) -> list[Difference]:
        """Return the differences of pairs of cells, corrected by Holm's method over all of them."""
        found = list[Difference]()
        some = [pair for pair, wanted in pairs.items() if wanted]
        most = max((len(pairs[pair]) for pair in some), default=1)
        clusters = max((one.clusters for one in self.layouts.values()), default=1)
        groups = list(batches(some, max(1, _PAIRS_BYTES // (8 * _PAIR_COLUMNS * most * clusters))))
        # by map, which does not hold the sums of a group while those of the next are added up
        for made in map(partial(_differences, seed=seed, resamples=resamples), self._paired(groups, pairs)):
            for pair, differences in made.items():
                found += named_differences(pair, pairs[pair], differences)
        return with_holm(found, ["group"])

    def _paired(self, groups: Sequence[Sequence[Pair]], wanted: Mapping[Pair, Wanted]) -> Iterator[PairedByPair]:
        """Yield for each group of pairs the sums of those that have questions in common, one for each metric."""
        metrics = _metrics(self._retrieval)
        kept = _KeptSums(self._run, groups)
        facts = {key: layout.facts for key, layout in self.layouts.items()}
        task = partial(_sum_up_pairs, self._retrieval, wanted, facts, kept)
        names = dict.fromkeys(_owner(key) for group in groups for pair in group for key in pair)
        items = list(enumerate(self._items(names)))
        for number, group in enumerate(groups):
            found = self._executor.map_ordered(task, items) if number == 0 else kept.read(number, len(items))
            sums: dict[Pair, ClusterSums] = {}
            widths: dict[Pair, list[int]] = {}
            for pair, (widths[pair], clusters, matrix) in (one for part in found for one in part.items()):
                sums.setdefault(pair, ClusterSums()).add(clusters, matrix)
            yield {
                pair: unpack_pairs(sums.pop(pair).ordered(), [metrics[name] for name, _ in wanted[pair]], widths[pair])
                for pair in group
                if pair in widths
            }
        kept.delete()

    def _items(self, names: Iterable[str]) -> Iterator[list[list[ScoredPart]]]:
        """Yield, for some part numbers at a time, the parts of each of the models or retrievers."""
        chosen = [self._parts[name] for name in names]
        at_once = max(1, _FILES_AT_ONCE // max(1, len(chosen)))
        for numbers in batches(sorted({number for one in chosen for number in one}), at_once):
            yield [[one[number] for number in numbers if number in one] for one in chosen]


def _owner(key: CellKey) -> str:
    """Return the model, or the retriever, in whose parts a cell is."""
    return key.model or key.retriever


def _metrics(retrieval: bool) -> Mapping[str, Metric]:
    return RETRIEVAL_METRICS if retrieval else score_metrics()


def _scored_parts(run: RunDirectory, model: str) -> dict[str, ScoredPart]:
    semantic = {place.name: place for place in run.parts(f"bert_scores/{model}")}
    return {place.name: (place, semantic.get(place.name)) for place in run.parts(f"scores/{model}")}


def _ranked_parts(run: RunDirectory, retriever: str) -> dict[str, ScoredPart]:
    return {place.name: (place, None) for place in run.parts(f"retrieval_scores/{retriever}")}


def _count(retrieval: bool, parts: Sequence[Sequence[ScoredPart]]) -> dict[CellKey, CellCounts]:
    return {key: CellCounts.of(table) for key, table in _read_cells(retrieval, parts).items()}


Summed: TypeAlias = tuple[list[tuple[str, str, str, int]], list[str], Numbers]
"""The group_by, group, metric and number of components of each slice; the clusters; their sums."""


def _sum_up(
    retrieval: bool, layouts: Mapping[CellKey, CellLayout], parts: Sequence[Sequence[ScoredPart]]
) -> dict[CellKey, Summed]:
    summed: dict[CellKey, Summed] = {}
    by_subgroup = RETRIEVAL_SUBGROUP_METRICS if retrieval else SUBGROUP_METRICS
    for key, table in _read_cells(retrieval, parts).items():
        if key in layouts:
            layout = layouts[key]
            columns = ScoreColumns(table, layout.facts)
            named = figure_slices(columns, _metrics(retrieval), by_subgroup, layout.edges, layout.standing)
            sums = slice_sums(columns, [one for _, _, one in named])
            names = [
                (by, group, one.metric.name, one.sums.shape[1]) for (by, group, _), one in zip(named, sums, strict=True)
            ]
            summed[key] = names, columns.clusters, pack_slices(sums)
    return summed


PairedByPair: TypeAlias = dict[Pair, list[PairedSums]]

SummedPairs: TypeAlias = dict[Pair, tuple[list[int], list[str], Numbers]]
"""By pair: the number of components of each metric, the clusters, and their sums as `pack_pairs` returns them."""


@dataclass(frozen=True, slots=True)
class _KeptSums:
    """The sums of all groups of pairs but the first, in a file for each group and task."""

    run: RunDirectory
    groups: Sequence[Sequence[Pair]]

    def keep(self, task: int, summed: SummedPairs) -> SummedPairs:
        """Write the sums of a task for all groups but the first, and return those for the first."""
        first, *others = ({pair: summed[pair] for pair in group if pair in summed} for group in self.groups)
        for number, some in enumerate(others, 1):
            columns = {
                "pair": pa.array([self.groups[number].index(pair) for pair in some], pa.int64()),
                "widths": pa.array([widths for widths, *_ in some.values()], pa.list_(pa.int64())),
                "clusters": pa.array([clusters for _, clusters, _ in some.values()], pa.list_(pa.string())),
                "sums": pa.array([matrix.ravel() for *_, matrix in some.values()], pa.list_(pa.float64())),
            }
            write_table(self._file(number, task), pa.table(columns))
        return first

    def read(self, group: int, tasks: int) -> Iterator[SummedPairs]:
        """Yield the sums of each task for a group."""
        for some in batches(range(tasks), _KEPT_AT_ONCE):
            for table in read_tables([self._file(group, task) for task in some]):
                found: SummedPairs = {}
                for row, own in zip(table.drop_columns(["sums"]).to_pylist(), table["sums"], strict=True):
                    matrix = own.values.to_numpy().reshape(len(row["clusters"]), -1)
                    found[self.groups[group][row["pair"]]] = row["widths"], row["clusters"], matrix
                yield found

    def delete(self) -> None:
        """Delete all files."""
        for group in range(1, len(self.groups)):
            for file in self.run.parts(f"pair_sums/{group}"):
                file.delete()  # of these, each checks that no other job has taken the run
        if len(self.groups) > 1:
            self.run.file("pair_sums").delete_tree()

    def _file(self, group: int, task: int) -> Location:
        return self.run.part(f"pair_sums/{group}", task)


def _sum_up_pairs(
    retrieval: bool,
    wanted: Mapping[Pair, Wanted],
    facts: Mapping[CellKey, CellFacts],
    kept: _KeptSums,
    item: tuple[int, Sequence[Sequence[ScoredPart]]],
) -> SummedPairs:
    """Sum up the pairs in the parts of a task; return the sums for the first group of pairs, and keep the others."""
    number, parts = item
    pairs = [pair for group in kept.groups for pair in group]
    chosen = {key for pair in pairs for key in pair}
    tables = _read_cells(retrieval, parts)
    rows = {key: PairedRows(table, facts[key]) for key, table in tables.items() if key in chosen}
    summed: SummedPairs = {}
    for a, b in pairs:
        if a in rows and b in rows:
            clusters, sums = paired_sums(rows[a], rows[b], pair_slices(rows[a], _metrics(retrieval), wanted[a, b]))
            summed[a, b] = [one.first.shape[1] for one in sums], clusters, pack_pairs(sums)
    return kept.keep(number, summed)


def _differences(
    sums: Mapping[Pair, Sequence[PairedSums]], seed: int, resamples: int
) -> dict[Pair, list[Difference | None]]:
    """Return the differences of each pair. Pairs with the same number of clusters share their samples."""
    found: dict[Pair, list[Difference | None]] = {}
    by_size = groupby(sorted(sums, key=lambda pair: len(sums[pair][0].rows)), lambda pair: len(sums[pair][0].rows))
    for some in (some for _, pairs in by_size for some in batches(pairs, _PAIRS_AT_ONCE)):
        together = [one for pair in some for one in sums[pair]]
        made = iter(differences_of_sums(together, seed=seed, resamples=resamples))
        found |= {pair: list(islice(made, len(sums[pair]))) for pair in some}
    return found


def _read_cells(retrieval: bool, parts: Sequence[Sequence[ScoredPart]]) -> dict[CellKey, pa.Table]:
    """Return the rows of each cell in some parts; a column that an earlier version did not write is null."""
    schema = arrow_schema(RetrievalScore if retrieval else Score)
    found = [part for listed in parts for part in listed]
    tables = [schema.empty_table(), *read_tables([scores for scores, _ in found])]
    table = pa.concat_tables(tables, promote_options="default").select(schema.names).combine_chunks()
    if semantic := [place for _, place in found if place]:
        table = with_bert_scores(semantic, table)
    fields = ["retriever"] if retrieval else list(CellKey._fields)
    cells: dict[CellKey, pa.Table] = {}
    for one in table.group_by(fields).aggregate([]).to_pylist():
        matching = reduce(pc.and_, (pc.equal(table[name], one[name]) for name in fields))
        cells[CellKey(**{"model": "", "setting": "", **one})] = table.filter(matching)
    return cells


def figures_by_cell(rows: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return an entry for each cell: what its figures rest on, and value, low, high and counts of each metric by
    question type (`metrics`) and by topic (`topics`)."""
    cells: dict[CellKey, dict[str, Any]] = {}
    for row in rows:
        if (name := _GROUPINGS.get(row.keys["group_by"])) is None:
            continue
        key = CellKey(*(row.keys[field] for field in CellKey._fields))
        if key not in cells:
            made_by = {field: getattr(row, field) for field in _PROVENANCE} if row.due else {}
            cells[key] = {**key._asdict(), **made_by, **{one: {} for one in _GROUPINGS.values()}}
        figure = {field: getattr(row, field) for field in ("value", "low", "high", "rows", "unscored")}
        cells[key][name].setdefault(row.metric, {})[row.keys["group"]] = figure
    return list(cells.values())


_GROUPINGS = {"type": "metrics", "category": "topics"}
"""The names in metrics.json of the figures by question type and by topic."""


_PROVENANCE = ("judge", "prompts", "engine", "answered", "due")
"""The fields of a figure that say what it rests on."""
