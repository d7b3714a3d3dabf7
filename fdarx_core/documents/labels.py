"""Labels as chunks of an index: from SPL files as DailyMed publishes them, and from the labels of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Any

from fdarx_core.labels import BadDocument, Identity, identify_sources, parse_document, read_document
from fdarx_core.labels.drugs import drug_of
from fdarx_core.records import Chunk, Label, LabelVersion, Passage, Reject, content_id
from fdarx_core.storage import Location
from fdarx_core.storage.benchmark_reader import open_build, read_benchmark
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.run_directory import read_labels
from fdarx_core.storage.sources import Source, as_reject


@dataclass(slots=True)
class LabelFiles:
    """What some sources hold.

    Attributes:
        sources: the number of sources.
        labels: the identities of the SPL documents, without titles and routes.
        others: sources without SPL documents.
        rejects: the files that are no readable SPL documents.
    """

    sources: int
    labels: list[Identity] = field(default_factory=list)
    others: list[Source] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def find_labels(sources: Sequence[Source]) -> LabelFiles:
    """Identify the SPL documents in XML files and inner zips. A zip without XML files is among `others`."""
    number, identities, rejects = identify_sources(sources)
    by_name = {source.name: source for source in sources}
    without = {one.id for one in rejects if one.reason == "no_document"} & by_name.keys()
    return LabelFiles(
        number,
        [replace(one, title="", routes=[]) for one in identities],
        [by_name[name] for name in sorted(without)],
        [one for one in rejects if one.id not in without],
    )


def read_label_file(identity: Identity) -> list[Chunk] | Reject:
    """Return the chunks of a label; a Reject for one without text, and for a file that changed meanwhile."""
    source = identity.source
    try:
        data = read_document(source)
        if sha256(data).hexdigest() != identity.sha256:
            raise InputError("changed_file", "the file was replaced while it was read; run the command again")
        label, passages = parse_document(data, source.name)
        if not passages:
            raise BadDocument("empty_document", "the label has no text")
    except InputError as error:
        return replace(as_reject(source, error), set_id=identity.set_id)
    return chunk_label(passages, drug=label.drug_name, source=source.name, label=label_version(label))


def chunk_label(
    passages: Iterable[Passage], *, drug: str, source: str = "", label: LabelVersion | None = None
) -> list[Chunk]:
    """Return the passages of a label as chunks, with doc_chunk_index as position. The title is drug or set id.

    The first chunk has the label's version.
    """
    return [
        Chunk(
            id=content_id(passage.set_id, str(passage.doc_chunk_index), passage.text),
            document_id=passage.set_id,
            title=drug or passage.set_id,
            source=source,
            section=passage.section_path,
            text=passage.text,
            position=passage.doc_chunk_index,
            set_id=passage.set_id,
            drug=drug,
            section_code=passage.core_code,
            section_number=passage.section_number,
            table_header=passage.table_header,
            label=None if at else label,
        )
        for at, passage in enumerate(passages)
    ]


def label_version(label: Label) -> LabelVersion:
    """Return what a chunk says of the version of its label."""
    drug = drug_of(*label.products)
    known: dict[str, Any] = {one.name: getattr(label, one.name, None) for one in fields(LabelVersion)}
    return LabelVersion(**known | {"moieties": list(drug.moieties), "uniis": list(drug.uniis)})


def is_benchmark(address: str) -> bool:
    """Return whether `read_label_chunks` can read a folder: it has a `run.json`, or labels in the published format."""
    place = Location(address)
    return any((place / name).exists() for name in ("run.json", "labels.jsonl", "labels/labels.jsonl"))


def read_label_chunks(address: str) -> Iterator[list[Chunk]]:
    """Yield the chunks of each label of a finished build or a published benchmark, in order of set id.

    Labels without passages are left out. Where a benchmark has no file of labels, its passages are the contexts of its
    questions. The source of a chunk is the file that the build read, or the folder of the benchmark. Raises
    StorageError at the call, as `read_benchmark` does.
    """
    if (Location(address) / "run.json").exists():
        rows = read_labels(open_build(address))
        labels = (
            chunk_label(
                row.passages.values(), drug=row.label.drug_name, source=row.label.source, label=label_version(row.label)
            )
            for row in rows
        )
    else:
        items = read_benchmark(address, "all").items()
        labels = (chunk_label(one.passages, drug=one.subject.drug_name, source=address) for one in items)
    return (chunks for chunks in labels if chunks)
