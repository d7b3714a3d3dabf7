"""Wrong answers of an evaluation: counted, sampled by a seed, explained, and written as JSON for the page's script.

An explanation names the fault, whether the evidence was in the prompt, and the citations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fdarx_core.evaluation.gold import PassageKey, gold_keys, passage_keys
from fdarx_core.evaluation.scoring import FAULTS
from fdarx_core.evaluation.tables import BASELINE
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Equivalence, Grade, Passage, Prediction, QuestionAnswer
from fdarx_core.report.names import GROUP_NAMES, PAGE_WORDS, setting_name
from fdarx_core.report.page_engine import in_turn, readable, template_macros
from fdarx_core.report.samples import SeededSample
from fdarx_core.storage import Location, RunDirectory, read_table, read_where

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A wrong answer: its kind, the prediction, and the grade if it has one."""

    kind: str
    prediction: Prediction
    grade: Grade | None


@dataclass(slots=True)
class AnswerSources:
    """Questions by id, passages by label and index, and for each question its equivalent passages.

    `equivalents` gives for each passage the gold passage that states the same, and the reason.
    """

    questions: dict[str, QuestionAnswer] = field(default_factory=dict)
    passages: dict[PassageKey, Passage] = field(default_factory=dict)
    equivalents: dict[str, dict[int, tuple[int, str]]] = field(default_factory=lambda: defaultdict(dict))

    def equivalent_gold(self, question: QuestionAnswer, place: PassageKey) -> tuple[int, str] | None:
        """Return the gold passage that states the same as this one, and the reason."""
        return self.equivalents.get(question.id, {}).get(place[1]) if place[0] == question.set_id else None

    def gold_among(self, question: QuestionAnswer, places: Sequence[PassageKey]) -> int:
        """Return how many gold passages are among the places, themselves or by a passage that states the same."""
        alike = {same[0] for place in places if (same := self.equivalent_gold(question, place))}
        return sum(place in places or place[1] in alike for place in gold_keys(question))


def read_sources(run: RunDirectory, predictions: Sequence[Prediction]) -> AnswerSources:
    """Read the questions and passages that these predictions need, part by part."""
    sources = AnswerSources()
    asked = {one.question_id for one in predictions}
    for question in _read_matching(run, "questions", "id", asked, QuestionAnswer):
        sources.questions[question.id] = question
    for one in _read_matching(run, "equivalences", "question_id", asked, Equivalence):
        for gold, member, why in zip(one.gold, one.members, one.why, strict=True):
            sources.equivalents[one.question_id].setdefault(member, (gold, why))
    needed = {place for one in predictions for place in cited_places(one)}
    needed |= {place for question in sources.questions.values() for place in gold_keys(question)}
    for passage in _read_matching(run, "passages", "set_id", {set_id for set_id, _ in needed}, Passage):
        place = (passage.set_id, passage.doc_chunk_index)
        if place in needed:
            sources.passages[place] = passage
    return sources


def cited_places(prediction: Prediction) -> list[PassageKey]:
    """Return the cited passages in the order of the citations."""
    return passage_keys(prediction.set_id, prediction.cited, prediction.cited_set_ids)


def prompt_passages(prediction: Prediction) -> list[PassageKey]:
    """Return the passages of the prompt in its order."""
    return passage_keys(prediction.set_id, prediction.shown, prediction.shown_set_ids)


def _read_matching(
    run: RunDirectory, kind: str, column: str, wanted: Collection[str], record: type[Record]
) -> Iterator[Record]:
    for part in run.parts(kind):
        yield from read_where(part, column, wanted, record)


EVIDENCE = PAGE_WORDS["evidence_shown"]
"""Whether the evidence was in the prompt, as the filter of the page names it."""

_ANSWERABLE_FAULTS = ("incorrect", "not_attempted", "false_refusal")
"""The faults in answers to answerable questions; other kinds do not show how passages were read."""


def _worded(macro: str, *about: Any) -> str:
    """Return the sentences of a macro of the template."""
    return " ".join(str(getattr(template_macros("wrong_answers.txt.j2"), macro)(*about)).split())


def classify_evidence(wrong: WrongAnswer, question: QuestionAnswer, sources: AnswerSources) -> tuple[str, str]:
    """Return a key of `EVIDENCE`, and a sentence about this answer, "" if there is nothing to say."""
    prediction, gold = wrong.prediction, gold_keys(question)
    if question.type == "refusal":
        return "unanswerable", ""
    if prediction.setting == "closed_book":
        return "memory", "No passage was shown: the model had only its memory."
    if wrong.kind not in _ANSWERABLE_FAULTS or not prediction.shown or not gold:
        return "unknown", ""
    shown = prompt_passages(prediction)
    found = sources.gold_among(question, shown)
    key = "shown" if found == len(gold) else "partly" if found else "missing"
    alike = found - sum(place in shown for place in gold)
    return key, _worded("evidence", key, wrong, len(gold), found, alike)


def asks_for_citations(setting: str) -> bool:
    """Return whether a setting asks for citations; settings that the user named may."""
    return setting not in ("closed_book", "oracle")


def citation_note(prediction: Prediction, question: QuestionAnswer, sources: AnswerSources) -> str:
    """Return a sentence that counts the citations, "" if none were asked for or there is no answer."""
    if prediction.outcome != "answered" or not asks_for_citations(prediction.setting):
        return ""
    cited = cited_places(prediction)
    marks = [citation_mark(question, key, sources)[0] for key in cited]
    found = sources.gold_among(question, cited)
    return _worded("citations", marks, prediction.cited_unknown, len(gold_keys(question)), found)


def citation_mark(question: QuestionAnswer, place: PassageKey, sources: AnswerSources) -> tuple[str, str]:
    """Return gold, same or "" for a cited passage, with the words for it."""
    if place in gold_keys(question):
        return "gold", "gold"
    if replaced := sources.equivalent_gold(question, place):
        return "same", f"states the same as PASSAGE_{replaced[0]:04d} ({readable(replaced[1])})"
    return "", "not gold"


def explain(wrong: WrongAnswer, sources: AnswerSources) -> dict[str, Any]:
    """Explain a wrong answer to a reader who sees the question, both answers and the passages.

    Returns:
        `finding` says what is wrong and `detail` what the judge said, or why there is no answer; `evidence` is a key of
        `EVIDENCE`; `notes` are sentences on the passages of the prompt and the citations.
    """
    question = sources.questions[wrong.prediction.question_id]
    evidence, shown = classify_evidence(wrong, question, sources)
    notes = [shown, citation_note(wrong.prediction, question, sources)]
    reason = reason_of(wrong)
    return {
        "finding": _worded("finding", wrong, question, reason, FAULTS.get(reason, readable(reason))),
        "detail": _detail(wrong),
        "evidence": evidence,
        "notes": [note for note in notes if note],
    }


_LEADS = PAGE_WORDS["detail_leads"]
"""The words before a detail of the baseline grader, by its reason."""


def _detail(wrong: WrongAnswer) -> str:
    if wrong.kind in ("hallucinated", "false_refusal"):
        return ""
    detail = wrong.grade.detail if wrong.grade else ""
    if wrong.grade and detail and wrong.grade.judge == BASELINE:
        return f"{_LEADS.get(wrong.grade.reason, '')}{detail}"
    return f"“{detail}”" if detail else readable(wrong.prediction.reason)


def reason_of(wrong: WrongAnswer) -> str:
    """Return the reason to filter by: that of the judge, or of a missing or unreadable reply; "" without one."""
    if wrong.kind in ("failed", "unparsed"):
        return wrong.prediction.reason
    return "" if wrong.grade is None or wrong.grade.reason == "unnamed" else wrong.grade.reason


KINDS = PAGE_WORDS["wrong_answers"]
"""The kinds of wrong answers, as the page names them."""

NO_VERDICT = frozenset({"unparsed", "unscored", "failed"})
"""Kinds that are in no accuracy, because they do not show how good an answer is."""

PER_CELL = 40
IN_ALL = 600
_ALIKE = {"failed": 4, "unscored": 10}
"""Fewer of the kinds whose answers differ little."""
_MEMORY_ALIKE = 10
"""Closed-book refusals of a model, which differ least."""

CellName = tuple[str, str, str]
"""Model, setting, retriever."""
Spotted = tuple[str, str, str, str]
"""Kind, model, part and prediction id of a wrong answer, which is read only if it is shown."""


def kind_of(question_type: str, outcome: str, grade: str) -> str | None:
    """Return a key of `KINDS`, or None for a right answer; `grade` is "" where there is none."""
    if outcome in ("failed", "unparsed"):
        return outcome
    if question_type == "refusal":
        return "hallucinated" if outcome == "answered" else None
    if outcome == "refused":
        return "false_refusal"
    return None if grade == "correct" else grade or "unscored"


def collect_wrong(
    run: RunDirectory, models: Iterable[str], types: Mapping[str, str], seed: int
) -> tuple[Counter[tuple[CellName, str]], list[WrongAnswer]]:
    """Count the wrong answers by cell and kind, and pick those to show.

    Answers are picked by a hash of seed and id: at most 40 of a cell, from each kind in turn, and 600 in all, from each
    cell in turn. Those without a verdict come last. One part of the run is in memory at a time.

    Args:
        run: the evaluation.
        models: the models.
        types: the type of each question, by its id.
        seed: fixes the sample.
    """
    picks = {kind: SeededSample[Spotted](_ALIKE.get(kind, PER_CELL), seed) for kind in KINDS}
    counts: Counter[tuple[CellName, str]] = Counter()
    for model in models:
        for part in run.parts(f"predictions/{model}"):
            for cell, kind, row_id in _spot(run, model, part, types):
                counts[cell, kind] += 1
                spotted = (kind, model, part.name, row_id)
                picks[kind].offer(cell, row_id, lambda spotted=spotted: spotted)  # type: ignore[misc]
    cells = sorted({cell for cell, _ in counts})
    most = {("closed_book", "false_refusal"): _MEMORY_ALIKE}
    shares = [
        [*in_turn([picks[kind].of(cell)[: most.get((cell[1], kind), PER_CELL)] for kind in KINDS])] for cell in cells
    ]
    picked = [*in_turn([share[:PER_CELL] for share in shares])][:IN_ALL]
    return counts, _read(run, sorted(picked, key=lambda one: one[0] in NO_VERDICT))


def _spot(
    run: RunDirectory, model: str, part: Location, types: Mapping[str, str]
) -> Iterator[tuple[CellName, str, str]]:
    """Yield cell, kind and id of each wrong answer of a part."""
    verdicts = {}
    if (graded := run.file(f"grades/{model}/{part.name}")).exists():
        grades = read_table(graded, ["prediction_id", "outcome"])
        verdicts = dict(zip(*(column.to_pylist() for column in grades.columns), strict=True))
    rows = read_table(part, ["id", "question_id", "outcome", "setting", "retriever"])
    for row_id, question_id, outcome, *place in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        kind = kind_of(types[question_id], outcome, verdicts.get(row_id, ""))
        if kind is not None:
            yield (model, place[0], place[1]), kind, row_id


def _read(run: RunDirectory, picked: Sequence[Spotted]) -> list[WrongAnswer]:
    """Read the picked answers and their grades, in the given order."""
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for _, model, part, row_id in picked:
        ids[model, part].append(row_id)
    predictions: dict[str, Prediction] = {}
    grades: dict[str, Grade] = {}
    for (model, name), wanted in ids.items():
        said = read_where(run.file(f"predictions/{model}/{name}"), "id", wanted, Prediction)
        predictions |= {prediction.id: prediction for prediction in said}
        if (graded := run.file(f"grades/{model}/{name}")).exists():
            judged = read_where(graded, "prediction_id", wanted, Grade)
            grades |= {grade.prediction_id: grade for grade in judged}
    return [WrongAnswer(kind, predictions[row_id], grades.get(row_id)) for kind, *_, row_id in picked]


BUDGET = 6_000_000
"""Characters of all texts of a page; plotly.js adds 4.9 million."""
CITED_SHOWN = 12
"""Cited passages that are shown with their text."""


class WrongAnswerPayload:
    """Collects wrong answers up to the budget. `payload` is the JSON for the script of the page."""

    def __init__(self, sources: AnswerSources) -> None:
        self._sources = sources
        self._left = BUDGET
        self._questions: dict[str, int] = {}
        self._passages: dict[PassageKey, int] = {}
        self.payload: dict[str, list[Any]] = {"questions": [], "passages": [], "items": []}

    def add(self, wrong: WrongAnswer) -> None:
        """Add a wrong answer, unless its texts exceed the budget."""
        question = self._sources.questions[wrong.prediction.question_id]
        gold, cited = gold_keys(question), cited_places(wrong.prediction)[:CITED_SHOWN]
        need = len(wrong.prediction.answer) + len(wrong.prediction.text) + self._weight(question, [*gold, *cited])
        if need <= self._left:
            self._left -= need
            self.payload["items"].append(self._item(wrong, question, explain(wrong, self._sources)))

    def _weight(self, question: QuestionAnswer, places: Sequence[PassageKey]) -> int:
        fresh = {place for place in self._at_hand(places) if place not in self._passages}
        return 600 + len(question.question) + sum(len(self._sources.passages[place].text) for place in fresh)

    def _item(self, wrong: WrongAnswer, question: QuestionAnswer, why: Mapping[str, Any]) -> dict[str, Any]:
        said = wrong.prediction
        shown = prompt_passages(said)
        return {
            "id": said.id,
            "model": said.model,
            "setting": setting_name(said.setting, said.retriever),
            "type": GROUP_NAMES.get(question.type, question.type),
            "kind": KINDS[wrong.kind],
            "reason": readable(reason_of(wrong)),
            "evidence": EVIDENCE[why["evidence"]],
            "question": self._question(question),
            "answer": said.answer if said.outcome == "answered" else said.text,
            "finding": why["finding"],
            "detail": why["detail"],
            "notes": why["notes"],
            "shown": [place in shown for place in self._at_hand(gold_keys(question))] if shown else None,
            "cited": self._cited(wrong, question),
        }

    def _cited(self, wrong: WrongAnswer, question: QuestionAnswer) -> dict[str, Any] | None:
        """Return the cited passages with their marks, and the number of others; None if none were asked for."""
        if not asks_for_citations(wrong.prediction.setting):
            return None
        cited = cited_places(wrong.prediction)
        listed = self._at_hand(cited[:CITED_SHOWN])
        passages = [[self._passage(place), *citation_mark(question, place, self._sources)] for place in listed]
        return {"passages": passages, "more": len(cited) - len(listed)}

    def _at_hand(self, places: Sequence[PassageKey]) -> list[PassageKey]:
        return [place for place in places if place in self._sources.passages]

    def _question(self, question: QuestionAnswer) -> int:
        if question.id not in self._questions:
            self._questions[question.id] = len(self._questions)
            gold = [self._passage(place) for place in self._at_hand(gold_keys(question))]
            self.payload["questions"].append(
                {
                    "id": question.id,
                    "set_id": question.set_id,
                    "drug": question.drug_name,
                    "category": question.category,
                    "text": question.question,
                    "gold": question.answer,
                    "passages": gold,
                }
            )
        return self._questions[question.id]

    def _passage(self, place: PassageKey) -> int:
        if place not in self._passages:
            self._passages[place] = len(self._passages)
            passage = self._sources.passages[place]
            self.payload["passages"].append([passage.marker, _section(passage), passage.text, passage.set_id])
        return self._passages[place]


def _section(passage: Passage) -> str:
    title = passage.section_path or passage.section_title or SECTION_NAMES.get(passage.core_code, "untitled section")
    return f"{passage.section_number} {title}" if passage.section_number else title
