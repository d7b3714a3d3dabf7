"""The steps of an evaluation: its specification, the state of one label's questions for one model, its part files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.gold import equivalences
from fdarx_core.evaluation.metrics import AnswerFunction, Metric
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
    context_of,
    grade_without_judge,
    grading_slots,
    question_features,
    read_grade,
    score,
)
from fdarx_core.evaluation.settings import (
    RETRIEVED,
    PromptContext,
    TokenBudget,
    is_due,
    needs_whole_label,
    prompt_context,
)
from fdarx_core.llm import TRANSIENT, Baseline, ModelConfig, Prices, source_digest
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Address, Asking, Part, Step
from fdarx_core.records import (
    Equivalence,
    Grade,
    LabelSummary,
    Passage,
    Prediction,
    QuestionAnswer,
    Ranking,
    Score,
    SettingProgress,
)
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.benchmark_reader import BenchmarkItem
from fdarx_core.storage.imported_predictions import ImportedPrediction
from fdarx_core.verify.language_model import JUDGE_CLAIM, judge_slots

LABELS_PER_PART = 8
CODE_VERSION = source_digest("fdarx_core.evaluation", "fdarx_core.retrieval", "fdarx_core.baseline", "fdarx_core.text")
"""Digest of the code that ranks, parses, grades and scores. Results of another version are computed again."""

GivenAnswers: TypeAlias = Mapping[tuple[str, CellKey], ImportedPrediction]
"""Answers of other programs, by question id and cell."""


EVALUATION_RULES = Baseline({**EVALUATION_TASKS, JUDGE_CLAIM.name: JUDGE_CLAIM}, EVALUATION_RULES_VERSION)
"""The built-in rules for all tasks of an evaluation."""


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """One evaluation. `answerers` and `judge` are names of `models`, or `baseline`.

    `scope` of retrieval is label or corpus; `label_chars` cuts a label's text, None leaves it whole; `bertscore` is the
    directory of a model for BERTScore. `given` are the cells of answers made elsewhere, which are graded and not asked
    for, `given_citing` those of their settings in which answers cite. `regraded` is the address of the evaluation that
    made these answers, "" where they come from a file. `metrics` are added to those that FDARx and installed packages
    have.
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
    metrics: Sequence[AnswerFunction | Metric] = ()

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

    def address(self, name: str) -> Address:
        """Return where requests to a model are sent. Raises KeyError for an unknown name."""
        return Address.of(name, self.models, EVALUATION_RULES)

    def engine(self, name: str) -> str:
        """Return what answers under the name of a model that is asked. Raises KeyError for an unknown name."""
        return f"built-in rules {EVALUATION_RULES_VERSION}" if name == Baseline.name else self.models[name].engine

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that are asked at all."""
        names = {*self.answerers, self.judge}
        return {name: model for name, model in self.models.items() if name in names}


@dataclass(slots=True)
class EvalSample:
    """A label with its questions, and the results of one model so far.

    `rankings` go by retriever and question id; `elsewhere` holds the passages of other labels that they name, by set
    id and index. `due` are the questions of each cell.
    """

    examined: BenchmarkItem
    equivalences: dict[str, Equivalence]
    rankings: dict[tuple[str, str], Ranking]
    elsewhere: dict[tuple[str, int], Passage]
    due: dict[CellKey, list[QuestionAnswer]]
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


def evaluation_steps(
    spec: EvaluationSetup, model: str, given: GivenAnswers | None = None, *, planned: bool = False
) -> list[Step[EvalSample]]:
    """Return the steps of one model: it is asked, unless answers made elsewhere are `given`, and a judge grades.

    The samples of a `spec.regraded` evaluation have predictions already, so that they are only graded.
    """
    judge = spec.address(spec.judge)
    grade = judge.step("grade", partial(grade_answers, judge))
    if spec.regraded:
        return [grade]
    if given is not None:
        return [partial(take_given_answers, given), grade]
    config, answerer = spec.models.get(model), spec.address(model)
    budget, prices = TokenBudget.of(config, spec.label_chars), config.prices if config else None
    ask = partial(answer_questions, answerer, budget, spec.top_k, prices, planned and config is not None)
    return [answerer.step("answer", ask), grade]


def answer_questions(
    address: Address, budget: TokenBudget, top_k: int, prices: Prices | None, planned: bool, sample: EvalSample
) -> Asking:
    """Questions → predictions of one model, cell by cell, so that requests with a common prefix follow each other."""
    prompts: list[tuple[CellKey, QuestionAnswer, PromptContext]] = []
    for cell, questions in sample.due.items():
        for question in questions:
            ranked = sample.ranked(cell.retriever, question, top_k)
            view = prompt_context(cell.setting, question, sample.examined.passages, ranked, budget)
            prompts.append((cell, question, view))
    exchanges = yield [address.request(ANSWER_TASKS[cell.setting], view.slots) for cell, _, view in prompts]
    for (cell, question, view), (_, response) in zip(prompts, exchanges, strict=True):
        cost = prices.cost(response) if prices else None
        task = ANSWER_TASKS[cell.setting]
        row = prediction_from_response(cell, question, view, task, response, cost)
        if planned:  # the judge is asked about as many as it may be: nothing is refused, no two answers are equal
            row.outcome, row.answer = "answered", f"{row.answer or question.answer} ({row.id})"
        sample.predictions.append(row)


def take_given_answers(answers: GivenAnswers, sample: EvalSample) -> None:
    """Make predictions from answers that other programs made."""
    for cell, questions in sample.due.items():
        for question in questions:
            given = answers[question.id, cell]
            sample.predictions.append(prediction_from_given(question, sample.examined.passages, given))


def grade_answers(address: Address, sample: EvalSample) -> Asking:
    """Predictions → grades. A rule grades what needs no judgement, the judge the rest, by gold answer or context."""
    passages = {passage.doc_chunk_index: passage for passage in sample.examined.passages}
    questions = {question.id: question for question in sample.examined.questions}
    pairs = [(questions[prediction.question_id], prediction) for prediction in sample.predictions]
    by_rule = [grade_without_judge(*pair) for pair in pairs]
    judged = [pair for pair, grade in zip(pairs, by_rule, strict=True) if grade is None]
    contexts = [context_of(*pair, passages) for pair in judged]
    exchanges = yield [
        address.request(JUDGE_CLAIM, judge_slots([context])) if context
        else address.request(GRADE_ANSWER, grading_slots(*pair))
        for pair, context in zip(judged, contexts, strict=True)
    ]  # fmt: skip
    replies = zip(contexts, exchanges, strict=True)
    for pair, grade in zip(pairs, by_rule, strict=True):
        if grade is None:
            context, (_, response) = next(replies)
            grade = read_grade(*pair, response, context)
        sample.grades.append(grade)


def read_items(parts: PartFiles, part: int) -> list[BenchmarkItem]:
    """Return the labels of a part, in order of set id."""
    passages = _by_label(parts.read("passages", part, Passage))
    questions = _by_label(parts.read("questions", part, QuestionAnswer))
    return [
        BenchmarkItem(subject, passages.get(subject.set_id, []), questions.get(subject.set_id, []))
        for subject in parts.read("subjects", part, LabelSummary)
    ]


def write_items(parts: PartFiles, item: tuple[int, Sequence[BenchmarkItem]]) -> None:
    """Write the labels of a part, and the passages that are worth as much as gold passages."""
    part, labels = item
    equal = [row for label in labels for row in equivalences(label.questions, label.passages)]
    parts.write("subjects", part, [label.subject for label in labels], LabelSummary)
    parts.write("passages", part, [row for label in labels for row in label.passages], Passage)
    parts.write("questions", part, [row for label in labels for row in label.questions], QuestionAnswer)
    parts.write("equivalences", part, equal, Equivalence)
    parts.mark_complete("intake", part)


def read_equivalences(parts: PartFiles, part: int) -> dict[str, Equivalence]:
    """Return the equivalences of a part by question id."""
    return {row.question_id: row for row in parts.read("equivalences", part, Equivalence)}


def read_samples(
    parts: PartFiles, spec: EvaluationSetup, model: str, given: GivenAnswers | None, part: Part
) -> list[EvalSample]:
    """Return the samples for a model from the rows of earlier stages, or those that `given` answers cover.

    Where another evaluation is graded again, they hold its predictions of the part.
    """
    equal, cells = read_equivalences(parts, part.number), spec.cells(model)
    asks = not (given or spec.regraded)
    rankings: dict[tuple[str, str], Ranking] = {}
    elsewhere: dict[tuple[str, int], Passage] = {}
    for name in {cell.retriever for cell in cells} - {""} if asks else ():
        # without a file, no label is whole, so nothing is due
        for ranking in parts.read_all(f"rankings/{name}", [part.number], Ranking):
            rankings[name, ranking.question_id] = ranking
        for passage in parts.read_all(f"elsewhere/{name}", [part.number], Passage):
            elsewhere[passage.set_id, passage.doc_chunk_index] = passage
    predictions: dict[str, list[Prediction]] = {}
    answered: Collection[tuple[str, CellKey]] | None = given
    if spec.regraded:
        earlier = PartFiles(RunDirectory.open(spec.regraded), parts.code_version)
        made = earlier.read_all(f"predictions/{model}", [part.number], Prediction)
        predictions = _by_label(made)
        answered = {(row.question_id, CellKey(row.model, row.setting, row.retriever)) for row in made}

    def is_due(cell: CellKey, question: QuestionAnswer, subject: LabelSummary) -> bool:
        return spec.is_due(cell.setting, question, subject) if answered is None else (question.id, cell) in answered

    samples: list[EvalSample] = []
    for examined in read_items(parts, part.number):
        questions, set_id = {row.id: row for row in examined.questions}, examined.subject.set_id
        due = {cell: [row for row in examined.questions if is_due(cell, row, examined.subject)] for cell in cells}
        sample = EvalSample(
            examined,
            {id: equal[id] for id in questions if id in equal},
            {key: row for key, row in rankings.items() if row.set_id == set_id},
            elsewhere,
            due,
            predictions=predictions.get(set_id, []),
        )
        samples.append(sample)
    return samples


def write_samples(
    parts: PartFiles, spec: EvaluationSetup, model: str, part: int, samples: Sequence[EvalSample]
) -> tuple[int, Counter[tuple[str, str]]]:
    """Write predictions, grades and scores, and last the progress of each cell in this part.

    Returns:
        The number of labels, and of grades by cell and outcome.
    """
    predictions = [row for sample in samples for row in sample.predictions]
    grades = [row for sample in samples for row in sample.grades]
    parts.write(f"predictions/{model}", part, predictions, Prediction)
    parts.write(f"grades/{model}", part, grades, Grade)
    citing = MARKED if model in spec.answerers else MARKED | spec.given_citing
    scored = [row for sample in samples for row in scores(sample, citing, spec.metrics)]
    parts.write(f"scores/{model}", part, scored, Score)
    progress = [cell_progress(cell, samples) for cell in spec.cells(model)]
    parts.mark_complete(f"graded/{model}", part, progress, SettingProgress)
    cells = {row.id: "/".join(filter(None, (row.model, row.setting, row.retriever))) for row in predictions}
    return len(samples), Counter((cells[grade.prediction_id], grade.outcome) for grade in grades)


def read_cells(parts: PartFiles, model: str, numbers: Sequence[int]) -> Iterator[list[SettingProgress]]:
    """Yield the progress of a model's cells in each of the parts, which must be marked."""
    return parts.read_each(parts.mark_kind(f"graded/{model}"), numbers, SettingProgress)


def scores(sample: EvalSample, citing: Collection[str], added: Sequence[AnswerFunction | Metric] = ()) -> list[Score]:
    """Return one row per prediction, with the `added` metrics; citations are scored in the settings `citing`."""
    examined = sample.examined
    passages = {passage.doc_chunk_index: passage for passage in examined.passages}
    questions = {question.id: question for question in examined.questions}
    features = {id: question_features(question, examined.subject, passages) for id, question in questions.items()}
    grades: Mapping[str, Grade] = {grade.prediction_id: grade for grade in sample.grades}
    rows = []
    for row in sample.predictions:
        id, grade = row.question_id, grades.get(row.id)
        rows.append(score(features[id], questions[id], row, grade, sample.equivalences.get(id), citing, added))
    return rows


def cell_progress(cell: CellKey, samples: Sequence[EvalSample]) -> SettingProgress:
    """Return the progress of a cell in these samples. Transient failures make it incomplete and are asked again."""
    mine = {
        row.id: row
        for sample in samples
        for row in sample.predictions
        if (row.model, row.setting, row.retriever) == cell
    }
    grades = [row for sample in samples for row in sample.grades if row.prediction_id in mine]
    failed = {row.prediction_id: row.detail for row in grades if row.outcome == "unscored"}
    failed |= {row.id: row.reason for row in mine.values() if row.reason}  # such an answer has no grade either
    reasons = [reason for reason in failed.values() if reason.startswith(TRANSIENT)]
    lost = [row.reason for row in mine.values() if row.outcome == "failed"]
    status, reason = "done", lost[0] if lost else ""
    if reasons:
        first = reasons[0].removeprefix(TRANSIENT).split(":")[0]
        status, reason = "incomplete", f"{len(reasons)} of {len(mine)} answers failed for now ({first})"
    return SettingProgress(
        *cell,
        status=status,
        reason=reason,
        due=sum(len(sample.due.get(cell, ())) for sample in samples),
        answer_prompt=prompts_of(mine.values()),
        judge_prompt=prompts_of(grades),
    )


def prompts_of(rows: Iterable[Prediction | Grade]) -> str:
    """Return the tasks of the rows with their versions, for example "answer_oracle 2"; "" where no prompt was used."""
    return ", ".join(sorted({f"{row.task} {row.task_version}" for row in rows if row.task}))


def _by_label(rows: Iterable[Any]) -> dict[str, list[Any]]:
    return {set_id: list(group) for set_id, group in groupby(rows, key=lambda row: row.set_id)}
