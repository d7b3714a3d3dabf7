"""Logs of evaluation harnesses about tasks of `fdarx export`: inspect's `.eval` files, and lm-eval's samples files.

Both are read without the harness. Each sample becomes a row with the keys of a predictions file.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from typing import Any, BinaryIO

import pyarrow as pa

from fdarx_core.storage.errors import InputError, StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.tables import FileRow, read_json_lines

_INSPECT = "*.eval"
_LM_EVAL = "samples_*.jsonl"
_ZSTANDARD = 93
"""The number of the compression method in zip files, which `zipfile` reads from Python 3.14 on."""
_LOCAL_HEADER = 30
"""Bytes of the header of a file in a zip, without its name and extra field, whose lengths are the last four bytes."""
_FINISH_REASONS = {"max_tokens": "length", "model_length": "length", "content_filter": "content_filter"}
_NOT_EXPORTED = InputError(
    "not_exported", "the sample has no id and setting of FDARx; logs of tasks that `fdarx export` wrote can be read"
)


def find_logs(location: Location) -> list[Location]:
    """Return the logs at a place: this file if it is one, or those in this folder; [] for another file or none.

    Raises StorageError for a folder without logs.
    """
    if location.is_dir():
        found = [file for file in location.list(recursive=True) if _is_named_as_log(file)]
        if not found:
            raise StorageError(
                f"{location} is a folder without logs; give one with logs of inspect ({_INSPECT}) or lm-eval "
                f"({_LM_EVAL}), or a file"
            )
        return found
    return [location] if location.exists() and (_is_inspect(location) or _is_lm_eval(location)) else []


def read_log(location: Location) -> Iterator[FileRow]:
    """Yield a row for each sample, with qid, answer, model, setting, retriever, citable and finish_reason.

    The fault of a row says why its sample has no answer. Raises StorageError for a file that is no log.
    """
    return _inspect_rows(location) if _is_inspect(location) else _lm_eval_rows(location)


def _is_named_as_log(file: Location) -> bool:
    return fnmatch(file.name, _INSPECT) or fnmatch(file.name, _LM_EVAL)


def _is_inspect(location: Location) -> bool:
    return location.suffix == ".eval"


def _is_lm_eval(location: Location) -> bool:
    """Return whether the first row of a file is a sample of lm-eval, whatever the name of the file."""
    if location.suffix != ".jsonl":
        return False
    first = next(read_json_lines(location), None)
    return first is not None and isinstance(first.row.get("doc"), dict) and "resps" in first.row


def _lm_eval_rows(location: Location) -> Iterator[FileRow]:
    model = _lm_eval_model(location)
    for line in read_json_lines(location):
        replies, doc = line.row.get("filtered_resps"), line.row.get("doc")
        reply = replies[0] if isinstance(replies, list) and replies else None
        yield _row(line.place, doc, model, reply, "stop", line.fault)


def _lm_eval_model(location: Location) -> str:
    """Return the model of a samples file: lm-eval writes it into the results of the same time, and names the folder
    after it."""
    time = location.name.removesuffix(location.suffix).rpartition("_")[2]
    results = location.parent / f"results_{time}.json"
    if not results.exists():
        return location.parent.name
    try:
        return str(json.loads(results.read_bytes())["model_name"])
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{results} has no model_name ({error!r}), which lm-eval writes; restore the file"
        ) from error


def _inspect_rows(location: Location) -> Iterator[FileRow]:
    try:
        with location.open_input() as stream, zipfile.ZipFile(stream) as log:
            names = log.namelist()
            samples = [
                name for name in dict.fromkeys(names) if fnmatch(name, "samples/*.json") and name.count("/") == 1
            ]
            if not samples:
                raise StorageError(f"{location} has no samples; run inspect without --no-log-samples")
            header = "header.json" if "header.json" in names else "_journal/start.json"
            model = str(_member(stream, log, header)["eval"]["model"])
            for name in samples:
                yield _inspect_row(f"{location.name}:{name}", _member(stream, log, name), model)
    except (zipfile.BadZipFile, pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise StorageError(f"{location} is not a log of inspect ({error!r}); give a file that inspect wrote") from error


def _inspect_row(place: str, sample: Mapping[str, Any], model: str) -> FileRow:
    output = sample.get("output") or {}
    choices = output.get("choices") or []
    fault = None
    if sample.get("error"):
        fault = InputError(
            "sample_failed", str(sample["error"].get("message", "")).strip() or "inspect gives no reason"
        )
    reply = output.get("completion") if choices else None
    finish_reason = _FINISH_REASONS.get(choices[0].get("stop_reason"), "stop") if choices else "stop"
    return _row(place, sample.get("metadata"), model, reply, finish_reason, fault)


def _row(
    place: str, sample: Any, model: str, reply: str | None, finish_reason: str, fault: InputError | None
) -> FileRow:
    """Return the row of a sample from the fields with which it was exported."""
    if not isinstance(sample, dict) or not {"id", "setting", "retriever", "citable"} <= sample.keys():
        return place, {}, fault or _NOT_EXPORTED
    row = {"qid": sample["id"], **{name: sample[name] for name in ("setting", "retriever", "citable")}}
    if reply is None:
        fault = fault or InputError("no_reply", "the model gave no reply")
    return place, {**row, "model": model, "answer": reply, "finish_reason": finish_reason}, fault


def _member(stream: BinaryIO, log: zipfile.ZipFile, name: str) -> Any:
    """Return the JSON of a file in a log. NaN and infinity are allowed, as inspect writes them."""
    info = log.getinfo(name)
    if info.compress_type != _ZSTANDARD:
        return json.loads(log.read(info))
    stream.seek(info.header_offset)
    header = stream.read(_LOCAL_HEADER)
    stream.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
    data = stream.read(info.compress_size)
    return json.loads(pa.decompress(data, info.file_size, codec="zstd", asbytes=True))
