"""The run directory of a job. Readers follow its run.json, which is written last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from fdarx_core.records import Label, Passage, QuestionAnswer
from fdarx_core.storage.errors import RunConflict, StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.run_lock import RunLock, acquire_run_lock
from fdarx_core.storage.tables import read_records

FORMAT = 1
"""Raised when a reader of an older layout would misread a newer one."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Where a job's outputs go, on a disk or on S3; picklable, its root is absolute.

    `resumed` says that an earlier start of the same run stood there, `complete` that it had ended well.
    """

    root: Location
    resumed: bool = False
    complete: bool = False
    claim: RunLock | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers write parts for the one who holds the claim."""
        return RunDirectory, (self.root, self.resumed, self.complete)

    @classmethod
    def begin(cls, out: str, *, job: str, config: dict[str, Any], versions: dict[str, str]) -> RunDirectory:
        """Starts a run in a new or empty folder, or resumes the run of the same job and config that stands there.

        `config` holds what can change results, as JSON values. No other job writes the run from here until this one is
        finished, releases it, or its process ends. Raises `RunConflict` where the folder holds another run or other
        files, or another job writes it, `StorageError` where it can't be written; all before anything is changed.
        """
        root = _absolute(out)
        config = json.loads(json.dumps(config))
        _standing(root, job, config)
        root.check_writable()
        claim = acquire_run_lock(root, job)
        earlier = _standing(root, job, config)  # as whoever held it until now has left it
        if earlier is None:
            run = cls(root, claim=claim)
            about = {"format": FORMAT, "job": job, "status": "running", "config": config}
            run._write({**about, "versions": versions, "started": _now()})
            return run
        run = cls(root, resumed=True, complete=earlier["status"] == "complete", claim=claim)
        if not run.complete:
            run._write({**earlier, "versions": versions, "status": "running", "resumed": _now()})
        return run

    @classmethod
    def open(cls, out: str) -> RunDirectory:
        """For readers, of complete and incomplete runs. `StorageError` where there is none or `run.json` is damaged."""
        root = _absolute(out)
        if not (root / "run.json").exists():
            raise StorageError(f"{out} is no run: it has no run.json; give the folder that a job wrote with --out")
        return cls(root, resumed=True, complete=_read_info(root)["status"] == "complete")

    def info(self) -> dict[str, Any]:
        """`run.json` as it stands now."""
        return _read_info(self.root)

    def part(self, kind: str, number: int) -> Location:
        """`RUN/kind/part-000012.parquet`; `kind` may have folders in it, "responses/highlights"."""
        return self.root / f"{kind}/part-{number:06d}.parquet"

    def parts(self, kind: str) -> list[Location]:
        """Those written so far, sorted by number; none where there is no such folder."""
        found = [file for file in (self.root / kind).list() if file.name.startswith("part-")]
        return sorted((file for file in found if file.suffix == ".parquet"), key=lambda file: (len(file.name), file))

    def file(self, name: str) -> Location:
        return self.root / name

    def finish(self, summary: dict[str, Any]) -> None:
        """Marks the run complete, with the summary's keys in `run.json`. The last write of a run, always.

        Raises RunConflict, as `stop` does, where another job has taken the run over.
        """
        self._write({**self.info(), **summary, "status": "complete", "finished": _now()})
        self.release()

    def stop(self, status: str, summary: Mapping[str, Any] | None = None) -> None:
        """Says in `run.json` how the run ended early, "interrupted", "failed" or "incomplete", with what is known."""
        self._write({**self.info(), **(summary or {}), "status": status, "stopped": _now()})

    def release(self) -> None:
        """Lets another job write the run; call it when nothing of this one does any more."""
        if self.claim is not None:
            self.claim.release()

    def _write(self, info: dict[str, Any]) -> None:
        if self.claim is not None:
            self.claim.check()
        self.file("run.json").write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n")


def _absolute(out: str) -> Location:
    """Workers may stand in another folder than the user."""
    location = Location(out)
    return location if location.is_remote else Location(Path(location.address).absolute())


def _now() -> str:
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


def _standing(root: Location, job: str, config: dict[str, Any]) -> dict[str, Any] | None:
    """`run.json` of an earlier start of this run; None in an empty folder. Raises `RunConflict` for anything else."""
    if (root / "run.json").exists():
        earlier = _read_info(root)
        _refuse_other_run(root, earlier, job, config)
        return earlier
    if not root.is_empty():
        raise RunConflict(f"{root} holds files but no run.json, so it is no run; choose another --out or empty it")
    return None


def _refuse_other_run(root: Location, earlier: dict[str, Any], job: str, config: dict[str, Any]) -> None:
    if earlier["job"] != job:
        raise RunConflict(f"{root} holds a run of the job {earlier['job']}, not {job}; choose another --out")
    was, now = _flat(earlier["config"]), _flat(config)
    changed = [name for name in sorted(was.keys() | now.keys()) if was.get(name, _UNSET) != now.get(name, _UNSET)]
    if changed:
        listed = "; ".join(f"{name}: was {_shown(was, name)}, now {_shown(now, name)}" for name in changed)
        raise RunConflict(f"{root} holds a run with other options ({listed}); choose another --out or the old options")


_UNSET = object()


def _shown(config: dict[str, Any], name: str) -> str:
    return json.dumps(config[name], ensure_ascii=False) if name in config else "not set"


def _flat(config: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Nested options under dotted names, so that only those that differ are listed."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        flat |= _flat(value, f"{above}{name}.") if isinstance(value, dict) and value else {f"{above}{name}": value}
    return flat


class _OfLabel(Protocol):
    set_id: str


R = TypeVar("R", bound=_OfLabel)


@dataclass(frozen=True, slots=True)
class LabelRows:
    """A label, its passages by doc_chunk_index, and its questions by type and id."""

    label: Label
    passages: dict[int, Passage]
    questions: list[QuestionAnswer]

    def gold(self, question: QuestionAnswer) -> list[Passage]:
        """The question's gold passages. `StorageError` where the label has no such passage."""
        try:
            return [self.passages[index] for index in question.gold_passages]
        except KeyError as missing:
            raise StorageError(
                f"question {question.id} rests on passage {missing} that label {question.set_id} does not have; "
                "delete the run and build it again"
            ) from missing


def read_labels(run: RunDirectory) -> Iterator[LabelRows]:
    """The run's labels in order of set id. What is in memory at a time does not grow with their number.

    Raises `StorageError` where rows stand out of that order, or belong to no label of the run.
    """
    passages = _ByLabel("passages", _rows(run, "passages", Passage))
    questions = _ByLabel("questions", _rows(run, "questions", QuestionAnswer))
    last = ""
    for label in _rows(run, "labels", Label):
        if label.set_id <= last:
            raise StorageError(f"{run.root}/labels: {label.set_id} stands after {last}, but parts go by set id")
        last = label.set_id
        by_index = {passage.doc_chunk_index: passage for passage in passages.take(last)}
        asked = sorted(questions.take(last), key=lambda question: (question.type, question.id))
        yield LabelRows(label, dict(sorted(by_index.items())), asked)
    passages.check_empty()
    questions.check_empty()


def _rows(run: RunDirectory, kind: str, record: type[R]) -> Iterator[R]:
    return (row for location in run.parts(kind) for row in read_records(location, record))


class _ByLabel(Generic[R]):
    """Rows in order of set id, taken label by label."""

    def __init__(self, kind: str, rows: Iterator[R]) -> None:
        self._kind = kind
        self._groups = groupby(rows, key=lambda row: row.set_id)
        self._next = next(self._groups, None)

    def take(self, set_id: str) -> list[R]:
        """The rows of this label; those of labels before it must have been taken."""
        if self._next is None or self._next[0] > set_id:
            return []
        if self._next[0] < set_id:
            self.check_empty()
        found = list(self._next[1])
        self._next = next(self._groups, None)
        return found

    def check_empty(self) -> None:
        if self._next is not None:
            raise StorageError(
                f"{self._kind} of {self._next[0]} belong to no label of the run, or stand out of the order of set ids; "
                "delete the run and build it again"
            )
