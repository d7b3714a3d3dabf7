"""The run directory of a job. Readers follow its run.json, which is written last."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from heapq import merge
from importlib import metadata
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from fdarx_core.records import Label, Passage, QuestionAnswer
from fdarx_core.storage.errors import RunConflict, StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.run_lock import RunLock, acquire_run_lock
from fdarx_core.storage.tables import read_records, read_table, read_tables

if TYPE_CHECKING:
    from pandas import DataFrame

R = TypeVar("R")

FORMAT = 1
"""The version of the layout. It increases when an older reader would misread a newer layout."""


def version_of(package: str) -> str:
    """Return the version of an installed package, else "not installed": under `ray job submit` FDARx itself is not."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The folder of a job's outputs, on a disk or on S3. It can be pickled; its root is absolute.

    `resumed` says that the run was started before, `complete` that it had finished. `claim` is the lock of the process
    that writes `run.json`; pickled copies, with which workers write parts, do not have it. The locations of a run that
    a job began have its epoch, here and in pickled copies: they cannot be written any more once another job has taken
    over the run, or this one has released it.
    """

    root: Location
    resumed: bool = False
    complete: bool = False
    claim: RunLock | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return RunDirectory, (self.root, self.resumed, self.complete)

    @classmethod
    def begin(
        cls, out: str, *, job: str, config: dict[str, Any], versions: dict[str, str], by_content: Collection[str] = ()
    ) -> RunDirectory:
        """Start a run in a new or empty folder, or resume the run of the same job and config in this folder.

        No other job can write the run until this one finishes it, releases it, or its process ends.

        Args:
            out: the folder.
            job: the name of the job.
            config: all options that can change results, as JSON values.
            versions: the versions of the program and its libraries.
            by_content: the options that may differ from those of an earlier start, because the job compares the content
                of the paths that they name.

        Raises:
            RunConflict: the folder holds another run or other files, or another job writes it. Nothing is changed.
            StorageError: the folder cannot be written. Nothing is changed.
        """
        root = _absolute(out)
        config = json.loads(json.dumps(config))
        existing_run(root, job, config, by_content)
        root.check_writable()
        claim = acquire_run_lock(root, job)
        root = Location(root.address, claim.epoch)
        earlier = existing_run(root, job, config, by_content)  # again, as another job may have written it meanwhile
        if earlier is None:
            run = cls(root, claim=claim)
            about = {"format": FORMAT, "job": job, "status": "running", "config": config}
            run._write({**about, "versions": versions, "started": utc_now()})
            return run
        run = cls(root, resumed=True, complete=earlier["status"] == "complete", claim=claim)
        if not run.complete:
            run._write({**earlier, "versions": versions, "status": "running", "resumed": utc_now()})
        return run

    @classmethod
    def open(cls, out: str) -> RunDirectory:
        """Open a run for reading, complete or not. Raises StorageError where there is none or `run.json` is damaged."""
        root = _absolute(out)
        if not (root / "run.json").exists():
            raise StorageError(f"{out} is not a run: it has no run.json; give the folder that a job wrote with --out")
        return cls(root, resumed=True, complete=_read_info(root)["status"] == "complete")

    def info(self) -> dict[str, Any]:
        """Return the content of `run.json`."""
        return _read_info(self.root)

    def part(self, kind: str, number: int) -> Location:
        """Return `RUN/kind/part-000012.parquet`. `kind` may be a path, such as "responses/highlights"."""
        return self.root / f"{kind}/part-{number:06d}.parquet"

    def parts(self, kind: str) -> list[Location]:
        """Return the parts that exist, sorted by number."""
        return _parts_in(self.root / kind)

    def records(self, kind: str, record: type[R]) -> Iterator[R]:
        """Yield the rows of all parts of a kind, one part in memory at a time."""
        return (row for location in self.parts(kind) for row in read_records(location, record))

    def file(self, name: str) -> Location:
        return self.root / name

    def table(self, kind: str) -> pa.Table:
        """Return all rows of one kind, such as "passages" or "grades", as an Arrow table, part by part.

        A file of that name, such as "metrics", is read where the kind has no parts. Raises StorageError if there is
        neither.
        """
        places = _parts_in(self.root / kind, recursive=True)
        if not places and self.file(f"{kind}.parquet").exists():
            places = [self.file(f"{kind}.parquet")]
        if not places:
            raise StorageError(f"{self.root} has no {kind}; it is a run of {self.info()['job']}")
        return pa.concat_tables(read_tables(places), promote_options="default")

    def rows(self, kind: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield the values of some columns of all rows of a kind, part by part. Raises StorageError."""
        for part in self.parts(kind):
            table = read_table(part, list(columns))
            yield from zip(*(table[name].to_pylist() for name in columns), strict=True)

    def questions(self) -> DataFrame:
        """Return the questions of a build as a pandas data frame. Raises StorageError for other runs."""
        return _frame(self.table("questions"))

    def answers(self) -> DataFrame:
        """Return the answers of an evaluation or a RAG evaluation, or those that a factuality run checked."""
        return _frame(self.table("answers" if self.info()["job"] != "evaluate" else "predictions"))

    def claims(self) -> DataFrame:
        """Return the claims of a factuality run with their verdicts and the passage that decided, and its source."""
        verdicts, claims, evidence = (_frame(self.table(kind)) for kind in ("verdicts", "claims", "evidence"))
        passages = evidence.drop_duplicates("id").rename(columns={"id": "evidence_id", "text": "passage"})
        claims = claims.drop(columns="answer_id").rename(columns={"id": "claim_id", "text": "claim"})
        columns = ["evidence_id", "source", "title", "place", "passage"]
        found = verdicts.merge(claims, on="claim_id").merge(passages[columns], on="evidence_id", how="left")
        return found.fillna(dict.fromkeys(columns, ""))

    def metrics(self) -> DataFrame:
        """Return the figures of an evaluation, a RAG evaluation or a factuality run, with their intervals."""
        return _frame(self.table("figures" if self.file("figures.parquet").exists() else "metrics"))

    def rejects(self) -> DataFrame:
        """Return the rows that were left out, with the stage and the reason. The frame is empty if there are none."""
        return _frame(self.table("rejects"))

    def labels(self) -> DataFrame:
        """Return the labels of a build as a pandas data frame. Raises StorageError for other runs."""
        return _frame(self.table("labels"))

    def open_report(self) -> str:
        """Open the report in the web browser; return its address. On S3 there is only the address."""
        report = self.file("report.html")
        if report.is_remote:
            return report.address
        address = Path(report.address).as_uri()
        webbrowser.open(address)
        return address

    def finish(self, summary: dict[str, Any]) -> None:
        """Write to `run.json` that the run is complete, with the summary. This is always the last write of a run.

        Raises RunConflict, as `stop` does, where another job has taken over the run.
        """
        self._write({**self.info(), **summary, "status": "complete", "finished": utc_now()})
        self.release()

    def stop(self, status: str, summary: Mapping[str, Any] | None = None) -> None:
        """Write to `run.json` how the run ended early ("interrupted", "failed", "incomplete"), and a summary."""
        self._write({**self.info(), **(summary or {}), "status": status, "stopped": utc_now()})

    def remove_if_empty(self) -> None:
        """Remove the folder of a new run whose job ended before it wrote anything but `run.json`."""
        with suppress(StorageError):  # a run needs no permission to delete
            if not self.resumed and [file.name for file in self.root.list(recursive=True)] == ["run.json"]:
                self.root.delete_tree()

    def release(self) -> None:
        """Let other jobs write the run. Call it after the last write: on S3, this one cannot write any more."""
        if self.claim is not None:
            self.claim.release()

    def _write(self, info: dict[str, Any]) -> None:
        self.file("run.json").write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n")


def _parts_in(folder: Location, *, recursive: bool = False) -> list[Location]:
    found = [file for file in folder.list(recursive=recursive) if file.name.startswith("part-")]
    parts = (file for file in found if file.suffix == ".parquet")
    return sorted(parts, key=lambda file: (file.parent, len(file.name), file))


def _frame(table: pa.Table) -> DataFrame:
    try:
        return table.to_pandas()
    except ImportError as error:
        raise ImportError("data frames need pandas: pip install pandas; table() returns Arrow tables") from error


def _absolute(out: str) -> Location:
    """Return the absolute address: workers may have another working directory than the user."""
    location = Location(out)
    return location if location.is_remote else Location(Path(location.address).absolute())


def utc_now() -> str:
    """Return the time in UTC, ISO 8601 to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _read_info(root: Location) -> dict[str, Any]:
    try:
        info = json.loads((root / "run.json").read_bytes())
    except ValueError as error:
        raise StorageError(f"{root}/run.json is damaged ({error}); choose another --out, or delete the run") from error
    if not isinstance(info, dict) or not {"format", "job", "status", "config"} <= info.keys():
        raise StorageError(f"{root}/run.json is not one that this program wrote; choose another --out")
    if info["format"] != FORMAT:
        raise StorageError(f"{root}/run.json has format {info['format']}, this version reads {FORMAT}; update fdarx")
    return info


def existing_run(
    root: Location, job: str, config: Mapping[str, Any], by_content: Collection[str] = ()
) -> dict[str, Any] | None:
    """Return `run.json` of the same run, None for an empty folder. Raises RunConflict for anything else."""
    if not (root / "run.json").exists():
        if not root.is_empty():
            raise RunConflict(f"{root} holds files that the job {job} did not write; choose another --out or empty it")
        return None
    earlier = _read_info(root)
    if earlier["job"] != job:
        raise RunConflict(f"{root} holds a run of the job {earlier['job']}, not {job}; choose another --out")
    before, now = (
        flat_options({name: value for name, value in options.items() if name not in by_content})
        for options in (earlier["config"], config)
    )
    names = (name for name in sorted(before.keys() | now.keys()) if before.get(name, _UNSET) != now.get(name, _UNSET))
    if changed := "; ".join(
        f"{name}: was {_option_text(before, name)}, now {_option_text(now, name)}" for name in names
    ):
        raise RunConflict(f"{root} holds a run with other options ({changed}); choose another --out or the old options")
    return earlier


_UNSET = object()


def _option_text(config: dict[str, Any], name: str) -> str:
    return json.dumps(config[name], ensure_ascii=False) if name in config else "not set"


def flat_options(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested options under dotted names."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        nested = isinstance(value, dict) and value
        flat |= flat_options(value, f"{above}{name}.") if nested else {f"{above}{name}": value}
    return flat


@dataclass(frozen=True, slots=True)
class LabelRows:
    """A label, its passages by doc_chunk_index, and its questions sorted by type and id."""

    label: Label
    passages: dict[int, Passage]
    questions: list[QuestionAnswer]

    def gold(self, question: QuestionAnswer) -> list[Passage]:
        """Return the gold passages of a question. Raises StorageError where the label lacks one."""
        try:
            return [self.passages[index] for index in question.gold_passages]
        except KeyError as missing:
            raise StorageError(
                f"question {question.id} rests on passage {missing} that label {question.set_id} does not have; "
                "delete the run and build it again"
            ) from missing


def read_labels(run: RunDirectory) -> Iterator[LabelRows]:
    """Yield the labels of a run in order of set id, one in memory at a time.

    Raises StorageError where rows are not in that order, or belong to no label of the run.
    """
    by_set_id = attrgetter("set_id")
    last = ""
    streams = (run.records(kind, record) for kind, record in _KINDS.items())
    for set_id, group in groupby(merge(*streams, key=by_set_id), by_set_id):
        rows: dict[type[Any], list[Any]] = {record: [] for record in _KINDS.values()}
        for row in group:
            rows[type(row)].append(row)
        labels = rows[Label]
        if labels and (set_id <= last or len(labels) > 1):
            raise StorageError(f"{run.root}/labels: {set_id} stands after {last}, but parts go by set id")
        if not labels:
            kind = next(kind for kind, record in _KINDS.items() if rows[record])
            raise StorageError(
                f"{kind} of {set_id} belong to no label of the run, or stand out of the order of set ids; delete the "
                "run and build it again"
            )
        last = set_id
        passages = {passage.doc_chunk_index: passage for passage in rows[Passage]}
        questions = sorted(rows[QuestionAnswer], key=lambda question: (question.type, question.id))
        yield LabelRows(labels[0], dict(sorted(passages.items())), questions)


_KINDS: dict[str, type[Any]] = {"labels": Label, "passages": Passage, "questions": QuestionAnswer}
