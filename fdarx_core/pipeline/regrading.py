"""The answers of a finished evaluation, taken over into another run in which a judge grades them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.scoring import MARKED
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.pipeline.evaluation_steps import read_items
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.records import Passage, Ranking, RetrievalScore, SettingProgress
from fdarx_core.storage import RunDirectory, StorageError, read_records, read_table
from fdarx_core.storage.benchmark_reader import Benchmark, BenchmarkItem

_RETRIEVAL = {"rankings": Ranking, "elsewhere": Passage, "retrieval_scores": RetrievalScore}
"""The rows of each retriever that are taken over."""
ADOPTED = ("benchmark", "split", "settings", "retrievers", "retrieval_scope", "top_k", "label_chars", "sample")
"""The options of the earlier evaluation that also describe the new run."""


@dataclass(slots=True)
class EarlierEvaluation:
    """A finished evaluation whose answers are graded again; `cells` are those with answers."""

    run: RunDirectory
    cells: Mapping[CellKey, SettingProgress] = field(init=False)

    def __post_init__(self) -> None:
        rows = read_records(self.run.file("cells.parquet"), SettingProgress)
        cells = {CellKey(one.model, one.setting, one.retriever): one for one in rows if one.status != "skipped"}
        self.cells = {key: one for key, one in cells.items() if self.run.parts(f"predictions/{key.model}")}

    @classmethod
    def open(cls, address: str) -> EarlierEvaluation:
        """Open an evaluation. Raises StorageError for any other run, and for one without metrics."""
        run = RunDirectory.open(address)
        job = run.info()["job"]
        if job != "evaluate":
            raise StorageError(f"--predictions: {address} is a run of {job}, not of evaluate; --regrade needs one")
        if not run.file("cells.parquet").exists():
            raise StorageError(f"--predictions: {address} is not finished; finish it with the command that began it")
        return cls(run)

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the evaluation, as it was copied into the run."""
        return Benchmark(self.run.info()["benchmark"], self._items)

    @property
    def parts(self) -> list[int]:
        """The numbers of the parts."""
        return list(range(len(self.run.parts("subjects"))))

    def groups(self) -> Iterator[list[BenchmarkItem]]:
        """Yield the labels of each part; the new run has the same parts."""
        files = PartFiles(self.run, "")
        return (read_items(files, number) for number in self.parts)

    def _items(self) -> Iterator[BenchmarkItem]:
        return (item for group in self.groups() for item in group)

    @property
    def citing(self) -> frozenset[str]:
        """The settings in which answers were expected to cite, beside those of FDARxBench."""
        return frozenset(key.setting for key in self.cells if key.setting not in SETTINGS and self._cites(key)) - MARKED

    def _cites(self, key: CellKey) -> bool:
        tables = [read_table(part, ["setting", "cited"]) for part in self.run.parts(f"scores/{key.model}")]
        rows = [row for table in tables for row in table.to_pylist() if row["setting"] == key.setting]
        return any(row["cited"] is not None for row in rows)

    def copy_retrieval(self, into: PartFiles, retrievers: Sequence[str]) -> None:
        """Copy rankings and their scores into a run, so that nothing is searched again."""
        files = PartFiles(self.run, "")
        for name in retrievers:
            ranked = files.there(f"rankings/{name}", self.parts) - into.marked(f"ranked/{name}", self.parts)
            for number in sorted(ranked):
                for kind, record in _RETRIEVAL.items():
                    if files.there(f"{kind}/{name}", [number]):
                        into.write(f"{kind}/{name}", number, files.read(f"{kind}/{name}", number, record), record)
                into.mark(f"ranked/{name}", number)
