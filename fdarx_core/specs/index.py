"""The specification of an index: documents, or the labels of runs, in which answers are looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, PrivateAttr, model_validator

from fdarx_core.specs.options import Required, RunningConfig, SharedGpuConfig
from fdarx_core.specs.running import JobSpec, local_or_ray, no_progress

if TYPE_CHECKING:  # importing these takes longer than showing the job's help may
    from fdarx_core.pipeline.executor import Executor
    from fdarx_core.pipeline.indexing import Indexing
    from fdarx_core.pipeline.job import Progress


class IndexSpec(RunningConfig, SharedGpuConfig, JobSpec):
    """An index of documents: the options of `fdarx index`, and of `fdarx_core.index`."""

    documents: Required[list[Annotated[str, Field(min_length=1)]]] = Field(default_factory=list)
    """documents to index: labels in SPL (XML, bulk releases of DailyMed), of all types and routes; txt, md, html, pdf
    (scanned pages need a text layer), jsonl of {title, text}; zips, folders and globs of these; or runs of
    `fdarx build`; on disk or s3://"""
    out: str = Field(min_length=1)
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

    _no_vectors: str = PrivateAttr("")

    @property
    def no_vectors(self) -> str:
        """Why no model of vectors could be used; "" where one was, or none was wanted."""
        return self._no_vectors

    @model_validator(mode="after")
    def _sensible(self) -> IndexSpec:
        if not self.documents and not self.remove:
            raise ValueError("nothing to do: give --documents, or --remove")
        if self.overlap >= self.chunk_size:
            raise ValueError(f"--overlap {self.overlap} must be less than --chunk-size {self.chunk_size}")
        return self

    def model(self) -> str | None:
        """Return the directory of the model of the vectors; None, with the reason in `no_vectors`, if there is none.

        Raises ModelMissing if a model was named and can't be used.
        """
        if self.words_only:
            return None
        from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed

        try:
            directory = ModelDirectories(cosine=self.cosine_model).of("cosine")
            check_installed("cosine")
            return directory
        except ModelMissing as error:
            if self.cosine_model:
                raise
            self._no_vectors = str(error)
            return None

    def open(self) -> Indexing:
        """Find documents and model; return the work. Raises ValueError, StorageError, and ModelMissing as `model`."""
        from fdarx_core.extras import require

        require("documents")
        from fdarx_core.documents.chunks import find_documents
        from fdarx_core.documents.labels import is_benchmark
        from fdarx_core.pipeline.indexing import Indexing
        from fdarx_core.retrieval.index.store import IndexStore
        from fdarx_core.storage import Location
        from fdarx_core.storage.run_directory import existing_run
        from fdarx_core.storage.sources import Inputs

        runs = [document for document in self.documents if is_benchmark(document)]
        sources = [document for document in self.documents if document not in runs]
        place = Location(self.out)
        found = find_documents(sources) if sources else Inputs()
        if IndexStore(place).current() is None and not (place / "segments").is_dir():  # of an interrupted first build
            existing_run(place, "index", {})
            if not self.documents:
                raise ValueError(f"--remove: there is no index at {place}")
        model = self.model()
        place.check_writable()  # after the other arguments, because it makes the folder
        return Indexing(
            place,
            self.chunk_size,
            self.overlap,
            model,
            self.query_instruction,
            inputs=found,
            runs=runs,
            remove=self.remove,
            rebuild=self.rebuild,
        )

    def run(self, executor: Executor | None = None, progress: Progress | None = None) -> Indexing:
        """Make or update the index; return what was done.

        Args:
            executor: Where it runs; by default in this process, or on Ray if Ray is running in it already.
            progress: Called with the phase, the finished units, their number and a note.

        Raises:
            ValueError: The options can't be used, or the index was made with another model or other chunks.
        """
        indexing = self.open()
        indexing.run(executor or local_or_ray(self.executor, self.demand), progress or no_progress)
        return indexing
