"""Documents, or the labels of a run, into a search index that answers are looked up in; again, to add to it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from cyclopts import Parameter

from fdarx_core.pipeline.executor import ExecutorName
from fdarx_core.pipeline.indexing import Indexing
from fdarx_core.retrieval.index.store import IndexStore
from fdarx_core.specs.index import IndexSpec
from jobs import wrong_arguments
from jobs.cli import run_as
from jobs.output import print_json, tell_rejects
from jobs.progress import busy
from jobs.session import session

_PHASES = {"identify": "files identified", "index": "documents read"}


@wrong_arguments()
def index(*, config: Annotated[IndexSpec, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 130 interrupted."""
    with busy("looking for documents", quiet=config.quiet):
        indexing = config.open()
    executor_name: ExecutorName = config.executor if indexing.long or config.executor != "auto" else "local"
    with session(config, _PHASES, read=[indexing.model], executor=executor_name) as (progress, executor):
        indexing.run(executor, progress)
    if config.as_json:
        counts = {name: getattr(indexing, name) for name in ("documents", "unchanged", "chunks", "embedded")}
        rejected = Counter(reject.reason for reject in indexing.rejects)
        print_json({"index": str(indexing.place), **counts, "rejects": dict(rejected.most_common())})
    else:
        _tell(indexing, config.no_vectors)
    return 0


def _tell(done: Indexing, no_vectors: str) -> None:
    from fdarx_core.report.page_engine import plural  # importing it takes longer than showing help may

    place, manifest = done.place, IndexStore(done.place).current()
    assert manifest is not None, "the index was just written"
    if done.rejects:
        tell_rejects("left out", done.rejects, f"{place}/rejects.parquet")
    by = (
        f"BM25 and {manifest.windows:,} vectors of {manifest.encoder.name}"
        if manifest.encoder
        else f"BM25 alone{no_vectors and f': {no_vectors}'}"
    )
    size = f"{plural(manifest.chunks, 'chunk')} of {plural(manifest.documents, 'document')}"
    print(f"index    {place}\nversion  {manifest.version}: {size}")
    print(f"new      {plural(done.embedded, 'chunk')}\nsearch   {by}")


if __name__ == "__main__":
    run_as("index")
