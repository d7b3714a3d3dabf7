"""A whole build: find and identify labels, select, run the flow over what is not done yet, publish the benchmark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from fdarx_core.generation.contexts import Amounts
from fdarx_core.labels import Identity, Selection, select
from fdarx_core.labels.sources import Inputs
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.dossier import AccountingError, total
from fdarx_core.pipeline.flow import build_parts, identify_all, numbered_parts
from fdarx_core.pipeline.plan import AskBaseline, build_steps
from fdarx_core.pipeline.sink import ACCOUNTS, Sink
from fdarx_core.records import Reject, StageCount
from fdarx_core.report import build_report
from fdarx_core.storage import RunConflict, RunDirectory, read_records, write_records
from fdarx_core.storage.benchmark import write_benchmark

Progress = Callable[[str, int, int, list[StageCount]], None]
"""Called with a phase, how much of it is done, of how much, and the accounts so far."""


class EmptySelection(ValueError):
    """Nothing was left to build from. The message says what was found and why it was not taken."""


@dataclass(slots=True)
class Build:
    """One build into a run directory; `run_all` may be interrupted anywhere and called again in a new process."""

    run: RunDirectory
    inputs: Inputs
    selection: Selection
    amounts: Amounts
    progress: Progress
    timings: dict[str, float] = field(default_factory=dict)

    def run_all(self) -> dict[str, Any]:
        """Build, write the benchmark and the report, and mark the run complete; returns what `run.json` then says.

        Raises EmptySelection, and RunConflict when the input changed since the run began.
        """
        with self._timed("identify"):
            found, rejects, counts = self._identify()
        chosen, unselected = select(found, self.selection)
        counts.append(StageCount("select", len(found), len(chosen), len(unselected), len(chosen)))
        rejects = sorted(rejects + unselected, key=lambda one: (one.stage, one.reason, one.id, one.source))
        if not chosen:
            raise EmptySelection(_why_empty(rejects))
        digest = _digest(chosen)
        self._check_input(digest)
        with self._timed("build"):
            counts += self._build(chosen, rejects)
        return self._publish(total(counts), digest, self.selection.set_ids - {one.set_id for one in found})

    def _publish(self, stages: list[StageCount], digest: str, not_found: Iterable[str]) -> dict[str, Any]:
        check_accounts(stages)
        read = {"digest": digest, "files": len(self.inputs.sources), "ignored": self.inputs.ignored}
        summary: dict[str, Any] = {
            "input": {**read, "set_ids_not_found": sorted(not_found)},
            "stages": [asdict(stage) for stage in stages],
            "timings": self.timings,
        }
        with self._timed("publish"):
            self.progress("publish", 0, 1, stages)
            summary["questions"] = write_benchmark(self.run, about={**self.run.info(), **summary})
            self.run.file("report.html").write_text(build_report(self.run, summary))
        self.run.finish(summary)
        return self.run.info()

    def _identify(self) -> tuple[list[Identity], list[Reject], list[StageCount]]:
        found: list[Identity] = []
        rejects = list(self.inputs.rejects)
        done = 0
        for block in identify_all(self.inputs.sources):
            found.extend(block.identities)
            rejects.extend(block.rejects)
            done += block.sources
            self.progress("identify", done, len(self.inputs.sources), [])
        unread = sum(reject.stage == "read" for reject in rejects)
        read = len(found) + len(rejects) - unread
        counts = [
            StageCount("read", read + unread, read, unread, read),
            StageCount("identify", read, len(found), len(rejects) - unread, len(found)),
        ]
        return found, rejects, counts

    def _check_input(self, digest: str) -> None:
        """Parts of a run must all come from the same labels; the first start notes which, a later one compares."""
        note = self.run.file("input.json")
        if self.run.resumed and note.exists():
            if json.loads(note.read_text())["digest"] != digest:
                raise RunConflict(
                    f"{self.run.root} was begun with other labels than those found now; choose another --out, "
                    "or bring the first ones back"
                )
        else:
            note.write_text(json.dumps({"digest": digest}) + "\n")

    def _build(self, chosen: Sequence[Identity], rejects: Sequence[Reject]) -> list[StageCount]:
        parts = numbered_parts(chosen)
        write_records(self.run.part("rejects", len(parts)), rejects, Reject)
        standing = {location.name for location in self.run.parts(ACCOUNTS)}
        counts: list[StageCount] = []
        waiting: list[tuple[int, Sequence[Identity]]] = []
        for number, labels in parts:
            location = self.run.part(ACCOUNTS, number)
            if location.name in standing:
                counts.extend(read_records(location, StageCount))
            else:
                waiting.append((number, labels))
        store = ResponseStore(self.run.file("responses"))
        store.index()
        for made in build_parts(waiting, build_steps(self.amounts), AskBaseline(store), Sink(self.run)):
            counts = total([*counts, *made])
            done = next(count.rows_in for count in counts if count.stage == "passages")
            self.progress("build", done, len(chosen), counts)
        return total(counts)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[phase] = round(time.perf_counter() - start, 2)


def check_accounts(stages: Sequence[StageCount]) -> None:
    """Rows in = rows kept + rejects at every stage, and each stage got what the one before it made.

    Raises AccountingError naming the stage.
    """
    by_name = {stage.stage: stage for stage in stages}
    for stage in stages:
        if stage.rows_in != stage.kept + stage.rejected:
            raise AccountingError(
                f"stage {stage.stage}: {stage.rows_in} in, {stage.kept} kept, {stage.rejected} rejected"
            )
    for before, after, made in (
        ("read", "identify", "rows_out"),
        ("identify", "select", "rows_out"),
        ("select", "passages", "rows_out"),
        ("passages", "contexts", "kept"),
        ("contexts", "generate", "rows_out"),
        ("generate", "rules", "rows_out"),
        ("rules", "duplicates", "rows_out"),
    ):
        if before in by_name and after in by_name and getattr(by_name[before], made) != by_name[after].rows_in:
            raise AccountingError(f"stage {after} got {by_name[after].rows_in} rows, {before} made {by_name[before]}")


def _digest(chosen: Iterable[Identity]) -> str:
    return sha256("".join(sorted(f"{one.set_id}:{one.sha256}" for one in chosen)).encode()).hexdigest()


def _why_empty(rejects: Sequence[Reject]) -> str:
    reasons: dict[str, int] = {}
    for reject in rejects:
        reasons[reject.reason] = reasons.get(reject.reason, 0) + 1
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())) or "no document was found"
    return f"no label is left to build from ({listed}); see --document-types, --exclude-routes and --set-ids"
