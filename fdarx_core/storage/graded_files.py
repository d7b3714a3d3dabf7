"""Files with questions and answers to grade, as Ragas, promptfoo and DeepEval write them, or with named columns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import orjson

from fdarx_core.records import Passage, QuestionAnswer, Reject, content_id
from fdarx_core.records.question_types import FACTUAL
from fdarx_core.storage.benchmark_reader import Benchmark, BenchmarkItem
from fdarx_core.storage.errors import InputError, StorageError
from fdarx_core.storage.imported_predictions import ImportedPrediction, model_name, normalized_question
from fdarx_core.storage.location import Location
from fdarx_core.storage.tables import FileRow, check_rows_file, no_usable_row, parse_rows, read_rows, text_at, texts_at

COLUMNS: dict[str, tuple[str, ...]] = {
    "question": ("question", "user_input", "input", "query", "prompt"),
    "answer": ("response.output", "answer", "response", "actual_output", "output", "prediction", "completion"),
    "reference": ("reference", "references", "ground_truth", "ground_truths", "expected_output", "expected",
                  "expected_answer", "reference_answer", "correct_answer", "gold_answer"),
    "context": ("retrieved_contexts", "retrieval_context", "contexts", "context", "documents", "passages"),
    "id": ("id", "qid", "question_id"),
    "model_name": ("model", "model_name", "provider"),
    "drug": ("drug", "drug_name"),
}  # fmt: skip
"""The usual names of columns, the preferred first. Case, spaces and "_" do not count: actualOutput is actual_output."""

_LISTS = ("testRunData", "results", "test_results", "test_cases", "testCases", "goldens", "samples", "data")
"""The keys of a JSON file under which rows are: promptfoo nests results twice, DeepEval writes tests."""
_WHOLE_ANSWERS = ("equals", "factuality", "model-graded-factuality", "similar")
"""The assertions of promptfoo whose value is a whole answer."""
_OUTPUT_COLUMN = re.compile(r"\[([^\]]+)\] ?(.*)", re.DOTALL)
_NEEDED = "question, answer, and reference or context"


def read_graded_file(address: str, named: Mapping[str, str]) -> tuple[Benchmark, list[ImportedPrediction]]:
    """Read the answers in a `.csv`, `.jsonl`, `.json` or `.parquet` file, and a benchmark of their questions.

    A row needs a question, an answer, and a reference or contexts; others are rejects of the benchmark. Rows with the
    same id, or the same question and reference, are one question, whose passages are the contexts of its answers; a
    model's further answers to it are repeats, to questions of their own that belong to the same item. An answer is
    given in the setting reference, in given_context, or in both. `named` are the columns without a usual name, by the
    key in `COLUMNS`. Raises StorageError for a file, or columns, by which nothing can be graded.
    """
    location = Location(address)
    check_rows_file(location, "fdarx grade")
    rows = [flat for row in read_rows(location, _NEEDED, within=_LISTS) for flat in _flat_rows(row)]
    if not any(row.row for row in rows):
        faulty = [row for row in parse_rows(rows, dict, stage="intake") if isinstance(row, Reject)]
        raise StorageError(no_usable_row(address, "answer to grade", _NEEDED, faulty))
    rows.sort(key=lambda row: str(row.row.get("prompt.index", "")))  # promptfoo writes first what ended first
    found = dict.fromkeys(key for row in rows for key in row.row)
    parser = _Parser(find_columns(location.name, list(found), named), location.name.removesuffix(location.suffix))
    parsed = parse_rows(rows, parser.parse, stage="intake", id_keys=parser.columns["id"])
    rejects = [row for row in parsed if isinstance(row, Reject)]
    if not parser.given:
        raise StorageError(no_usable_row(address, "answer to grade", _NEEDED, rejects))
    items, given = [], list(chain.from_iterable(parser.given.values()))
    for id, (question, *repeats) in sorted(parser.questions.items()):
        texts = parser.contexts[id].items()
        passages = [Passage(id, at, at, "", "", "", "Given context", "", text) for text, at in texts]
        items.append(BenchmarkItem.of(id, question.drug_name, False, passages, [question, *repeats]))
    count = sum(map(len, parser.questions.values()))
    about = {"name": location.name, "kind": "graded_file", "address": address, "split": "all", "rows": len(rows)}
    about |= {"labels": len(items), "questions": {FACTUAL.name: count}, "rejected": len(rejects)}
    about["repeats"] = sum(id not in parser.questions for id, _ in parser.given)
    return Benchmark({**about, "digest": content_id(repr(items), repr(given))}, lambda: iter(items), rejects), given


def find_columns(file: str, found: Sequence[str], named: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the columns for each key in `COLUMNS`, the preferred first: the named one, or those with usual names.

    Raises StorageError for a named column that is not `found`, and where what grading needs has none.
    """
    options = {key: f"--{key.replace('_', '-')}" for key in COLUMNS}
    has = f"{file} has the columns {', '.join(found) or '(none)'}"
    if wrong := [key for key, name in named.items() if name not in found]:
        raise StorageError(f"{options[wrong[0]]} {named[wrong[0]]}: {has}; name one of them")
    plain = {re.sub(r"[\s_]", "", column).lower(): column for column in reversed(found)}
    usual = {
        key: [plain[name] for one in names if (name := one.replace("_", "")) in plain] for key, names in COLUMNS.items()
    }
    columns = {**usual, **{key: [name] for key, name in named.items()}}
    for needed in (("question",), ("answer",), ("reference", "context")):
        if not any(columns[key] for key in needed):
            raise StorageError(f"{has}, none for {' or '.join(needed)}; name columns by {', '.join(options.values())}")
    return columns


@dataclass(slots=True)
class _Parser:
    """Parses rows: `given` are answers by question id and model, `questions` those of each id, of which the second is
    the first repeat, and `contexts` the places of each question's contexts."""

    columns: Mapping[str, Sequence[str]]
    file: str
    given: dict[tuple[str, str], list[ImportedPrediction]] = field(default_factory=dict)
    questions: dict[str, list[QuestionAnswer]] = field(default_factory=dict)
    contexts: dict[str, dict[str, int]] = field(default_factory=dict)
    prompts: dict[str, dict[str, int]] = field(default_factory=dict)

    def parse(self, row: dict[str, Any]) -> None:
        """Add the answer of a row. Raises InputError for one that cannot be graded."""
        columns = self.columns
        text, drug = text_at(row, *columns["question"]), text_at(row, *columns["drug"])
        if not normalized_question(text):
            raise InputError("no_question", f"no text under {', '.join(columns['question'])}")
        answer = next((row[name] for name in columns["answer"] if row.get(name) is not None), None)
        if answer is None:
            raise InputError("no_answer", str(row.get("error") or f"no text under {', '.join(columns['answer'])}"))
        listed = {name: _unwrapped(row.get(name)) for key in ("reference", "context") for name in columns[key]}
        reference, contexts = "\n".join(texts_at(listed, *columns["reference"])), texts_at(listed, *columns["context"])
        if not (reference or contexts):
            raise InputError("no_reference_or_context", f"no text under {', '.join(listed)}")
        id = text_at(row, *columns["id"]) or content_id("graded", normalized_question(text), drug, reference)
        question = QuestionAnswer(id, FACTUAL.name, "factual", "", "", id, drug, text, reference)
        known = self.questions.setdefault(id, [question])
        if (normalized_question(known[0].question), known[0].answer) != (normalized_question(text), reference):
            raise InputError("other_question", f"an earlier row has the id {id} and another question or reference")
        model = self._model(row)
        unanswered = next((one for one in known if (one.id, model) not in self.given), None)
        if unanswered is None:
            known.append(unanswered := replace(question, id=f"{id}~{len(known) + 1}"))
        places = self.contexts.setdefault(id, {})
        shown = [places.setdefault(context, len(places)) for context in contexts]
        answer = answer if isinstance(answer, str) else orjson.dumps(answer).decode()
        one = ImportedPrediction(unanswered.id, model, "reference", "", answer, cited=[], citable=[])
        by_context = replace(one, setting="given_context", shown=shown)
        self.given[one.question_id, model] = [one] * bool(reference) + [by_context] * bool(contexts)

    def _model(self, row: dict[str, Any]) -> str:
        """Return the name of the model; of its second prompt in a file of promptfoo, with " 2" after it."""
        name = text_at(row, *self.columns["model_name"]) or self.file
        prompts = self.prompts.setdefault(name, {})
        place = prompts.setdefault(text_at(row, "prompt.label"), len(prompts) + 1)
        return model_name(name if place == 1 else f"{name} {place}")


def _unwrapped(value: Any) -> Any:
    """Return the list that a cell of a CSV file holds as Python or JSON writes it, and numbers as texts."""
    if isinstance(value, str) and re.fullmatch(r"\s*\[.*\]\s*", value, re.DOTALL):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            listed = ast.literal_eval(value.strip())
            return listed if all(isinstance(one, str) for one in listed) else value
    return str(value) if type(value) in (int, float) else value


def _flat_rows(line: FileRow) -> Iterator[FileRow]:
    """Yield the rows of a line: of promptfoo's JSON one with its parts side by side, of its CSV one for each output."""
    row = line.row
    outputs = {name: found for name in row if (found := _OUTPUT_COLUMN.fullmatch(name))}
    if isinstance(row.get("vars"), dict):
        yield replace(line, row=_promptfoo_result(row))
    elif not outputs:
        yield line
    after = dict(zip(row, [*row, ""][1:], strict=True))  # the status of an output is in the next column
    rest = {name: value for name, value in row.items() if name not in outputs}
    for name, found in outputs.items():
        status = row[after[name]] if after[name].startswith("Status") else None
        text = row[name] or ("the model failed" if status == "ERROR" else status and "")  # an answer may be empty
        column = "error" if status == "ERROR" else "response.output"
        about = {"provider": found[1], "prompt.label": found[2], column: text}
        yield replace(line, row={**rest, **about})


def _promptfoo_result(row: dict[str, Any]) -> dict[str, Any]:
    """Return variables, output and provider of a result, and the reference among its assertions."""

    def part(name: str, key: str) -> Any:
        return value.get(key) if isinstance(value := row.get(name), dict) else None

    checks = part("testCase", "assert")
    listed = [check for check in checks if isinstance(check, dict)] if isinstance(checks, list) else []
    answers = [check.get("value") for check in listed if check.get("type") in _WHOLE_ANSWERS]
    reference = next((value for value in answers if isinstance(value, str) and "{{" not in value), None)
    output, label = part("response", "output"), part("prompt", "label") or part("prompt", "raw")
    provider = part("provider", "label") or part("provider", "id") or row.get("provider")
    found = {"response.output": output, "error": row.get("error"), "provider": provider, "prompt.label": label}
    found["prompt.index"] = str(row.get("promptIdx")).zfill(9)
    return {**({"reference": reference} if reference else {}), **row["vars"], **found}
