"""Read a benchmark, from the run of a build or from files in FDARxBench's published format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, BinaryIO

from fdarx_core.records import LabelSummary, Passage, QuestionAnswer, Reject
from fdarx_core.storage.benchmark_writer import write_benchmark
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.published import (
    QUESTION_TYPES,
    PassageLookup,
    PublishedLabel,
    PublishedQuestion,
    RowError,
    passages_of,
    read_label,
    read_question,
    with_sections,
)
from fdarx_core.storage.run_directory import RunDirectory, read_labels
from fdarx_core.storage.tables import JsonLine, parse_json_line, read_json_lines, read_table


@dataclass(frozen=True, slots=True)
class BenchmarkItem:
    """One label: its passages in order of doc_chunk_index, its questions by type and id. Either may be empty."""

    subject: LabelSummary
    passages: list[Passage]
    questions: list[QuestionAnswer]

    @classmethod
    def of(
        cls, set_id: str, drug_name: str, whole: bool, passages: Sequence[Passage], questions: Sequence[QuestionAnswer]
    ) -> BenchmarkItem:
        """Puts both in order and counts what is at hand."""
        held = sorted(passages, key=lambda passage: passage.doc_chunk_index)
        asked = sorted(questions, key=lambda question: (question.type, question.id))
        characters = sum(len(passage.text) for passage in held)
        return cls(LabelSummary(set_id, drug_name, whole, len(held), characters), held, asked)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is evaluated. `rejects` are the rows that could not be read, and why; they are in none of the labels.

    `about` is what `run.json` keeps of it: name, kind (build_run or published), address, a digest of the content,
    and the numbers of labels, whole labels, passages, questions by type, and rejected rows.
    """

    about: dict[str, Any]
    labels: Callable[[], Iterator[BenchmarkItem]]
    rejects: list[Reject] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.about["name"])

    def examined(self) -> Iterator[BenchmarkItem]:
        """The labels in order of set id, read anew at each call; one of them is held at a time."""
        return self.labels()


STAGE = "intake"


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Where the rows stand. Without `labels`, nothing but the passages that questions rest on is known."""

    questions: list[Location]
    labels: Location | None


def import_benchmark(files: PublishedFiles, *, name: str, address: str) -> Benchmark:
    """Reads and checks every row. `StorageError` where no question is left, or a file can't be read."""
    intake = _Intake(files)
    intake.take_questions()
    intake.take_labels()
    intake.check_any()
    about = {"name": name, "kind": "published", "address": address, **intake.counts()}
    return Benchmark(about, intake.examined, intake.rejects)


@dataclass(slots=True)
class _Intake:
    """What is held: every question by label, and the place (offset and size in bytes) of each label's line."""

    files: PublishedFiles
    asked: dict[str, list[PublishedQuestion]] = field(default_factory=dict)
    lines: dict[str, tuple[int, int]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    digest: blake2b = field(default_factory=lambda: blake2b(digest_size=16))

    def take_questions(self) -> None:
        seen: set[str] = set()
        for location in self.files.questions:
            for line in read_json_lines(location, self.digest):
                self.tally["rows"] += 1
                try:
                    one = read_question(_row(line), line.place)
                    if one.question.id in seen:
                        raise RowError("duplicate_id", "an earlier row has the same qid")
                except RowError as fault:
                    self._reject(line, "qid", fault)
                    continue
                seen.add(one.question.id)
                self.asked.setdefault(one.question.set_id, []).append(one)

    def take_labels(self) -> None:
        """Each label is settled with its questions while its row is at hand; then those labels that have no row."""
        lines = read_json_lines(self.files.labels, self.digest) if self.files.labels else ()
        for line in lines:
            try:
                label = read_label(_row(line))
                if label.set_id in self.lines:
                    raise RowError("duplicate_label", "an earlier row has the same set_id")
            except RowError as fault:
                self._reject(line, "set_id", fault)
                continue
            self.lines[label.set_id] = line.offset, line.size
            self.tally["whole_labels"] += 1
            self._settle(label.set_id, label)
        for set_id in sorted(self.asked.keys() - self.lines.keys()):
            self._settle(set_id, None)

    def _settle(self, set_id: str, label: PublishedLabel | None) -> None:
        one, rejects = resolve_item(set_id, label, self.asked.get(set_id, ()))
        self.rejects += rejects
        self.tally.update(labels=1, passages=one.subject.passages)
        self.tally.update(question.type for question in one.questions)

    def _reject(self, line: JsonLine, key: str, fault: RowError) -> None:
        named, set_id = line.row.get(key), line.row.get("set_id")
        self.rejects.append(
            Reject(
                id=named if isinstance(named, str) and named else line.place,
                stage=STAGE,
                reason=fault.reason,
                detail=fault.detail,
                set_id=set_id if isinstance(set_id, str) else "",
                source=line.place,
            )
        )

    def check_any(self) -> None:
        if any(self.tally[name] for name in QUESTION_TYPES):
            return
        names = ", ".join(str(location) for location in self.files.questions)
        if not self.tally["rows"]:
            raise StorageError(f"{names} is empty; give a file with a question a line (task, set_id, question, answer)")
        first = self.rejects[0]
        raise StorageError(
            f"{names}: none of {self.tally['rows']} rows can be read as a question; the first: {first.source}: "
            f"{first.reason}, {first.detail}; rows must be as in FDARxBench's qa.jsonl"
        )

    def counts(self) -> dict[str, Any]:
        return {
            "digest": self.digest.hexdigest(),
            "labels": self.tally["labels"],
            "whole_labels": self.tally["whole_labels"],
            "passages": self.tally["passages"],
            "questions": {name: self.tally[name] for name in QUESTION_TYPES},
            "rejected": len(self.rejects),
        }

    def examined(self) -> Iterator[BenchmarkItem]:
        if self.files.labels is None:
            yield from (resolve_item(set_id, None, self.asked[set_id])[0] for set_id in sorted(self.asked))
            return
        with self.files.labels.open_input() as stream:
            for set_id in sorted(self.asked.keys() | self.lines.keys()):
                yield resolve_item(set_id, self._label(set_id, stream), self.asked.get(set_id, ()))[0]

    def _label(self, set_id: str, stream: BinaryIO) -> PublishedLabel | None:
        if set_id not in self.lines:
            return None
        offset, size = self.lines[set_id]
        stream.seek(offset)
        return read_label(parse_json_line(stream.read(size)))


def resolve_item(
    set_id: str, label: PublishedLabel | None, asked: Iterable[PublishedQuestion]
) -> tuple[BenchmarkItem, list[Reject]]:
    """A label with the questions that rest on passages it has, and those that don't.

    Without `label`, its passages are what the questions rest on.
    """
    held = sorted(asked, key=lambda one: (one.question.type, one.question.id))
    chunks = label.chunks if label else [chunk for one in held for chunk in one.context]
    passages = passages_of(set_id, chunks)
    places, found, rejects = PassageLookup(passages), [], []
    for one in held:
        try:
            found.append((one, one.gold(places)))
        except RowError as fault:
            rejects.append(Reject(one.question.id, STAGE, fault.reason, fault.detail, set_id, one.place))
    if label and label.bare:
        passages = with_sections(passages, (named for _, gold in found for named in gold))
    drug_name = label.drug_name if label else ""
    drug_name = drug_name or next((one.question.drug_name for one in held if one.question.drug_name), "")
    questions = [one.settled(gold, passages, drug_name) for one, gold in found]
    return BenchmarkItem.of(set_id, drug_name, label is not None, list(passages.values()), questions), rejects


def _row(line: JsonLine) -> dict[str, Any]:
    if line.fault:
        reason, _, detail = line.fault.partition(": ")
        raise RowError(reason, detail)
    return line.row


_BUILD = "build_benchmark"
_REMEDY = "give the run of a build, a folder with qa*.jsonl, or a .jsonl file of questions"


def read_benchmark(address: str) -> Benchmark:
    """What is to be evaluated, from a local or `s3://` address.

    Args:
        address: the run of a finished build; or a folder with `qa*.jsonl` and, where at hand, `labels.jsonl`, both
            perhaps in `qa/` and `labels/`; or one `.jsonl` file of questions, with its labels beside it.

    Raises `StorageError` where there is nothing of the kind, the build is unfinished, or no question can be read.
    """
    place = Location(address)
    if (place / "run.json").exists():
        return _of_run(open_build(address), address)
    return import_benchmark(_published(place), name=_name(place), address=address)


def open_build(address: str) -> RunDirectory:
    """The run of a finished build. `StorageError` for any other."""
    run = RunDirectory.open(address)
    job = run.info().get("job")
    if job != _BUILD:
        raise StorageError(f"{address} is a run of {job}, not of {_BUILD}; give the run of a build")
    if not run.complete:
        status = run.info().get("status")
        raise StorageError(f"{address} is an unfinished build ({status}); finish it with the command that began it")
    return run


def _of_run(run: RunDirectory, address: str) -> Benchmark:
    about = {"name": _name(run.root), "kind": "build_run", "address": address, **_counts(run)}
    if not any(about["questions"].values()):
        raise StorageError(f"{address} is a build without questions; its rejects/ say why none was kept")
    return Benchmark(about, lambda: _examined(run))


def _examined(run: RunDirectory) -> Iterator[BenchmarkItem]:
    for rows in read_labels(run):
        passages = list(rows.passages.values())
        yield BenchmarkItem.of(rows.label.set_id, rows.label.drug_name, True, passages, rows.questions)


def _counts(run: RunDirectory) -> dict[str, Any]:
    digest = blake2b(digest_size=16)
    for kind in ("passages", "questions"):
        for part in run.parts(kind):
            digest.update(part.read_bytes())
    types: Counter[str] = Counter()
    for part in run.parts("questions"):
        types.update(read_table(part, ["type"])["type"].to_pylist())
    labels = _rows(run, "labels")
    return {
        "digest": digest.hexdigest(),
        "labels": labels,
        "whole_labels": labels,
        "passages": _rows(run, "passages"),
        "questions": {name: types[name] for name in QUESTION_TYPES},
        "rejected": 0,
    }


def _rows(run: RunDirectory, kind: str) -> int:
    return sum(int(read_table(part, ["set_id"]).num_rows) for part in run.parts(kind))


def _published(place: Location) -> PublishedFiles:
    if place.is_dir():
        return _in_folder(place)
    if not place.exists():
        raise StorageError(f"there is nothing at {place}; {_REMEDY}")
    if place.suffix != ".jsonl":
        raise StorageError(f"{place} is no benchmark; {_REMEDY}")
    return PublishedFiles([place], _labels(place.parent))


def _in_folder(place: Location) -> PublishedFiles:
    for folder in (place, place / "qa"):
        found = [file for file in folder.list() if file.name.startswith("qa") and file.suffix == ".jsonl"]
        if found:
            return PublishedFiles(found, _labels(folder))
    raise StorageError(
        f"{place} holds no benchmark: neither run.json (the run of a build) nor qa*.jsonl (questions as FDARxBench "
        "publishes them), nor a folder qa/ with them; give a folder that does"
    )


def _labels(folder: Location) -> Location | None:
    """Beside the questions, or in `labels/` beside their folder, as FDARxBench's repository has them."""
    places = (folder / "labels.jsonl", folder.parent / "labels" / "labels.jsonl")
    return next((place for place in places if place.exists()), None)


def _name(place: Location) -> str:
    """A folder's name, or a file's without its ending; `RUN/benchmark` goes by its run."""
    named = [part for part in place.address.split("/") if part not in ("", ".", "..", "benchmark")]
    return named[-1].removesuffix(".jsonl") if named else "benchmark"


__all__ = [
    "STAGE",
    "Benchmark",
    "BenchmarkItem",
    "PublishedFiles",
    "import_benchmark",
    "open_build",
    "read_benchmark",
    "read_labels",
    "resolve_item",
    "write_benchmark",
]
