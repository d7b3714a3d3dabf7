"""The steps of an evaluation: its specification, the state of one label's questions for one model, its part files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.predictions import (
    ANSWER_TASKS,
    EVALUATION_RULES_VERSION,
    EVALUATION_TASKS,
    prediction_from_given,
    prediction_from_response,
)
from fdarx_core.evaluation.scoring import (
    GRADE_ANSWER,
    MARKED,
    grade_without_judge,
    grading_slots,
    question_features,
    read_grade,
    score,
)
from fdarx_core.evaluation.settings import (
    RETRIEVED,
    SETTINGS,
    PromptContext,
    TokenBudget,
    is_due,
    needs_whole_label,
    prompt_context,
)
from fdarx_core.llm import TRANSIENT, Baseline, ModelConfig, Prices, source_digest
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Address, AskStep, Exchange, Part, Step
from fdarx_core.records import (
    Equivalence,
    Grade,
    LabelSummary,
    Passage,
    Prediction,
    QuestionAnswer,
    Ranking,
    Request,
    Score,
    SettingProgress,
)
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.benchmark_reader import BenchmarkItem
from fdarx_core.storage.imported_predictions import ImportedPrediction

LABELS_PER_PART = 8
CODE_VERSION = source_digest("fdarx_core.evaluation", "fdarx_core.retrieval", "fdarx_core.baseline")
"""Digest of the code that ranks, parses, grades and scores. Results of another version are computed again."""

GIVEN_ENGINE = "answers of another program"
"""The engine of a cell whose answers were made elsewhere."""

GivenAnswers: TypeAlias = Mapping[tuple[str, CellKey], ImportedPrediction]
"""Answers of other programs, by question id and cell."""


def baseline() -> Baseline:
    """Return the built-in rules for all tasks of an evaluation."""
    return Baseline(EVALUATION_TASKS, EVALUATION_RULES_VERSION)


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """One evaluation. `answerers` and `judge` are names of `models`, or `baseline`.

    `scope` of retrieval is label or corpus; `label_chars` cuts a label's text, None leaves it whole; `bertscore` is the
    directory of a model for BERTScore. `given` are the cells of answers made elsewhere, which are graded and not asked
    for, `given_citing` those of their settings in which answers cite. `regraded` is the address of the evaluation that
    made these answers, "" where they come from a file. With `batch`, requests go through batch APIs.
    """

    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    answerers: Sequence[str] = ()
    judge: str = Baseline.name
    settings: Sequence[str] = ()
    retrievers: Sequence[str] = ()
    top_k: int = 5
    scope: str = "label"
    label_chars: int | None = None
    directories: ModelDirectories = field(default_factory=ModelDirectories)
    bertscore: str | None = None
    bertscore_layers: int | None = None
    given: Sequence[CellKey] = ()
    regraded: str = ""
    given_citing: frozenset[str] = frozenset()
    max_requests: int | None = None
    max_cost: float | None = None
    batch: bool = False

    def cells(self, model: str) -> list[CellKey]:
        """Return the cells of a model in the order of asking: those that share the longest prefix first."""
        if model not in self.answerers:
            return [cell for cell in self.given if cell.model == model]
        keys: list[CellKey] = []
        for setting in self.settings:
            named = self.retrievers if setting == RETRIEVED else [""]
            keys += [CellKey(model, setting, retriever) for retriever in named]
        return keys

    @property
    def graded(self) -> list[str]:
        """All models whose answers are graded: those that are asked, then those of other programs' answers."""
        return list(dict.fromkeys([*self.answerers, *(cell.model for cell in self.given)]))

    def is_due(self, setting: str, question: QuestionAnswer, subject: LabelSummary) -> bool:
        """Return whether the question is asked in the setting: it is meant for it, and the needed text is available."""
        return is_due(setting, question) and (subject.whole or not needs_whole_label(setting))

    def citing(self, model: str) -> frozenset[str]:
        """Return the settings in which the model's answers should cite passages."""
        return MARKED if model in self.answerers else MARKED | self.given_citing

    def address(self, name: str) -> Address:
        """Return where requests to a model are sent. Raises KeyError for an unknown name."""
        return Address.of(name, self.models, baseline())

    def is_due_elsewhere(self, setting: str, question: QuestionAnswer) -> bool:
        """Return whether another program should have answered the question in the setting.

        It may have had passages that the benchmark lacks. In a setting with a name of its own every question is due.
        """
        return setting not in SETTINGS or is_due(setting, question)

    def engine(self, name: str) -> str:
        """Return what answers under the name of a model that is asked. Raises KeyError for an unknown name."""
        return f"built-in rules {EVALUATION_RULES_VERSION}" if name == Baseline.name else self.models[name].engine

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that are asked at all."""
        names = {*self.answerers, self.judge}
        return {name: model for name, model in self.models.items() if name in names}

    @property
    def clients(self) -> ClientPool:
        return ClientPool(baseline(), self.used, self.max_requests, self.max_cost, shared_fate=False, batch=self.batch)


@dataclass(slots=True)
class EvalSample:
    """A label with its questions, and the results of one model so far.

    `rankings` go by retriever and question id; `elsewhere` holds the passages of other labels that they name, by set
    id and index. `due` are the questions of each cell. `ended` says what ended asking before the sample was over.
    """

    examined: BenchmarkItem
    equivalences: dict[str, Equivalence]
    rankings: dict[tuple[str, str], Ranking]
    elsewhere: dict[tuple[str, int], Passage]
    due: dict[CellKey, list[QuestionAnswer]]
    prompts: list[tuple[CellKey, QuestionAnswer, PromptContext]] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    grades: list[Grade] = field(default_factory=list)

    def ranked(self, retriever: str, question: QuestionAnswer, top_k: int) -> list[Passage]:
        """Return the `top_k` passages of the retriever; none in settings without one."""
        if not retriever:
            return []
        ranking = self.rankings[retriever, question.id]
        own = {passage.doc_chunk_index: passage for passage in self.examined.passages}
        if not ranking.ranked_set_ids:
            return [own[index] for index in ranking.ranked[:top_k]]
        pairs = list(zip(ranking.ranked_set_ids, ranking.ranked, strict=True))[:top_k]
        return [own[index] if set_id == question.set_id else self.elsewhere[set_id, index] for set_id, index in pairs]


def evaluation_steps(spec: EvaluationSpec, model: str, given: GivenAnswers | None = None) -> list[Step[EvalSample]]:
    """Return the steps of one model: it is asked, unless answers made elsewhere are `given`, and a judge grades.

    The samples of a `spec.regraded` evaluation have predictions already, so that they are only graded.
    """
    grade = grade_answers(spec.address(spec.judge))
    if spec.regraded:
        return [grade]
    if given is not None:
        return [partial(take_given_answers, given), grade]
    config = spec.models.get(model)
    budget = TokenBudget.of(config, spec.label_chars)
    return [answer_questions(spec.address(model), budget, spec.top_k, config.prices if config else None), grade]


def answer_questions(
    address: Address, budget: TokenBudget, top_k: int, prices: Prices | None = None
) -> AskStep[EvalSample]:
    """Return the step Questions → predictions of one model, cell by cell, so that requests with a common prefix follow
    each other."""
    return AskStep(
        "answer", frozenset((address.name,)), partial(_prompts, address, budget, top_k), partial(_take_answers, prices)
    )


def _prompts(address: Address, budget: TokenBudget, top_k: int, sample: EvalSample) -> list[Request]:
    def context(cell: CellKey, question: QuestionAnswer) -> PromptContext:
        ranked = sample.ranked(cell.retriever, question, top_k)
        return prompt_context(cell.setting, question, sample.examined.passages, ranked, budget)

    sample.prompts = [
        (cell, question, context(cell, question)) for cell, questions in sample.due.items() for question in questions
    ]
    return [address.request(ANSWER_TASKS[cell.setting], view.slots) for cell, _, view in sample.prompts]


def _take_answers(prices: Prices | None, sample: EvalSample, exchanges: Sequence[Exchange]) -> None:
    for (cell, question, view), (_, response) in zip(sample.prompts, exchanges, strict=True):
        cost = prices.cost(response) if prices else None
        task = ANSWER_TASKS[cell.setting]
        sample.predictions.append(prediction_from_response(cell, question, view, task, response, cost))
    sample.prompts = []


def take_given_answers(answers: GivenAnswers, sample: EvalSample) -> None:
    """Make predictions from answers that other programs made."""
    for cell, questions in sample.due.items():
        for question in questions:
            given = answers[question.id, cell]
            sample.predictions.append(prediction_from_given(question, sample.examined.passages, given))


def grade_answers(address: Address) -> AskStep[EvalSample]:
    """Return the step Predictions → grades. A rule grades what needs no judgement, the judge the rest."""
    return AskStep("grade", frozenset((address.name,)), partial(_grade_requests, address), _take_grades)


def _grade_requests(address: Address, sample: EvalSample) -> list[Request]:
    return [
        address.request(GRADE_ANSWER, grading_slots(question, prediction))
        for question, prediction, grade in _graded_by_rule(sample)
        if grade is None
    ]


def _take_grades(sample: EvalSample, exchanges: Sequence[Exchange]) -> None:
    waiting = iter(exchanges)
    for question, prediction, grade in _graded_by_rule(sample):
        sample.grades.append(grade or read_grade(question, prediction, next(waiting)[1]))


def _graded_by_rule(sample: EvalSample) -> list[tuple[QuestionAnswer, Prediction, Grade | None]]:
    questions = {question.id: question for question in sample.examined.questions}
    pairs = [(questions[prediction.question_id], prediction) for prediction in sample.predictions]
    return [(question, prediction, grade_without_judge(question, prediction)) for question, prediction in pairs]


def read_items(parts: PartFiles, part: int) -> list[BenchmarkItem]:
    """Return the labels of a part, in order of set id."""
    passages = _by_label(parts.read("passages", part, Passage))
    questions = _by_label(parts.read("questions", part, QuestionAnswer))
    return [
        BenchmarkItem(subject, passages.get(subject.set_id, []), questions.get(subject.set_id, []))
        for subject in parts.read("subjects", part, LabelSummary)
    ]


def write_items(parts: PartFiles, part: int, labels: Sequence[BenchmarkItem], equal: Sequence[Equivalence]) -> None:
    """Write the labels of a part, and the passages that are worth as much as gold passages."""
    parts.write("subjects", part, [one.subject for one in labels], LabelSummary)
    parts.write("passages", part, [row for one in labels for row in one.passages], Passage)
    parts.write("questions", part, [row for one in labels for row in one.questions], QuestionAnswer)
    parts.write("equivalences", part, equal, Equivalence)
    parts.mark("intake", part)


def read_equivalences(parts: PartFiles, part: int) -> dict[str, Equivalence]:
    """Return the equivalences of a part by question id."""
    return {row.question_id: row for row in parts.read("equivalences", part, Equivalence)}


def read_samples(
    parts: PartFiles, spec: EvaluationSpec, model: str, given: GivenAnswers | None, part: Part
) -> list[EvalSample]:
    """Return the samples for a model from the rows of earlier stages, or those that `given` answers cover.

    Where another evaluation is graded again, they hold its predictions of the part.
    """
    if spec.regraded:
        return _read_predicted(parts, spec, model, part.number)
    equal = read_equivalences(parts, part.number)
    cells = spec.cells(model)
    rankings, elsewhere = _read_rankings(parts, () if given else {cell.retriever for cell in cells}, part.number)

    def due(cell: CellKey, question: QuestionAnswer, subject: LabelSummary) -> bool:
        return spec.is_due(cell.setting, question, subject) if given is None else (question.id, cell) in given

    return [
        EvalSample(
            examined,
            {row.id: equal[row.id] for row in examined.questions if row.id in equal},
            {key: row for key, row in rankings.items() if row.set_id == examined.subject.set_id},
            elsewhere,
            {cell: [row for row in examined.questions if due(cell, row, examined.subject)] for cell in cells},
        )
        for examined in read_items(parts, part.number)
    ]


def _read_predicted(parts: PartFiles, spec: EvaluationSpec, model: str, part: int) -> list[EvalSample]:
    earlier = PartFiles(RunDirectory.open(spec.regraded), parts.code_version)
    equal, cells = read_equivalences(parts, part), spec.cells(model)
    predictions = _by_label(earlier.read_all(f"predictions/{model}", [part], Prediction))
    samples: list[EvalSample] = []
    for examined in read_items(parts, part):
        questions = {row.id: row for row in examined.questions}
        due: dict[CellKey, list[QuestionAnswer]] = {cell: [] for cell in cells}
        found = predictions.get(examined.subject.set_id, [])
        for row in found:
            due[CellKey(row.model, row.setting, row.retriever)].append(questions[row.question_id])
        equivalences = {id: equal[id] for id in questions if id in equal}
        samples.append(EvalSample(examined, equivalences, {}, {}, due, predictions=found))
    return samples


def _read_rankings(
    parts: PartFiles, retrievers: Iterable[str], part: int
) -> tuple[dict[tuple[str, str], Ranking], dict[tuple[str, int], Passage]]:
    rankings: dict[tuple[str, str], Ranking] = {}
    elsewhere: dict[tuple[str, int], Passage] = {}
    for name in filter(None, retrievers):  # without a file, no label is whole, so nothing is due
        for row in parts.read_all(f"rankings/{name}", [part], Ranking):
            rankings[name, row.question_id] = row
        for passage in parts.read_all(f"elsewhere/{name}", [part], Passage):
            elsewhere[passage.set_id, passage.doc_chunk_index] = passage
    return rankings, elsewhere


def write_samples(
    parts: PartFiles, spec: EvaluationSpec, model: str, part: int, samples: Sequence[EvalSample]
) -> tuple[int, Counter[tuple[str, str]]]:
    """Write predictions, grades and scores, and last the progress of each cell in this part.

    Returns:
        The number of labels, and of grades by cell and outcome.
    """
    predictions = [row for sample in samples for row in sample.predictions]
    grades = [row for sample in samples for row in sample.grades]
    parts.write(f"predictions/{model}", part, predictions, Prediction)
    parts.write(f"grades/{model}", part, grades, Grade)
    parts.write(f"scores/{model}", part, [row for one in samples for row in scores(one, spec.citing(model))], Score)
    parts.mark(f"graded/{model}", part, [cell_progress(cell, samples) for cell in spec.cells(model)], SettingProgress)
    cells = {row.id: "/".join(filter(None, (row.model, row.setting, row.retriever))) for row in predictions}
    return len(samples), Counter((cells[grade.prediction_id], grade.outcome) for grade in grades)


def read_cells(parts: PartFiles, model: str, numbers: Sequence[int]) -> Iterator[list[SettingProgress]]:
    """Yield the progress of a model's cells in each of the parts, which must be marked."""
    return parts.read_each(parts.done(f"graded/{model}"), numbers, SettingProgress)


def scores(sample: EvalSample, citing: Collection[str]) -> list[Score]:
    """Return one row per prediction; citations are scored in the settings `citing`."""
    examined = sample.examined
    passages = {passage.doc_chunk_index: passage for passage in examined.passages}
    questions = {question.id: question for question in examined.questions}
    described = {one.id: question_features(one, examined.subject, passages) for one in examined.questions}
    grades: Mapping[str, Grade] = {grade.prediction_id: grade for grade in sample.grades}
    return [
        score(
            described[row.question_id],
            questions[row.question_id],
            row,
            grades.get(row.id),
            sample.equivalences.get(row.question_id),
            citing,
        )
        for row in sample.predictions
    ]


def cell_progress(cell: CellKey, samples: Sequence[EvalSample]) -> SettingProgress:
    """Return the progress of a cell in these samples. Transient failures make it incomplete and are asked again."""
    mine = {
        row.id: row for one in samples for row in one.predictions if (row.model, row.setting, row.retriever) == cell
    }
    transient = [row.reason for row in mine.values() if row.reason.startswith(TRANSIENT)]
    grades = [row for one in samples for row in one.grades if row.prediction_id in mine]
    transient += [row.detail for row in grades if row.outcome == "unscored" and row.detail.startswith(TRANSIENT)]
    lost = [row.reason for row in mine.values() if row.outcome == "failed"]
    progress = SettingProgress(
        *cell,
        status="done",
        reason=lost[0] if lost else "",
        due=sum(len(one.due.get(cell, ())) for one in samples),
        answer_prompt=prompts_of(mine.values()),
        judge_prompt=prompts_of(grades),
    )
    if not transient:
        return progress
    first = transient[0].removeprefix(TRANSIENT).split(":")[0]
    return replace(progress, status="incomplete", reason=f"{len(transient)} requests failed for now ({first})")


def prompts_of(rows: Iterable[Prediction | Grade]) -> str:
    """Return the tasks of the rows with their versions, for example "answer_oracle 2"; "" where no prompt was used."""
    return ", ".join(sorted({f"{row.task} {row.task_version}" for row in rows if row.task}))


def _by_label(rows: Iterable[Any]) -> dict[str, list[Any]]:
    return {set_id: list(group) for set_id, group in groupby(rows, key=lambda row: row.set_id)}
