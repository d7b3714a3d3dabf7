"""Reviews for tests: items and votes by a seed, a reviewed build, a reviewed evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from fdarx_core.evaluation.scoring import BY_RULE
from fdarx_core.labels.loinc import TOPICS
from fdarx_core.records import (
    NO_ANSWER,
    Grade,
    JudgeVerdict,
    Label,
    Passage,
    Prediction,
    QuestionAnswer,
    SettingProgress,
    content_id,
)
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.agreement_metrics import AnnotatedItem
from fdarx_core.review.items import ReviewSample
from fdarx_core.review.review_set import Review, write_review
from fdarx_core.review.sampling import SampleUnit
from fdarx_core.review.tasks import REVIEW_TASKS
from fdarx_core.storage import RunDirectory, write_records
from tests.report.synthetic_run import make_label

PEOPLE = ("anna", "ben", "cleo")
TYPES = ("factual", "multihop", "refusal")


def item(name: str, task: str = "correctness", decision: str = "correct", **other: object) -> ReviewItem:
    given: dict[str, object] = {
        "id": name, "task": task, "subject": f"q-{name}", "set_id": f"label-{name}", "drug": "Examplol",
        "type": "factual", "category": "", "question": f"What does {name} say?", "answer": "It says so.",
        "choices": list(REVIEW_TASKS[task].options), "decision": decision, "judge": "llm",
    }  # fmt: skip
    return ReviewItem(**(given | other))  # type: ignore[arg-type]


def votes(on: ReviewItem, said: Mapping[str, str], **other: object) -> list[Annotation]:
    """One annotation a name; "" is no vote."""
    return [
        Annotation(on.id, name, on.task, value, **other)  # type: ignore[arg-type]
        for name, value in said.items()
        if value
    ]


def simulated(
    tasks: Sequence[str] = tuple(REVIEW_TASKS), *, n: int = 60, seed: int = 0, people: Sequence[str] = PEOPLE
) -> tuple[list[ReviewItem], list[Annotation]]:
    """`n` items a task, on half as many labels; people and judge each err, and leave some items out."""
    dice = Random(seed)
    items: list[ReviewItem] = []
    given: list[Annotation] = []
    for task in tasks:
        choices = list(REVIEW_TASKS[task].choices)
        for at in range(n):
            truth = dice.choice(choices)
            seen = [truth if dice.random() < 0.8 else dice.choice(choices) for _ in range(len(people) + 1)]
            undecided = dice.random() < 0.1
            one = item(
                f"{task}-{at}",
                task,
                "" if undecided else seen[0],
                set_id=f"label-{at % (n // 2)}",
                type=dice.choice(TYPES),
                fraction=dice.choice((0.1, 0.5, 1.0)),
            )
            items.append(one)
            said = {name: "" if dice.random() < 0.15 else value for name, value in zip(people, seen[1:], strict=True)}
            given += votes(one, said, saw_decision=dice.random() < 0.1, remark="so it says" if at % 7 == 0 else "")
    return items, given


HOSTILE = "</script><img src=x onerror=alert(1)> =1+1 \u2028"
"""What a label must never do to a page that shows it."""
TEXT = (
    "Adults take {drug} {dose} mg once daily. Do not exceed {most} mg a day. " + HOSTILE + " Store at 25 °C. "
    "{drug} is not for children."
)


class ReviewedBuild:
    """`parts` parts of `labels` labels, each with three passages and `questions` questions."""

    def __init__(
        self, root: Path, *, parts: int = 3, labels: int = 4, questions: int = 8, backwards: bool = False
    ) -> None:
        self.run = RunDirectory.begin(str(root), job="build_benchmark", config={"seed": 0}, versions={})
        self.questions: list[QuestionAnswer] = []
        self.kept: set[str] = set()
        self.verdicts: list[JudgeVerdict] = []
        self.passages: list[Passage] = []
        numbers = range(parts)
        for number, at in zip(numbers, reversed(numbers) if backwards else numbers, strict=True):
            self._part(number, [f"set-{at}-{label}" for label in range(labels)], questions)
        self.run.finish({"input": {"digest": "made-up"}, "stages": []})

    def _part(self, number: int, set_ids: list[str], questions: int) -> None:
        rows: dict[type, list[Any]] = {Label: [], Passage: [], QuestionAnswer: [], JudgeVerdict: []}
        kept: list[QuestionAnswer] = []
        for set_id in set_ids:
            random = Random(set_id)
            drug = f"Drug{random.randrange(90) + 10}"
            rows[Label].append(make_label(set_id, drug))
            rows[Passage] += [_passage(set_id, at, drug) for at in range(3)]
            for at in range(questions):
                question = _question(set_id, drug, at, random)
                verdicts = _verdicts(question, random)
                rows[QuestionAnswer].append(question)
                rows[JudgeVerdict] += verdicts
                if all(one.outcome == "kept" for one in verdicts):
                    kept.append(question)
        places = {Label: "labels", Passage: "passages", QuestionAnswer: "candidates", JudgeVerdict: "verdicts"}
        for record, kind in places.items():
            write_records(self.run.part(kind, number), rows[record], record)
        write_records(self.run.part("questions", number), kept, QuestionAnswer)
        self.questions += rows[QuestionAnswer]
        self.verdicts += rows[JudgeVerdict]
        self.passages += rows[Passage]
        self.kept |= {one.id for one in kept}


def _passage(set_id: str, at: int, drug: str) -> Passage:
    text = TEXT.format(drug=drug, dose=10 + at, most=20 + at)
    return Passage(set_id, at, 0, "34068-7", "34068-7", str(at), f"Part {at}", f"DOSAGE > Part {at}", text)


def _question(set_id: str, drug: str, at: int, random: Random) -> QuestionAnswer:
    kind = ("factual", "factual", "multihop", "refusal")[at % 4]
    gold = {"factual": [at % 3], "multihop": [0, 1], "refusal": []}[kind]
    answer = NO_ANSWER if kind == "refusal" else f"{drug} {10 + at % 3} mg once daily."
    return QuestionAnswer(
        content_id(set_id, str(at)), kind, kind, "section", random.choice(TOPICS[:3]), set_id, drug,
        f"={at} How much {drug} do adults take? {HOSTILE}", answer, gold, ["34068-7"] * len(gold), [True] * len(gold),
        entity="anuria" if kind == "refusal" else "",
    )  # fmt: skip


def _verdicts(question: QuestionAnswer, random: Random) -> list[JudgeVerdict]:
    """As judges give them: the one who does not keep a question is the last."""
    found: list[JudgeVerdict] = []
    for stage in ("relevance", "support", "quality")[: 2 if question.type == "refusal" else 3]:
        outcome = random.choices(("kept", "dropped", "unscored"), (0.85, 0.1, 0.05))[0]
        one = JudgeVerdict(
            question.id, question.set_id, stage, outcome, "" if outcome == "kept" else "some_reason", HOSTILE
        )
        one.endpoint = "strict-judge"
        if stage == "relevance" and outcome != "unscored":
            one.category, one.relevance = question.category, "relevant" if outcome == "kept" else "somewhat"
        found.append(one)
        if outcome != "kept":
            break
    return found


class ReviewedEvaluation:
    """Two models in two settings on a build's questions, every answer graded."""

    def __init__(self, root: Path, build: ReviewedBuild) -> None:
        config = {"seed": 0, "benchmark": "made-up"}
        self.run = RunDirectory.begin(str(root), job="evaluate", config=config, versions={})
        questions = [one for one in build.questions if one.id in build.kept]
        write_records(self.run.part("questions", 0), questions, QuestionAnswer)
        write_records(self.run.part("passages", 0), build.passages, Passage)
        self.predictions: list[Prediction] = []
        self.grades: dict[str, Grade] = {}
        for model in ("large", "small"):
            made = [_prediction(one, model, setting) for one in questions for setting in ("oracle", "full_label")]
            grades = [_grade(one) for one in made]
            write_records(self.run.part(f"predictions/{model}", 0), made, Prediction)
            write_records(self.run.part(f"grades/{model}", 0), grades, Grade)
            self.predictions += made
            self.grades |= {one.prediction_id: one for one in grades}
        cells = [
            SettingProgress(model, setting, "", "done")
            for model in ("large", "small")
            for setting in ("oracle", "full_label")
        ]
        write_records(self.run.file("cells.parquet"), cells, SettingProgress)
        self.run.finish({"benchmark": {"digest": "made-up"}})


def _prediction(question: QuestionAnswer, model: str, setting: str) -> Prediction:
    said = f"{model} says {question.answer}"
    return Prediction(
        content_id(question.id, model, setting), question.id, question.set_id, model, setting, answer=said
    )


def _grade(said: Prediction) -> Grade:
    outcome = Random(said.id).choices(("correct", "incorrect", "not_attempted", "unscored"), (5, 3, 1, 1))[0]
    judge = BY_RULE if outcome == "not_attempted" else "strict-judge"
    return Grade(said.id, said.question_id, said.set_id, outcome, judge=judge)


Says = Callable[[str, ReviewItem], str]


def hashed(*parts: str) -> float:
    """From 0 to 1."""
    return int(content_id(*parts), 16) / 2**64


def reviewed(root: Path, drawn: ReviewSample, says: Says, people: Sequence[str]) -> Review:
    """The sample as a review that all have annotated."""

    def page(info: Mapping[str, Any], items: Sequence[AnnotatedItem], name: str) -> str:
        return name

    review = write_review(str(root), drawn, people, {}, page)
    for name in people:
        rows = [Annotation(item.id, name, item.task, says(name, item)) for item in review.items()]
        write_records(review.root / f"annotations/{name}-0.parquet", rows, Annotation)
    return review


def unit(name: str, keys: tuple[str, ...]) -> SampleUnit:
    """Return a unit to draw, with these keys for its stratum."""
    return SampleUnit(name, name, keys)
