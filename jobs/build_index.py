"""Documents, or the labels of a run, into a search index that answers are looked up in; again, to add to it."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field, model_validator

from fdarx_core.documents import find_documents, is_benchmark, may_hold_labels
from fdarx_core.pipeline.executor import ExecutorName
from fdarx_core.pipeline.indexing import Indexing
from fdarx_core.records import Reject
from fdarx_core.retrieval.index.segments import Manifest
from fdarx_core.retrieval.index.store import IndexStore
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.storage import Location, write_records
from fdarx_core.storage.sources import Inputs
from jobs import stop
from jobs.cli import run_as
from jobs.options import RunningConfig, SharedGpuConfig
from jobs.output import print_json
from jobs.progress import busy
from jobs.session import session

_WHY_SHOWN = 5
_MANY_LABELS = 2_000
_PHASES = {"identify": "files identified", "index": "documents read"}


class IndexConfig(RunningConfig, SharedGpuConfig):
    """Options of `fdarx index`."""

    documents: list[str] = Field(default_factory=list)
    """documents to index: labels in SPL (XML, bulk releases of DailyMed), of all types and routes; txt, md, html, pdf
    (scanned pages need the extra ocr), jsonl of {title, text}; zips, folders and globs of these; or runs of
    `fdarx build`; on disk or s3://"""
    out: str
    """folder of the index, on disk or s3://; an existing index is updated"""
    chunk_size: int = Field(10_000, ge=200)
    """maximum number of characters of a chunk; labels are always indexed by passage"""
    overlap: int = Field(2_000, ge=0)
    """characters that a chunk shares with the previous one"""
    cosine_model: str | None = None
    """local directory of a sentence-transformers model (all-MiniLM-L6-v2, if installed)"""
    query_instruction: str | None = None
    """instruction that the model reads before a question (from the model's directory, if it has one)"""
    words_only: bool = False
    """make no vectors, so that only lexical search is possible; this is fast, and needs no model and no torch"""
    remove: list[str] = Field(default_factory=list)
    """documents to drop, by id or source"""
    rebuild: bool = False
    """build the index again from --documents only, for example with another model or chunk size"""

    @model_validator(mode="after")
    def _sensible(self) -> IndexConfig:
        if not self.documents and not self.remove:
            raise ValueError("nothing to do: give --documents, or --remove")
        if self.overlap >= self.chunk_size:
            raise ValueError(f"--overlap {self.overlap} must be less than --chunk-size {self.chunk_size}")
        return self

    def model(self) -> str | None:
        """Return the directory of the model of the vectors; None, with a message on standard error, if there is none.

        Raises ModelMissing if a model was named and can't be used.
        """
        if self.words_only:
            return None
        try:
            directory = ModelDirectories(cosine=self.cosine_model).of("cosine")
            check_installed("cosine")
            return directory
        except ModelMissing as error:
            if self.cosine_model:
                raise
            print(f"no vectors, so only lexical search is possible: {error}", file=sys.stderr)
            return None


def index(*, config: Annotated[IndexConfig, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 130 interrupted."""
    runs = [one for one in config.documents if is_benchmark(one)]
    sources = [one for one in config.documents if one not in runs]
    place = Location(config.out)
    model = config.model()
    with busy("looking for documents", quiet=config.quiet):
        found = find_documents(sources) if sources else Inputs()
    if not config.documents and IndexStore(place).current() is None:
        stop(f"--remove: there is no index at {place}")
    place.check_writable()  # after the other arguments, because it makes the folder
    # Only embedding, and parsing many labels, takes longer than starting Ray.
    long = model is not None or sum(map(may_hold_labels, found.sources)) > _MANY_LABELS
    executor_name: ExecutorName = config.executor if long or config.executor != "auto" else "local"
    with session(config, _PHASES, read=[model], executor=executor_name) as (progress, executor):
        indexing = Indexing(
            executor,
            place,
            config.chunk_size,
            config.overlap,
            model,
            config.query_instruction,
            progress,
            config.rebuild,
        )
        manifest = indexing.run(found, runs, config.remove)
    if indexing.rejects:
        write_records(place / "rejects.parquet", indexing.rejects, Reject)
    if config.as_json:
        counts = {name: getattr(indexing, name) for name in ("documents", "unchanged", "chunks", "embedded")}
        rejected = Counter(reject.reason for reject in indexing.rejects)
        print_json({"index": str(place), **counts, "rejects": dict(rejected.most_common())})
    else:
        _tell(indexing, manifest, place)
    return 0


def _tell(done: Indexing, manifest: Manifest, place: Location) -> None:
    if done.rejects:
        reasons = Counter(reject.reason for reject in done.rejects)
        counted = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        print(f"left out: {counted}; see {place}/rejects.parquet", file=sys.stderr)
        for reject in done.rejects[:_WHY_SHOWN]:
            print(f"  {reject.id}: {reject.reason}: {reject.detail}", file=sys.stderr)
    by = f"BM25 and {manifest.windows:,} vectors of {manifest.encoder.name}" if manifest.encoder else "BM25 alone"
    print(
        f"index    {place}\nversion  {manifest.version}: {manifest.chunks:,} chunks of {manifest.documents:,} documents"
    )
    print(f"new      {done.embedded:,} chunks\nsearch   {by}")


if __name__ == "__main__":
    run_as("index")
