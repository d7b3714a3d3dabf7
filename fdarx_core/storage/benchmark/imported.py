"""A benchmark out of files in the published format: made elsewhere, or written by a build.

The questions are held; of the labels' text, which may be large, one label at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, BinaryIO

from fdarx_core.records import Reject
from fdarx_core.storage.benchmark.asked import Asked, LabelText, Unreadable, read_label, read_question
from fdarx_core.storage.benchmark.card import CONFIGS
from fdarx_core.storage.benchmark.chunks import Places, passages_of, with_sections
from fdarx_core.storage.benchmark.examined import Benchmark, Examined
from fdarx_core.storage.errors import StorageError
from fdarx_core.storage.json_lines import JsonLine, parse_json_line, read_json_lines
from fdarx_core.storage.location import Location

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
    asked: dict[str, list[Asked]] = field(default_factory=dict)
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
                        raise Unreadable("duplicate_id", "an earlier row has the same qid")
                except Unreadable as fault:
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
                    raise Unreadable("duplicate_label", "an earlier row has the same set_id")
            except Unreadable as fault:
                self._reject(line, "set_id", fault)
                continue
            self.lines[label.set_id] = line.offset, line.size
            self.tally["whole_labels"] += 1
            self._settle(label.set_id, label)
        for set_id in sorted(self.asked.keys() - self.lines.keys()):
            self._settle(set_id, None)

    def _settle(self, set_id: str, label: LabelText | None) -> None:
        one, rejects = settle(set_id, label, self.asked.get(set_id, ()))
        self.rejects += rejects
        self.tally.update(labels=1, passages=one.subject.passages)
        self.tally.update(question.type for question in one.questions)

    def _reject(self, line: JsonLine, key: str, fault: Unreadable) -> None:
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
        if any(self.tally[name] for name in CONFIGS):
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
            "questions": {name: self.tally[name] for name in CONFIGS},
            "rejected": len(self.rejects),
        }

    def examined(self) -> Iterator[Examined]:
        if self.files.labels is None:
            yield from (settle(set_id, None, self.asked[set_id])[0] for set_id in sorted(self.asked))
            return
        with self.files.labels.open_input() as stream:
            for set_id in sorted(self.asked.keys() | self.lines.keys()):
                yield settle(set_id, self._label(set_id, stream), self.asked.get(set_id, ()))[0]

    def _label(self, set_id: str, stream: BinaryIO) -> LabelText | None:
        if set_id not in self.lines:
            return None
        offset, size = self.lines[set_id]
        stream.seek(offset)
        return read_label(parse_json_line(stream.read(size)))


def settle(set_id: str, label: LabelText | None, asked: Iterable[Asked]) -> tuple[Examined, list[Reject]]:
    """A label with the questions that rest on passages it has, and those that don't.

    Without `label`, its passages are what the questions rest on.
    """
    held = sorted(asked, key=lambda one: (one.question.type, one.question.id))
    chunks = label.chunks if label else [chunk for one in held for chunk in one.context]
    passages = passages_of(set_id, chunks)
    places, found, rejects = Places(passages), [], []
    for one in held:
        try:
            found.append((one, one.gold(places)))
        except Unreadable as fault:
            rejects.append(Reject(one.question.id, STAGE, fault.reason, fault.detail, set_id, one.place))
    if label and label.bare:
        passages = with_sections(passages, (named for _, gold in found for named in gold))
    drug_name = label.drug_name if label else ""
    drug_name = drug_name or next((one.question.drug_name for one in held if one.question.drug_name), "")
    questions = [one.settled(gold, passages, drug_name) for one, gold in found]
    return Examined.of(set_id, drug_name, label is not None, list(passages.values()), questions), rejects


def _row(line: JsonLine) -> dict[str, Any]:
    if line.fault:
        reason, _, detail = line.fault.partition(": ")
        raise Unreadable(reason, detail)
    return line.row
