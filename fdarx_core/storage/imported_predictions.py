"""Predictions of other programs: files with a row for each answer, and logs of evaluation harnesses.

The logs are inspect's `.eval` files, and lm-eval's samples files, of tasks as in docs/harnesses.md. Both are read
without the harness. Each sample becomes a row with the keys of a predictions file.
"""

from __future__ import annotations

import json
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa

from fdarx_core.records import Reject
from fdarx_core.storage.errors import InputError, StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.tables import (
    FileRow,
    check_rows_file,
    no_usable_row,
    parse_rows,
    read_json_lines,
    read_rows,
    text_at,
)

_INTAKE = "intake"
UNNAMED_SETTING = "given"
"""The setting of predictions that do not name theirs."""

GIVEN_ENGINE = "answers of another program"
"""The engine of a cell whose answers were made elsewhere."""

TEXT_KEYS = ("answer", "prediction", "response")
"""The keys of a row under which the text of an answer may be."""
_ID = ("qid", "question_id", "id")
_QUESTION = ("question", "user_input", "input", "query")
_NEEDED = "qid (or question) and answer"
_LOGS = "; or a log of inspect (.eval) or lm-eval (samples_*.jsonl), or a folder of logs"
_PASSAGE = r"(?:PASSAGE[_ -]?)?(\d{1,7})"
_CITATION = re.compile(rf"\W*{_PASSAGE}(?:\.0)?\W*", re.IGNORECASE | re.ASCII)
_CITATION_RANGE = re.compile(rf"\W*{_PASSAGE}\s*(?:-|–|to)\s*{_PASSAGE}\W*", re.IGNORECASE | re.ASCII)
_LONGEST_RANGE = 100
_WORDS = re.compile(r"[^\W_]+")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class ImportedPrediction:
    """A model's answer to one question. `text` is the whole reply, which may end with a line of citations.

    `cited` are doc_chunk_index values from a field of their own, `citable` those of the passages that the prompt marks;
    None where the row has no such field.
    `finish_reason` is that of the server: stop, length or content_filter. `shown` are the passages of the prompt, where
    an answer is judged by them.
    """

    question_id: str
    model: str
    setting: str
    retriever: str
    text: str
    cited: list[int] | None = None
    citable: list[int] | None = None
    finish_reason: str = "stop"
    shown: Sequence[int] = ()


QuestionIds = Callable[[], Mapping[str, Sequence[str]]]
"""Returns the ids of the questions that may be answered, by `normalized_question`."""


def normalized_question(question: str) -> str:
    """Return the words and numbers of a question in lower case; equal results mean the same question."""
    return " ".join(_WORDS.findall(unicodedata.normalize("NFKC", question).casefold()))


def model_name(text: str) -> str:
    """Return a model's name as in a models file, since its folders in a run bear it: org/model 7b is org-model-7b."""
    return _NOT_IN_NAMES.sub("-", text).strip("-._") or "unnamed"


def read_predictions(address: str, question_ids: QuestionIds = dict) -> tuple[list[ImportedPrediction], list[Reject]]:
    """Read the predictions in a file or in logs, in their order, and the rejected rows.

    A file is `.jsonl`, `.json`, `.csv` or `.parquet`. A row has `qid` (or question_id, id), or a `question` (or
    user_input, input, query) by whose text `question_ids` finds it, and `answer` (or prediction, response). Optional
    are `model` (else the name of the file; characters other than letters, digits, ".", "_" and "-" become "-"),
    `setting` (else "given"), `retriever` and `cited`. Logs are those of inspect and lm-eval, whose samples
    have the fields that docs/harnesses.md names: one file, or a folder with several. A second answer to a question by
    the same model in the same setting and with the same retriever is rejected. Raises StorageError for an unreadable
    file and for one without predictions.
    """
    location = Location(address)
    logs = _find_logs(location)
    if not logs:
        check_rows_file(location, "--predictions", _LOGS)
    model = location.name.removesuffix(location.suffix)
    predictions: dict[tuple[str, ...], ImportedPrediction] = {}

    def parse(row: dict[str, Any]) -> ImportedPrediction:
        read = _prediction(row, model, question_ids)
        key = (read.question_id, read.model, read.setting, read.retriever)
        if key in predictions:
            raise InputError("duplicate", f"an earlier row answers it too, as {' / '.join(filter(None, key[1:]))}")
        return predictions.setdefault(key, read)

    rows = chain.from_iterable(map(_rows_of_log, logs)) if logs else read_rows(location, _NEEDED, blank=TEXT_KEYS)
    rejects = [row for row in parse_rows(rows, parse, stage=_INTAKE, id_keys=_ID) if isinstance(row, Reject)]
    if not predictions:
        raise StorageError(no_usable_row(address, "answer", _NEEDED, rejects))
    return list(predictions.values()), rejects


def _prediction(row: dict[str, Any], model: str, question_ids: QuestionIds) -> ImportedPrediction:
    question_id = text_at(row, *_ID)
    if not question_id:
        question = normalized_question(text_at(row, *_QUESTION))
        if not question:
            raise InputError("missing_key", f"none of {', '.join((*_ID, *_QUESTION))} names the question")
        if len(found := question_ids().get(question, ())) != 1:
            raise InputError("unknown_question", f"{len(found) or 'no'} questions have its text; give its qid")
        question_id = found[0]
    text = answer_text(row, "missing_key")
    return ImportedPrediction(
        question_id,
        model_name(text_at(row, "model") or model),
        text_at(row, "setting") or UNNAMED_SETTING,
        text_at(row, "retriever"),
        text,
        _cited(row.get("cited")),
        _cited(row.get("citable")),
        text_at(row, "finish_reason") or "stop",
    )


def answer_text(row: dict[str, Any], reason: str) -> str:
    """Return the text of the answer, which may be blank. Raises InputError with this reason where there is none."""
    text = next((row[key] for key in TEXT_KEYS if row.get(key) is not None), None)
    if not isinstance(text, str):
        raise InputError(reason, f"none of {', '.join(TEXT_KEYS)} holds a text")
    return text


def _cited(value: Any) -> list[int] | None:
    """Read numbers, and names such as PASSAGE_0012, [12] and PASSAGE_0003-PASSAGE_0005, from a list or one text."""
    if value is None:
        return None
    if isinstance(value, str):
        value = re.split(r"[,;\n]", value.strip("[](){} "))
    items = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(index for item in items for index in _indices(item)))


def _indices(item: Any) -> list[int]:
    if isinstance(item, str) and not item.strip():
        return []
    text = str(item) if isinstance(item, str | int | float) and not isinstance(item, bool) else ""
    if single := _CITATION.fullmatch(text):
        return [int(single[1])]
    if ends := _CITATION_RANGE.fullmatch(text):
        first, last = int(ends[1]), int(ends[2])
        if first <= last < first + _LONGEST_RANGE:
            return list(range(first, last + 1))
    raise InputError("unreadable_citation", f"{item!r:.80} names no passage; write PASSAGE_0012 or 12")


_INSPECT = "*.eval"
_LM_EVAL = "samples_*.jsonl"
_LOG_NAMES = (_INSPECT, _LM_EVAL)
_ZSTANDARD = 93
"""The number of the compression method in zip files, which `zipfile` reads from Python 3.14 on."""
_LOCAL_HEADER = 30
"""Bytes of the header of a file in a zip, without its name and extra field, whose lengths are the last four bytes."""
_FINISH_REASONS = {"max_tokens": "length", "model_length": "length", "content_filter": "content_filter"}
_FIELDS = ("id", "setting", "retriever", "citable")
"""The fields of a sample that say which question it asks and how."""
_MISSING_FIELDS = InputError(
    "missing_fields", f"the sample lacks one of the fields {', '.join(_FIELDS)}; docs/harnesses.md has tasks with them"
)


def _find_logs(location: Location) -> list[Location]:
    """Return the logs at a place: this file if it is one, or those in this folder; [] for another file or none.

    Raises StorageError for a folder without logs.
    """
    if location.is_dir():
        named = (file for file in location.list(recursive=True) if any(fnmatch(file.name, name) for name in _LOG_NAMES))
        if found := list(named):
            return found
        raise StorageError(
            f"{location} is a folder without logs; give one with logs of inspect ({_INSPECT}) or lm-eval ({_LM_EVAL}), "
            "or a file"
        )
    if not location.exists() or location.suffix not in (".eval", ".jsonl"):
        return []
    # A file of lm-eval is known by its first row, whatever its name.
    first = next(read_json_lines(location), None) if location.suffix == ".jsonl" else None
    of_lm_eval = first is not None and isinstance(first.row.get("doc"), dict) and "resps" in first.row
    return [location] if of_lm_eval or location.suffix == ".eval" else []


def _rows_of_log(location: Location) -> Iterator[FileRow]:
    """Yield a row for each sample, with qid, answer, model, setting, retriever, citable and finish_reason.

    The fault of a row says why its sample has no answer. Raises StorageError for a file that is no log.
    """
    if location.suffix == ".eval":
        yield from _inspect_rows(location)
        return
    # lm-eval writes the model into the results of the same time, and names the folder after it.
    time = location.name.removesuffix(location.suffix).rpartition("_")[2]
    results, model = location.parent / f"results_{time}.json", location.parent.name
    if results.exists():
        try:
            model = str(json.loads(results.read_text())["model_name"])
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{results} has no model_name ({error!r}), which lm-eval writes; restore it") from error
    for line in read_json_lines(location):
        replies, doc = line.row.get("filtered_resps"), line.row.get("doc")
        reply = replies[0] if isinstance(replies, list) and replies else None
        yield _row(line.place, doc, model, reply, "stop", line.fault)


def _inspect_rows(location: Location) -> Iterator[FileRow]:
    try:
        with location.open_input() as stream, zipfile.ZipFile(stream) as log:
            names = log.namelist()
            samples = [name for name in dict.fromkeys(names) if re.fullmatch(r"samples/[^/]*\.json", name)]
            if not samples:
                raise StorageError(f"{location} has no samples; run inspect without --no-log-samples")
            header = "header.json" if "header.json" in names else "_journal/start.json"
            model = str(_member(stream, log, header)["eval"]["model"])
            for name in samples:
                sample = _member(stream, log, name)
                output, fault = sample.get("output") or {}, None
                if sample.get("error"):
                    reason = str(sample["error"].get("message", "")).strip()
                    fault = InputError("sample_failed", reason or "inspect gives no reason")
                choices = output.get("choices") or []
                reply = output.get("completion") if choices else None
                finish = _FINISH_REASONS.get(choices[0].get("stop_reason"), "stop") if choices else "stop"
                yield _row(f"{location.name}:{name}", sample.get("metadata"), model, reply, finish, fault)
    except (zipfile.BadZipFile, pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise StorageError(f"{location} is not a log of inspect ({error!r}); give a file that inspect wrote") from error


def _row(
    place: str, sample: Any, model: str, reply: str | None, finish_reason: str, fault: InputError | None
) -> FileRow:
    """Return the row of a sample from its fields."""
    if not isinstance(sample, dict) or not sample.keys() >= set(_FIELDS):
        return FileRow(place, {}, fault or _MISSING_FIELDS)
    row = {"qid": sample["id"], **{name: sample[name] for name in _FIELDS[1:]}}
    if reply is None:
        fault = fault or InputError("no_reply", "the model gave no reply")
    return FileRow(place, {**row, "model": model, "answer": reply, "finish_reason": finish_reason}, fault)


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
