"""Read a benchmark from the run of a build, or from files in FDARxBench's published format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from fdarx_core.records import LabelSummary, Passage, QuestionAnswer, Reject
from fdarx_core.records.question_types import QUESTION_TYPES
from fdarx_core.storage.errors import InputError, StorageError
from fdarx_core.storage.hub import SCHEME, download_benchmark
from fdarx_core.storage.location import Location
from fdarx_core.storage.published import (
    PublishedLabel,
    PublishedQuestion,
    lines_file,
    passage_finder,
    passages_of,
    read_label,
    read_question,
    split_of_file,
    with_sections,
)
from fdarx_core.storage.run_directory import RunDirectory, read_labels
from fdarx_core.storage.splits import DEV, SPLITS, TEST, SplitChoice, Splits
from fdarx_core.storage.tables import FileRow, parse_json_row, read_json_lines

STAGE = "intake"
_BUILD = "build_benchmark"
_REMEDY = "give the run of a build, a folder with qa*.jsonl, a .jsonl file of questions, or hf://USER/NAME"


@dataclass(frozen=True, slots=True)
class BenchmarkItem:
    """A label: its passages in order of doc_chunk_index, its questions by type and id. Either list may be empty."""

    subject: LabelSummary
    passages: list[Passage]
    questions: list[QuestionAnswer]

    @classmethod
    def of(
        cls,
        set_id: str,
        drug_name: str,
        whole: bool,
        passages: Iterable[Passage],
        questions: Sequence[QuestionAnswer],
        drug: str = "",
    ) -> BenchmarkItem:
        """Sort passages and questions, and summarize them. `whole` says that all passages of the label are there.

        `drug` is as in `LabelSummary`, by default the name of the drug.
        """
        passages = sorted(passages, key=lambda passage: passage.doc_chunk_index)
        questions = sorted(questions, key=lambda question: (question.type, question.id))
        characters = sum(len(passage.text) for passage in passages)
        drug = drug or drug_name.strip().casefold()
        return cls(LabelSummary(set_id, drug_name, whole, len(passages), characters, drug), passages, questions)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark to evaluate on.

    Attributes:
        about: for `run.json`: name, kind (build_run or published), address, split, a digest of the content, the numbers
            of labels, whole labels, passages, questions by type, and rejected rows; from the hub, also the commit.
        items: yields the labels in order of set id, one in memory at a time; each call reads them again.
        rejects: the rows that could not be read; they are in no label.
    """

    about: dict[str, Any]
    items: Callable[[], Iterator[BenchmarkItem]]
    rejects: list[Reject] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.about["name"])


def read_benchmark(address: str, split: SplitChoice = "test") -> Benchmark:
    """Read a benchmark at a local or `s3://` address, or from the Hugging Face Hub.

    Args:
        address: the run of a finished build; a folder with `qa*.jsonl` and optionally `labels.jsonl`, which may be in
            `qa/` and `labels/`; one `.jsonl` file of questions, with optional labels beside it; or
            `hf://USER/NAME[@REVISION]`, a dataset with such files, which is kept in the cache of huggingface_hub.
        split: the split whose labels and questions are read, or all. A benchmark without splits is `test`, and so are
            the rows of a single file.

    Raises:
        StorageError: there is none, the build is not finished, or no question of the split can be read.
    """
    if address.startswith(SCHEME):
        folder, name, commit = download_benchmark(address)
        read = _Importer(*_published_files(folder, split), split).benchmark(name, address)
        read.about["commit"] = commit
        return read
    place = Location(address)
    if (place / "run.json").exists():
        return _read_build(open_build(address), address, split)
    return _Importer(*_published_files(place, split), split).benchmark(_name(place), address)


def open_build(address: str) -> RunDirectory:
    """Open the run of a finished build. Raises StorageError for any other."""
    run = RunDirectory.open(address)
    job = run.info().get("job")
    if job != _BUILD:
        raise StorageError(f"{address} is a run of {job}, not of {_BUILD}; give the run of a build")
    if not run.complete:
        status = run.info().get("status")
        raise StorageError(f"{address} is an unfinished build ({status}); finish it with the command that began it")
    return run


def _read_build(run: RunDirectory, address: str, split: SplitChoice) -> Benchmark:
    digest, types, splits = blake2b(digest_size=16), Counter[str](), Splits.of_run(run.info())
    for kind in ("passages", "questions"):
        for part in run.parts(kind):
            digest.update(part.read_bytes())
    if splits.dev and split != "all":
        digest.update("\x1f".join((split, *sorted(splits.dev))).encode())
    types.update(kind for set_id, kind in run.rows("questions", "set_id", "type") if splits.has(split, set_id))
    if unknown := sorted(types.keys() - QUESTION_TYPES.keys()):
        raise StorageError(
            f"{address} has questions of the types {', '.join(unknown)}, which no installed package has; install the "
            "package that the configuration of the run names"
        )
    if not any(types[name] for name in QUESTION_TYPES):
        if split == DEV:
            raise StorageError(_without_split(address, split))
        raise StorageError(f"{address} is a build without questions; its rejects/ say why none was kept")

    def rows_of(kind: str) -> int:
        return sum(splits.has(split, set_id) for (set_id,) in run.rows(kind, "set_id"))

    def items() -> Iterator[BenchmarkItem]:
        for rows in read_labels(run):
            label = rows.label
            if splits.has(split, label.set_id):
                passages = rows.passages.values()
                yield BenchmarkItem.of(label.set_id, label.drug_name, True, passages, rows.questions, label.drug)

    labels = rows_of("labels")
    about = {"name": _name(run.root), "kind": "build_run", "address": address, "split": split}
    counts = {"labels": labels, "whole_labels": labels, "passages": rows_of("passages")}
    questions = {name: types[name] for name in QUESTION_TYPES}
    return Benchmark({**about, "digest": digest.hexdigest(), **counts, "questions": questions, "rejected": 0}, items)


def _without_split(address: object, split: str) -> str:
    other = DEV if split == TEST else TEST
    return f"{address} has no {split} split; give --split {other}, or all"


@dataclass(slots=True)
class _Importer:
    """Reads and checks published files.

    In memory are all questions by label, and the file, the offset and the size in bytes of each label's line. Without
    files of labels, only the passages in the context of questions are known.
    """

    files: list[Location]
    labels: list[Location]
    split: SplitChoice
    questions: dict[str, list[PublishedQuestion]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    lines: dict[str, tuple[Location, int, int]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    digest: blake2b = field(default_factory=lambda: blake2b(digest_size=16))

    def benchmark(self, name: str, address: str) -> Benchmark:
        """Read all files. Raises StorageError where there is no question, or a file cannot be read."""
        for file in self.files:
            for line in read_json_lines(file, self.digest):
                self.counts["rows"] += 1
                with self._rejecting(line, "qid"):
                    published = read_question(line.checked_row(), line.place)
                    if published.question.id in self.ids:
                        raise InputError("duplicate_id", "an earlier row has the same qid")
                    self.ids.add(published.question.id)
                    self.questions.setdefault(published.question.set_id, []).append(published)
        for file in self.labels:
            for line in read_json_lines(file, self.digest):
                with self._rejecting(line, "set_id"):
                    label = read_label(line.checked_row())
                    if label.set_id in self.lines:
                        raise InputError("duplicate_label", "an earlier row has the same set_id")
                    self.lines[label.set_id] = file, line.offset, line.size
                    self.counts["whole_labels"] += 1
                    self._count(label.set_id, label)
        for set_id in sorted(self.questions.keys() - self.lines.keys()):
            self._count(set_id, None)
        if not any(self.counts[kind] for kind in QUESTION_TYPES):
            names = ", ".join(map(str, self.files))
            if not self.counts["rows"]:
                needed = "a question a line (task, set_id, question, answer)"
                raise StorageError(f"{names} is empty; give a file with {needed}")
            first = self.rejects[0]
            raise StorageError(
                f"{names}: none of {self.counts['rows']} rows can be read as a question; the first: {first.source}: "
                f"{first.reason}, {first.detail}; rows must be as in FDARxBench's qa.jsonl"
            )
        about: dict[str, Any] = {"name": name, "kind": "published", "address": address, "split": self.split}
        counts = {kind: self.counts[kind] for kind in ("labels", "whole_labels", "passages")}
        questions = {kind: self.counts[kind] for kind in QUESTION_TYPES}
        about |= {"digest": self.digest.hexdigest(), **counts, "questions": questions, "rejected": len(self.rejects)}
        return Benchmark(about, self.items, self.rejects)

    @contextmanager
    def _rejecting(self, line: FileRow, id_key: str) -> Iterator[None]:
        """Add a Reject for a line on which InputError is raised in this context."""
        try:
            yield
        except InputError as error:
            row_id, set_id = line.row.get(id_key), line.row.get("set_id")
            row_id = row_id if isinstance(row_id, str) and row_id else line.place
            set_id = set_id if isinstance(set_id, str) else ""
            self.rejects.append(Reject(row_id, STAGE, error.reason, error.detail, set_id, line.place))

    def _count(self, set_id: str, label: PublishedLabel | None) -> None:
        item, rejects = resolve_item(set_id, label, self.questions.get(set_id, ()))
        self.rejects += rejects
        self.counts.update(labels=1, passages=item.subject.passages)
        self.counts.update(question.type for question in item.questions)

    def items(self) -> Iterator[BenchmarkItem]:
        """Yield the labels, each read anew from its line."""
        with ExitStack() as stack:
            streams = {file: stack.enter_context(file.open_input()) for file in self.labels}
            for set_id in sorted(self.questions.keys() | self.lines.keys()):
                label = None
                if set_id in self.lines:
                    file, offset, size = self.lines[set_id]
                    streams[file].seek(offset)
                    label = read_label(parse_json_row(streams[file].read(size)))
                yield resolve_item(set_id, label, self.questions.get(set_id, ()))[0]


def resolve_item(
    set_id: str, label: PublishedLabel | None, questions: Iterable[PublishedQuestion]
) -> tuple[BenchmarkItem, list[Reject]]:
    """Return a label with the questions whose gold passages it has, and a Reject for each other question.

    Without `label`, its passages are the contexts of the questions.
    """
    rows = sorted(questions, key=lambda row: (row.question.type, row.question.id))
    chunks = label.chunks if label else [chunk for row in rows for chunk in row.context]
    passages = passages_of(set_id, chunks)
    find, found, rejects = passage_finder(passages), [], []
    for row in rows:
        try:
            found.append((row, row.gold(find)))
        except InputError as error:
            rejects.append(Reject(row.question.id, STAGE, error.reason, error.detail, set_id, row.place))
    if label and label.bare:
        passages = with_sections(passages, (named for _, gold in found for named in gold))
    drug_name = label.drug_name if label else ""
    drug_name = drug_name or next((row.question.drug_name for row in rows if row.question.drug_name), "")
    resolved = [row.resolved(gold, passages, drug_name) for row, gold in found]
    return BenchmarkItem.of(set_id, drug_name, label is not None, passages.values(), resolved), rejects


def _published_files(place: Location, split: SplitChoice) -> tuple[list[Location], list[Location]]:
    """Return the files of questions of the split, and the files of their labels. Raises StorageError."""
    if place.is_dir():
        for folder in (place, place / "qa"):
            found = [file for file in folder.list() if file.name.startswith("qa") and file.suffix == ".jsonl"]
            if found:
                of_split = [file for file in found if split in ("all", split_of_file(file.name))]
                if not of_split:
                    raise StorageError(_without_split(place, split))
                return of_split, _label_files(folder, split)
        raise StorageError(
            f"{place} holds no benchmark: neither run.json (the run of a build) nor qa*.jsonl (questions as FDARxBench "
            "publishes them), nor a folder qa/ with them; give a folder that does"
        )
    if not place.exists():
        raise StorageError(f"there is nothing at {place}; {_REMEDY}")
    if place.suffix != ".jsonl":
        raise StorageError(f"{place} is not a benchmark; {_REMEDY}")
    return [place], _label_files(place.parent, split_of_file(place.name))


def _label_files(folder: Location, split: str) -> list[Location]:
    """Return the labels beside the questions, or in `labels/` beside their folder, as in FDARxBench's repository.

    Where a split has no file of its own, its labels are in that of the test split.
    """
    names = [lines_file("labels", name) for name in SPLITS if split in ("all", name)]
    for place in (folder, folder.parent / "labels"):
        for wanted in (names, [lines_file("labels", TEST)]):
            if found := [place / name for name in wanted if (place / name).exists()]:
                return found
    return []


def _name(place: Location) -> str:
    """Return the name of a folder, or of a file without its ending. `RUN/benchmark` has the name of its run."""
    parts = [part for part in place.address.split("/") if part not in ("", ".", "..", "benchmark")]
    return parts[-1].removesuffix(".jsonl") if parts else "benchmark"
