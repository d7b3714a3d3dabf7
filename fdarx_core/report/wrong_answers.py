"""Wrong answers of an evaluation: counted, sampled by a seed, explained, and written as JSON for the page's script."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from fdarx_core.evaluation.gold import PassageKey, gold_keys, passage_keys
from fdarx_core.evaluation.paper_tables import BASELINE
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Equivalence, Grade, Passage, Prediction, QuestionAnswer, SettingProgress
from fdarx_core.report.page_engine import readable
from fdarx_core.report.samples import SeededSample
from fdarx_core.storage import Location, RunDirectory, read_table, read_where

SETTING_NAMES: dict[str, str] = {
    "closed_book": "Closed-book",
    "full_label": "Full label",
    "oracle": "Oracle",
    "retrieved": "Retrieved",
}
"""In the order in which the pages show settings; others follow as their users named them."""

SETTING_COLOURS: dict[str, str] = {"closed_book": "#8a8a94", "full_label": "#4477aa", "oracle": "#2f9c80"}
RETRIEVED_COLOURS = ("#d98b33", "#b35a9c", "#7f9f3f", "#c8553d", "#6a6fc4", "#3aa6c9", "#a07850")

GROUP_NAMES: dict[str, str] = {
    "factual": "Factual",
    "multihop": "Multi-hop",
    "refusal": "Refusal",
    "answerable": "Factual and multi-hop",
    "all": "All questions",
}

METRIC_NAMES: dict[str, str] = {
    "accuracy": "Accuracy",
    "false_refusal_rate": "False-refusal rate",
    "citation_f1": "Citation F1",
    "citation_f1_eq": "Citation F1, under equivalence",
    "refusal_f1": "Refusal F1",
    "recall_5": "recall@5",
    "eq_recall_5": "recall@5, under equivalence",
    "mrr": "MRR",
    "ndcg_10": "nDCG@10",
}

FAULT_MEANINGS: dict[str, str] = {
    "number_missing": "a number of the gold answer is missing",
    "number_contradicted": "a number differs from the gold answer's",
    "unsupported_number": "it states a number that the gold answer does not",
    "population_missing": "it leaves out patients whom the gold answer names",
    "unsupported_population": "it names patients whom the gold answer does not",
    "warning_missing": "a warning or contraindication of the gold answer is missing",
    "unsupported_warning": "it states a warning or contraindication that the gold answer does not",
    "polarity": "it affirms what the gold answer denies, or the reverse",
    "key_content_missing": "what matters in the gold answer is missing",
    "unsupported_content": "it says much that the gold answer does not",
    "abstained": "it claims nothing",
    "vague": "it only says where to look or whom to ask",
}
"""The judge's fixed names in words."""

STATUS_NAMES: dict[str, str] = {"done": "Done", "incomplete": "Incomplete", "skipped": "Skipped"}


def setting_name(setting: str, retriever: str = "") -> str:
    """ "Retrieved (bm25)"."""
    name = SETTING_NAMES.get(setting, setting)
    return f"{name} ({retriever})" if retriever else name


def setting_order(condition: tuple[str, str]) -> tuple[int, str, str]:
    """Sorts (setting, retriever) as the pages show them."""
    known = list(SETTING_NAMES)
    setting, retriever = condition
    return (known.index(setting) if setting in known else len(known), setting, retriever)


def condition_of(cell: SettingProgress) -> tuple[str, str]:
    """The (setting, retriever) of a cell."""
    return cell.setting, cell.retriever


def plural(number: int, one: str, more: str = "") -> str:
    """ "1 passage", "3 passages"."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


Record = TypeVar("Record")


@dataclass(slots=True)
class AnswerSources:
    """Questions by id; passages by label and index; for each question the gold passage that another stands for, why."""

    questions: dict[str, QuestionAnswer] = field(default_factory=dict)
    passages: dict[PassageKey, Passage] = field(default_factory=dict)
    equivalents: dict[str, dict[int, tuple[int, str]]] = field(default_factory=lambda: defaultdict(dict))

    def stands_for(self, question: QuestionAnswer, place: PassageKey) -> tuple[int, str] | None:
        """The gold passage that states the same as this one, and why that is held."""
        return self.equivalents.get(question.id, {}).get(place[1]) if place[0] == question.set_id else None


def read_sources(run: RunDirectory, predictions: Sequence[Prediction]) -> AnswerSources:
    """Reads the run part by part and keeps what these predictions need."""
    sources = AnswerSources()
    asked = {one.question_id for one in predictions}
    for question in _kept(run, "questions", "id", asked, QuestionAnswer):
        sources.questions[question.id] = question
    for one in _kept(run, "equivalences", "question_id", asked, Equivalence):
        for gold, member, why in zip(one.gold, one.members, one.why, strict=True):
            sources.equivalents[one.question_id].setdefault(member, (gold, why))
    needed = {place for one in predictions for place in cited_places(one)}
    needed |= {place for question in sources.questions.values() for place in gold_keys(question)}
    for passage in _kept(run, "passages", "set_id", {set_id for set_id, _ in needed}, Passage):
        place = (passage.set_id, passage.doc_chunk_index)
        if place in needed:
            sources.passages[place] = passage
    return sources


def cited_places(prediction: Prediction) -> list[PassageKey]:
    """The cited passages, in the order of their naming."""
    return passage_keys(prediction.set_id, prediction.cited, prediction.cited_set_ids)


def shown_places(prediction: Prediction) -> list[PassageKey]:
    """The passages that stood in the prompt, in its order."""
    return passage_keys(prediction.set_id, prediction.shown, prediction.shown_set_ids)


def _kept(run: RunDirectory, kind: str, column: str, wanted: Collection[str], record: type[Record]) -> Iterator[Record]:
    for part in run.parts(kind):
        yield from read_where(part, column, wanted, record)


KINDS: dict[str, str] = {
    "incorrect": "Incorrect answer",
    "not_attempted": "Answer that attempts nothing",
    "false_refusal": "False refusal",
    "hallucinated": "Answer to an unanswerable question",
    "unparsed": "Unparsed reply",
    "unscored": "Unscored answer",
    "failed": "No reply",
}
"""What can go wrong with a question, in the words of the page."""

NO_VERDICT = frozenset({"unparsed", "unscored", "failed"})
"""These are in no accuracy: they say nothing of how good an answer is."""

PER_CELL = 40
IN_ALL = 600
_ALIKE = {"failed": 4, "unscored": 10}
"""Fewer of those that differ little from one another."""
_MEMORY_ALIKE = 10
"""Refusals from memory of a model, which differ least."""

CellName = tuple[str, str, str]
"""Model, setting, retriever."""
Item = TypeVar("Item")
_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A prediction that went wrong, with its grade where it has one."""

    kind: str
    prediction: Prediction
    grade: Grade | None


@dataclass(slots=True)
class WrongAnswers:
    """All wrong answers counted by cell and kind, and those picked to be shown."""

    counts: Counter[tuple[CellName, str]] = field(default_factory=Counter)
    picked: list[WrongAnswer] = field(default_factory=list)


def kind_of(question_type: str, outcome: str, grade: str) -> str | None:
    """A name in `KINDS`, or None for what is right; `grade` is "" where there is none."""
    if outcome in ("failed", "unparsed"):
        return outcome
    if question_type == "refusal":
        return "hallucinated" if outcome == "answered" else None
    if outcome == "refused":
        return "false_refusal"
    return None if grade == "correct" else grade or "unscored"


def collect_wrong(run: RunDirectory, models: Iterable[str], types: Mapping[str, str], seed: int) -> WrongAnswers:
    """Reads the predictions and grades part by part; one part is in memory at a time. `types` is by question id.

    Picks by a hash of seed and id: at most 40 a cell, every kind in turn, and 600 in all, every cell in turn. Those
    without a verdict come last.
    """
    picks = {kind: SeededSample[_Spotted](_ALIKE.get(kind, PER_CELL), seed) for kind in KINDS}
    counts: Counter[tuple[CellName, str]] = Counter()
    for model in models:
        for part in run.parts(f"predictions/{model}"):
            for cell, kind, row_id in _spot(run, model, part, types):
                counts[cell, kind] += 1
                picks[kind].offer(_group(cell), row_id, partial(_Spotted, kind, model, part.name, row_id))
    cells = sorted({cell for cell, _ in counts})
    shares = [[*_in_turn([picks[kind].of(_group(cell))[: _most(cell, kind)] for kind in KINDS])] for cell in cells]
    shares = [share[:PER_CELL] for share in shares]
    picked = [*_in_turn(shares)][:IN_ALL]
    return WrongAnswers(counts, _read(run, sorted(picked, key=lambda one: one.kind in NO_VERDICT)))


def _most(cell: CellName, kind: str) -> int:
    return _MEMORY_ALIKE if cell[1] == "closed_book" and kind == "false_refusal" else PER_CELL


@dataclass(frozen=True, slots=True)
class _Spotted:
    """Where a wrong answer stands: it is read when it is sure to be shown."""

    kind: str
    model: str
    part: str
    prediction_id: str


def _spot(
    run: RunDirectory, model: str, part: Location, types: Mapping[str, str]
) -> Iterator[tuple[CellName, str, str]]:
    """Cell, kind and id of each wrong answer of a part."""
    verdicts = {}
    if (graded := run.file(f"grades/{model}/{part.name}")).exists():
        grades = read_table(graded, ["prediction_id", "outcome"])
        verdicts = dict(zip(*(column.to_pylist() for column in grades.columns), strict=True))
    rows = read_table(part, ["id", "question_id", "outcome", "setting", "retriever"])
    for row_id, question_id, outcome, *place in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        kind = kind_of(types[question_id], outcome, verdicts.get(row_id, ""))
        if kind is not None:
            yield (model, place[0], place[1]), kind, row_id


def _read(run: RunDirectory, picked: Sequence[_Spotted]) -> list[WrongAnswer]:
    """In the order given."""
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in picked:
        ids[one.model, one.part].append(one.prediction_id)
    predictions: dict[str, Prediction] = {}
    grades: dict[str, Grade] = {}
    for (model, name), wanted in ids.items():
        said = read_where(run.file(f"predictions/{model}/{name}"), "id", wanted, Prediction)
        predictions |= {prediction.id: prediction for prediction in said}
        if (graded := run.file(f"grades/{model}/{name}")).exists():
            judged = read_where(graded, "prediction_id", wanted, Grade)
            grades |= {grade.prediction_id: grade for grade in judged}
    return [WrongAnswer(one.kind, predictions[one.prediction_id], grades.get(one.prediction_id)) for one in picked]


def _group(cell: CellName) -> str:
    return "\x1f".join(cell)


def _in_turn(groups: Iterable[Sequence[Item]]) -> Iterator[Item]:
    """The first of each group, then the second of each, and so on."""
    for row in zip_longest(*groups, fillvalue=_NOTHING):
        yield from (item for item in row if item is not _NOTHING)


EVIDENCE: dict[str, str] = {
    "shown": "Gold shown: a reading failure",
    "partly": "Gold shown in part",
    "missing": "Gold not shown: a retrieval failure",
    "memory": "Nothing shown: from memory",
    "unanswerable": "The label has no answer",
    "unknown": "Not known",
}
"""Where the evidence was, in the words of the page's filter."""


_VERDICTS: dict[str, str] = {
    "incorrect": "the answer is wrong",
    "not_attempted": "it gives no answer",
    "false_refusal": "the model refused",
}
"""What wrong answers to answerable questions did instead; other kinds say nothing of how passages were read."""


def classify_evidence(wrong: WrongAnswer, question: QuestionAnswer, sources: AnswerSources) -> tuple[str, str]:
    """A name in `EVIDENCE`, and the sentence that says it of this answer, "" where there is none to say."""
    prediction, gold = wrong.prediction, gold_keys(question)
    if question.type == "refusal":
        return "unanswerable", ""
    if prediction.setting == "closed_book":
        return "memory", "No passage was shown: the model had only its memory."
    if wrong.kind not in _VERDICTS or not prediction.shown or not gold:
        return "unknown", ""
    shown = shown_places(prediction)
    alike = {stood[0] for place in shown if (stood := sources.stands_for(question, place))}
    strict = [place for place in gold if place in shown]
    found = [place for place in gold if place in shown or place[1] in alike]
    return _shown_sentence(wrong, len(gold), len(strict), len(found))


def _shown_sentence(wrong: WrongAnswer, gold: int, strict: int, found: int) -> tuple[str, str]:
    where, instead = _field(wrong.prediction), _VERDICTS[wrong.kind]
    if wrong.prediction.setting == "oracle" and found == gold:
        return "shown", f"Reading failure: {_every(gold)} stood in the prompt, and no other, yet {instead}."
    alike = f" ({found - strict} by a passage that states the same)" if found > strict else ""
    if found == gold:
        return "shown", f"Reading failure: {_every(gold)}{alike} stood {where}, yet {instead}."
    if found:
        return "partly", f"Retrieval failure in part: {found} of {gold} gold passages{alike} stood {where}."
    none_of_them = "the gold passage did not stand" if gold == 1 else f"none of the {gold} gold passages stood"
    fair = " Going by what was shown, the refusal was right." if wrong.kind == "false_refusal" else ""
    return "missing", f"Retrieval failure: {none_of_them} {where}.{fair}"


def _every(gold: int) -> str:
    return {1: "the gold passage", 2: "both gold passages"}.get(gold, f"all {gold} gold passages")


def _field(prediction: Prediction) -> str:
    shown = plural(len(prediction.shown), "passage")
    cuts = f"; {prediction.cuts:,} more were left out or cut" if prediction.cuts else ""
    return f"among the {shown} shown{cuts}"


def asks_for_citations(setting: str) -> bool:
    """Settings named by the user may."""
    return setting not in ("closed_book", "oracle")


def citation_note(prediction: Prediction, question: QuestionAnswer, sources: AnswerSources) -> str:
    """The sentence that counts an answer's citations, "" where none were asked for or nothing was answered."""
    if prediction.outcome != "answered" or not asks_for_citations(prediction.setting):
        return ""
    strange = plural(prediction.cited_unknown, "passage")
    unknown = f" It also names {strange} that it was not shown." if prediction.cited_unknown else ""
    if not prediction.cited:
        return f"It cites no passage.{unknown}"
    marks = [citation_mark(question, key, sources)[0] for key in cited_places(prediction)]
    same = marks.count("same")
    counts = [
        (marks.count("gold"), "gold"),
        (same, "that states the same" if same == 1 else "that state the same"),
        (marks.count(""), "other"),
    ]
    listed = ", ".join(f"{number} {name}" for number, name in counts if number)
    return f"It cites {plural(len(marks), 'passage')}: {listed}.{_left_out(prediction, question, sources)}{unknown}"


def _left_out(prediction: Prediction, question: QuestionAnswer, sources: AnswerSources) -> str:
    """What the citations lack of the gold passages, "" for nothing."""
    gold, cited = gold_keys(question), cited_places(prediction)
    alike = {stood[0] for place in cited if (stood := sources.stands_for(question, place))}
    found = sum(place in cited or place[1] in alike for place in gold)
    if not gold or found == len(gold):
        return ""
    if not found:
        return " The answer rests on another place than the gold answer does."
    lost = len(gold) - found
    return f" {lost} of the {len(gold)} gold passages {'is' if lost == 1 else 'are'} not cited."


def citation_mark(question: QuestionAnswer, place: PassageKey, sources: AnswerSources) -> tuple[str, str]:
    """gold, same or "" for a cited passage, with the words that say it."""
    if place in gold_keys(question):
        return "gold", "gold"
    if stood := sources.stands_for(question, place):
        return "same", f"states the same as PASSAGE_{stood[0]:04d} ({readable(stood[1])})"
    return "", "not gold"


@dataclass(frozen=True, slots=True)
class Explanation:
    """`finding` says what is wrong, `detail` what the judge said, or why there is no answer.

    `evidence` is a name in `EVIDENCE`; `notes` are whole sentences on what was shown and what was cited.
    """

    finding: str
    detail: str
    evidence: str
    notes: list[str]


def explain(wrong: WrongAnswer, sources: AnswerSources) -> Explanation:
    """For a reviewer who has the question, both answers and the passages before them."""
    question = sources.questions[wrong.prediction.question_id]
    evidence, shown = classify_evidence(wrong, question, sources)
    notes = [shown, citation_note(wrong.prediction, question, sources)]
    return Explanation(
        _FINDINGS[wrong.kind](wrong, question), _detail(wrong), evidence, [note for note in notes if note]
    )


_LEADS = {
    "number_missing": "Missing: ",
    "population_missing": "Missing: ",
    "warning_missing": "Missing: ",
    "key_content_missing": "Missing: ",
    "abstained": "Missing: ",
    "vague": "Missing: ",
    "unsupported_number": "Not in the gold answer: ",
    "unsupported_population": "Not in the gold answer: ",
    "unsupported_warning": "Not in the gold answer: ",
    "polarity": "The other way round: ",
}
"""What the details of the baseline grader are, by its reason."""


def _detail(wrong: WrongAnswer) -> str:
    if wrong.kind in ("hallucinated", "false_refusal"):
        return ""
    said = wrong.grade.detail if wrong.grade else ""
    if wrong.grade and said and wrong.grade.judge == BASELINE:
        return f"{_LEADS.get(wrong.grade.reason, '')}{said}"
    return f"“{said}”" if said else readable(wrong.prediction.reason)


def reason_of(wrong: WrongAnswer) -> str:
    """The fixed name to filter by: the judge's, or why there is no reply or none that can be read; "" without one."""
    if wrong.kind in ("failed", "unparsed"):
        return wrong.prediction.reason
    return "" if wrong.grade is None or wrong.grade.reason == "unnamed" else wrong.grade.reason


def _judged(wrong: WrongAnswer, found: str) -> str:
    if wrong.grade is None:
        return f"Not graded; counted as {found}."
    reason = reason_of(wrong)
    meaning = f": {FAULT_MEANINGS.get(reason, readable(reason))}" if reason else ""
    return f"{_judge(wrong.grade.judge)} found it {found}{meaning}."


def _judge(name: str) -> str:
    named = {BASELINE: "The baseline grader, which goes by rules,", "rule": "A fixed rule", "": "The judge"}
    return named.get(name, f"The judge {name}")


def _incorrect(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    return _judged(wrong, "incorrect")


def _not_attempted(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    return _judged(wrong, "not to attempt an answer")


def _false_refusal(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    if wrong.prediction.setting == "closed_book":
        return "The model declined to answer from memory."
    return "The model said that there is no answer, but the label holds one."


def _hallucinated(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    about = f" It asks about “{question.entity}”, which the label does not mention." if question.entity else ""
    return f"The label has no answer to this question, so the right reply is to say so; the model answered.{about}"


def _unparsed(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    return "No answer could be read off the reply."


def _unscored(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    reason = f": {readable(reason_of(wrong))}" if reason_of(wrong) else ""
    return f"No verdict was reached{reason}. That says nothing of the answer; it is counted apart."


def _failed(wrong: WrongAnswer, question: QuestionAnswer) -> str:
    return "The model gave no reply. That says nothing of its answers; it is counted apart."


_FINDINGS: dict[str, Callable[[WrongAnswer, QuestionAnswer], str]] = {
    "incorrect": _incorrect,
    "not_attempted": _not_attempted,
    "false_refusal": _false_refusal,
    "hallucinated": _hallucinated,
    "unparsed": _unparsed,
    "unscored": _unscored,
    "failed": _failed,
}


BUDGET = 6_000_000
"""Characters of all texts together; plotly.js takes 4.9 million more of a page."""
CITED_SHOWN = 12
"""Cited passages with their texts; a model that cites half the label needs no more to be seen to do so."""


class WrongAnswerPayload:
    """Collects wrong answers until the budget is spent. `payload` is what the page's script reads."""

    def __init__(self, sources: AnswerSources) -> None:
        self._sources = sources
        self._left = BUDGET
        self._questions: dict[str, int] = {}
        self._passages: dict[PassageKey, int] = {}
        self.payload: dict[str, list[Any]] = {"questions": [], "passages": [], "items": []}

    def add(self, wrong: WrongAnswer) -> None:
        """Nothing is added where its texts would go beyond the budget."""
        question = self._sources.questions[wrong.prediction.question_id]
        gold, cited = gold_keys(question), cited_places(wrong.prediction)[:CITED_SHOWN]
        need = len(wrong.prediction.answer) + len(wrong.prediction.text) + self._weight(question, [*gold, *cited])
        if need <= self._left:
            self._left -= need
            self.payload["items"].append(self._item(wrong, question, explain(wrong, self._sources)))

    def _weight(self, question: QuestionAnswer, places: Sequence[PassageKey]) -> int:
        fresh = {place for place in self._at_hand(places) if place not in self._passages}
        return 600 + len(question.question) + sum(len(self._sources.passages[place].text) for place in fresh)

    def _item(self, wrong: WrongAnswer, question: QuestionAnswer, why: Explanation) -> dict[str, Any]:
        said = wrong.prediction
        shown = shown_places(said)
        return {
            "id": said.id,
            "model": said.model,
            "setting": setting_name(said.setting, said.retriever),
            "type": GROUP_NAMES.get(question.type, question.type),
            "kind": KINDS[wrong.kind],
            "reason": readable(reason_of(wrong)),
            "evidence": EVIDENCE[why.evidence],
            "question": self._question(question),
            "answer": said.answer if said.outcome == "answered" else said.text,
            "finding": why.finding,
            "detail": why.detail,
            "notes": why.notes,
            "shown": [place in shown for place in self._at_hand(gold_keys(question))] if shown else None,
            "cited": self._cited(wrong, question),
        }

    def _cited(self, wrong: WrongAnswer, question: QuestionAnswer) -> dict[str, Any] | None:
        """The cited passages with their marks, and the number of those left out; None where none were asked for."""
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
