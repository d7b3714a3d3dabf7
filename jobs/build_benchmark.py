"""SPL labels in, a question-answering benchmark with provenance out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from fdarx_core.generation.contexts import Amounts
from fdarx_core.labels import MissingInput, Selection, find_sources
from fdarx_core.labels.selection import EXCLUDED_ROUTES, HUMAN_PRESCRIPTION
from fdarx_core.pipeline.build import Build, EmptySelection
from fdarx_core.storage import RunDirectory, StorageError
from jobs.options import JobConfig, read_options, stop
from jobs.progress import ProgressLine
from jobs.ray_session import ray_session

_INTERRUPTED = 130
_NOT_RESULTS = {"out", "cpus"}


class BuildConfig(JobConfig):
    """Options of `fdarx build`."""

    labels: list[str] = Field(
        min_length=1,
        description="SPL XML files, folders, globs, zips or DailyMed bulk releases, on disk or s3://, in any mix",
    )
    out: str = Field(description="run directory to write, on disk or s3://; the same command again resumes it")
    sample: int | None = Field(
        None, ge=1, description="take this many labels at random after selection; time and size grow with it (all)"
    )
    seed: int = Field(0, description="fixes the sample and every choice; the same seed gives the same benchmark")
    set_ids: list[str] = Field(
        default_factory=list,
        description="take only these labels: set ids, or files that list them one a line",
    )
    document_types: list[str] = Field(
        [HUMAN_PRESCRIPTION], description="LOINC codes of the document types to take; 34391-3 is human prescription"
    )
    exclude_routes: list[str] = Field(
        list(EXCLUDED_ROUTES),
        description="leave out labels with a route that contains one of these words; `none` leaves none out",
    )
    passages: int = Field(
        16, ge=0, description="passages a label to write factual questions from: one request each to a model"
    )
    pairs_per_passage: int = Field(3, ge=1, le=10, description="question-answer pairs to ask for a passage")
    section_pairs: int = Field(
        12, ge=0, description="pairs of sections a label to write multi-hop questions from: one request each"
    )
    refusals: int = Field(6, ge=0, description="unanswerable questions a label: one request each to rephrase it")
    cpus: int | None = Field(None, ge=1, description="CPUs of this machine to use; on a cluster Ray decides (all)")

    @field_validator("set_ids")
    @classmethod
    def _read_lists(cls, given: list[str]) -> list[str]:
        ids: list[str] = []
        for one in given:
            if Path(one).is_file():
                ids.extend(line.strip() for line in Path(one).read_text(encoding="utf-8").splitlines())
            else:
                ids.append(one)
        return sorted({one.strip().lower() for one in ids if one.strip()})

    @field_validator("exclude_routes")
    @classmethod
    def _none_is_empty(cls, words: list[str]) -> list[str]:
        return [] if words == ["none"] else [word.casefold() for word in words]

    def identity(self) -> dict[str, Any]:
        """What makes a run this run: every option that can change its results."""
        config = self.model_dump(mode="json", exclude=_NOT_RESULTS)
        return {**config, "labels": sorted(config["labels"])}

    def selection(self) -> Selection:
        return Selection(
            tuple(self.document_types), tuple(self.exclude_routes), frozenset(self.set_ids), self.sample, self.seed
        )

    def amounts(self) -> Amounts:
        return Amounts(self.passages, self.pairs_per_passage, self.section_pairs, self.refusals, self.seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 130 interrupted."""
    config = read_options(BuildConfig, arguments, prog="fdarx build", description=__doc__ or "")
    try:
        inputs = find_sources(config.labels)
        run = RunDirectory.begin(config.out, job="build_benchmark", config=config.identity(), versions=_versions())
        if run.complete:
            print(f"{run.root} is complete already, nothing to do", file=sys.stderr)
            _tell(run.info(), run)
            return 0
        if run.resumed:
            print(f"resuming {run.root}", file=sys.stderr)
        progress = ProgressLine()
        with ray_session(config.cpus):
            info = _build(Build(run, inputs, config.selection(), config.amounts(), progress), progress)
    except (MissingInput, StorageError, EmptySelection) as error:
        stop(str(error))
    except KeyboardInterrupt:
        print("\ninterrupted; what is done is kept, the same command goes on from there", file=sys.stderr)
        return _INTERRUPTED
    _tell(info, run)
    return 0


def _build(build: Build, progress: ProgressLine) -> dict[str, Any]:
    try:
        return build.run_all()
    except KeyboardInterrupt:
        build.run.stop("interrupted")
        raise
    except BaseException:
        build.run.stop("failed")
        raise
    finally:
        progress.close()


def _versions() -> dict[str, str]:
    names = ("fdarx", "ray", "lxml", "pyarrow")
    return {"python": sys.version.split()[0], **{name: _version(name) for name in names}}


def _version(name: str) -> str:
    """Under `ray job submit` the project runs from its folder, without being installed."""
    from importlib.metadata import PackageNotFoundError

    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _tell(info: dict[str, Any], run: RunDirectory) -> None:
    kinds = info["questions"]
    print(f"\n{sum(kinds.values()):,} questions: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()))
    for stage in info["stages"]:
        print(f"  {stage['stage']:<12} {stage['rows_in']:>9,} in {stage['rejected']:>9,} rejected")
    if missing := info["input"]["set_ids_not_found"]:
        print(
            f"{len(missing)} of the set ids asked for are not in the input: {' '.join(missing[:5])} …", file=sys.stderr
        )
    print(f"benchmark  {run.file('benchmark')}\nreport     {run.file('report.html')}")


if __name__ == "__main__":
    sys.exit(main())
