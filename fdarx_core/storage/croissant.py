"""Croissant metadata of a benchmark: JSON-LD that describes its files, and the columns of its Parquet tables.

Source: the Croissant format of MLCommons, version 1.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

import orjson
import pyarrow as pa

from fdarx_core.storage.dataset_card import CITATION, LICENSE_LINK
from fdarx_core.storage.dataset_tables import DataFile, described_columns, digest_of, schema_of
from fdarx_core.storage.location import Location

_CONFORMS_TO = "http://mlcommons.org/croissant/1.1"
_VERSION = "1.0.0"
"""The version of the layout of the dataset. The version of a dataset ends in a digest of its content."""

_NAME = "fdarx-benchmark"
_DESCRIPTION = (
    "Questions on FDA drug labels with gold answers and the passages that support them: factual, multi-hop and refusal "
    "questions, made by FDARx from Structured Product Labeling (SPL) of human prescription drugs; and the labels with "
    "their passages. README.md describes how it was made. It is not for clinical use."
)
_CONTEXT: Mapping[str, Any] = orjson.loads(files(__package__).joinpath("templates/croissant_context.json").read_bytes())
"""The context that the format prescribes."""

_PARQUET, _JSON_LINES = "application/x-parquet", "application/jsonlines"
_DATA_TYPES = {"string": "sc:Text", "int64": "sc:Integer", "double": "sc:Float", "bool": "sc:Boolean"}


def croissant_metadata(folder: Location, data: Sequence[DataFile], lines: Sequence[str], started: str) -> bytes:
    """Return the content of `croissant.json`.

    Args:
        folder: the folder of the benchmark, with its files.
        data: its Parquet files; each is a record set.
        lines: the names of its JSON lines files.
        started: the time at which the build began, ISO 8601; its day is the date of publication. "" for none.
    """
    objects = [_file_object(one.path, _PARQUET, one.size, one.sha256) for one in data]
    for name in lines:
        place = folder / name
        objects.append(_file_object(name, _JSON_LINES, place.size(), digest_of(place)))
    content = sha256("".join(one["sha256"] for one in objects).encode()).hexdigest()[:16]
    metadata = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _CONFORMS_TO,
        "name": _NAME,
        "description": _DESCRIPTION,
        "license": LICENSE_LINK,
        "citeAs": CITATION,
        "version": f"{_VERSION}+{content}",
        **({"datePublished": started[:10]} if started else {}),
        "inLanguage": "en",
        "keywords": ["drug labels", "question answering", "multi-hop", "refusal", "SPL", "DailyMed"],
        "distribution": objects,
        "recordSet": [_record_set(one) for one in data],
    }
    return orjson.dumps(metadata, option=orjson.OPT_INDENT_2)


def _file_object(path: str, encoding: str, size: int, digest: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "contentUrl": path,
        "contentSize": f"{size} B",
        "encodingFormat": encoding,
        "sha256": digest,
    }


def _record_set(data: DataFile) -> dict[str, Any]:
    name = f"{data.config}/{data.split}"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"The rows of the configuration {data.config} in the split {data.split}: {data.rows:,}.",
        "field": list(_fields(schema_of(data.config), name, data, ())),
    }


def _fields(columns: Iterable[pa.Field], above: str, data: DataFile, path: tuple[str, ...]) -> Iterable[dict[str, Any]]:
    """Yield the fields of columns. `path` are the names of the columns around them; theirs are read by JSONPath."""
    for column in columns:
        kind, names = column.type, (*path, column.name)
        entry: dict[str, Any] = {
            "@type": "cr:Field",
            "@id": f"{above}/{column.name}",
            "name": column.name,
            "description": described_columns(data.config)[".".join(names)],
        }
        if pa.types.is_list(kind):
            kind, entry["isArray"] = kind.value_type, True
        if pa.types.is_struct(kind):
            yield {**entry, "subField": list(_fields(kind, entry["@id"], data, names))}
            continue
        source: dict[str, Any] = {"fileObject": {"@id": data.path}, "extract": {"column": names[0]}}
        if path:
            source["transform"] = {"jsonPath": column.name}
        yield {**entry, "dataType": _DATA_TYPES[str(kind)], "source": source}
