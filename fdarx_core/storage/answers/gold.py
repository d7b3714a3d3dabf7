"""Gold statements on questions, in MedLFQA's fields: what an answer must have, and what is nice to have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fdarx_core.records import CheckedAnswer, Reject
from fdarx_core.storage.answers.rows import normal, nothing_in, reject, text_at, texts_at
from fdarx_core.storage.location import Location
from fdarx_core.storage.rows_file import check_rows_file, read_rows

STAGE = "gold"
_NEEDED = "Question, and Must_have, Nice_to_have or Free_form_answer"


@dataclass(frozen=True, slots=True)
class GoldRow:
    """What is known of one question. `reference` is an expert's answer, "" where there is none."""

    question: str
    dataset: str
    reference: str
    must_have: list[str]
    nice_to_have: list[str]


@dataclass(slots=True)
class Gold:
    """Gold by question (`normal`), the names of its files, and the rows that are none."""

    rows: Mapping[str, GoldRow] = field(default_factory=dict)
    datasets: Sequence[str] = ()
    rejects: Sequence[Reject] = ()

    def added_to(self, answer: CheckedAnswer) -> CheckedAnswer:
        """The answer with the statements on its question, if any; the expert's answer is one more reference."""
        known = self.rows.get(normal(answer.question))
        if known is None:
            return answer
        more = [known.reference] if known.reference and known.reference not in answer.references else []
        return replace(
            answer,
            dataset=answer.dataset or known.dataset,
            references=[*answer.references, *more],
            must_have=known.must_have,
            nice_to_have=known.nice_to_have,
        )

    def of_file(self, name: str) -> tuple[str, str]:
        """Dataset and model that a file of answers is named after, DATASET.MODEL where DATASET is a file of gold."""
        for dataset in self.datasets:
            if name.startswith(f"{dataset}."):
                return dataset, name.removeprefix(f"{dataset}.")
        return "", name


def read_gold(addresses: Sequence[str]) -> Gold:
    """Files with MedLFQA's fields (Question, Free_form_answer, Must_have, Nice_to_have, in any case of letters).

    A dataset is named after its file. Of two rows on the same question the first stands, the other is a reject. Raises
    `StorageError` where a file can't be read, `ValueError` where none holds a usable row. Source: MedLFQA (Jeong et al.
    2024), FAS §4.
    """
    rows: dict[str, GoldRow] = {}
    rejects: list[Reject] = []
    names: list[str] = []
    for location in map(Location, addresses):
        check_rows_file(location, "--gold")
        names.append(location.name.removesuffix(location.suffix))
        for one in _of_file(location, names[-1], rows):
            if isinstance(one, Reject):
                rejects.append(one)
            else:
                rows[normal(one.question)] = one
    if addresses and not rows:
        nothing_in(", ".join(addresses), "gold", _NEEDED, rejects)
    return Gold(rows, names, rejects)


def _of_file(location: Location, dataset: str, known: Mapping[str, GoldRow]) -> Iterator[GoldRow | Reject]:
    for place, row, fault in read_rows(location, _NEEDED):
        lower = {str(key).lower(): value for key, value in row.items()}
        try:
            one = _gold(lower, fault, dataset)
            if normal(one.question) in known:
                raise ValueError("duplicate: an earlier row has the same question")
            yield one
        except ValueError as error:
            yield reject(error, STAGE, text_at(lower, "id"), place)


def _gold(row: dict[str, Any], fault: str, dataset: str) -> GoldRow:
    """Raises `ValueError("reason: detail")`."""
    if fault:
        raise ValueError(fault)
    question, reference = text_at(row, "question"), text_at(row, "free_form_answer")
    if not normal(question):
        raise ValueError("no_question: the key Question holds no text")
    must_have, nice_to_have = texts_at(row, "must_have"), texts_at(row, "nice_to_have")
    if not (reference or must_have or nice_to_have):
        raise ValueError("no_gold: Must_have, Nice_to_have and Free_form_answer hold no text")
    return GoldRow(question, dataset, reference, must_have, nice_to_have)
