"""Finished runs made up from a seed: a build whose judges kept, dropped and did not score, and an evaluation of it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from fdarx_core.evaluation.grading import BY_RULE
from fdarx_core.labels.topics import TOPICS
from fdarx_core.records import (
    NO_ANSWER,
    Cell,
    Grade,
    Label,
    Passage,
    Prediction,
    QuestionAnswer,
    Score,
    Verdict,
    content_id,
)
from fdarx_core.storage import RunDirectory, write_records
from tests.report.synthetic_run import make_label

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
        self.verdicts: list[Verdict] = []
        self.passages: list[Passage] = []
        numbers = range(parts)
        for number, at in zip(numbers, reversed(numbers) if backwards else numbers, strict=True):
            self._part(number, [f"set-{at}-{label}" for label in range(labels)], questions)
        self.run.finish({"input": {"digest": "made-up"}, "stages": []})

    def _part(self, number: int, set_ids: list[str], questions: int) -> None:
        rows: dict[type, list[Any]] = {Label: [], Passage: [], QuestionAnswer: [], Verdict: []}
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
                rows[Verdict] += verdicts
                if all(one.outcome == "kept" for one in verdicts):
                    kept.append(question)
        places = {Label: "labels", Passage: "passages", QuestionAnswer: "candidates", Verdict: "verdicts"}
        for record, kind in places.items():
            write_records(self.run.part(kind, number), rows[record], record)
        write_records(self.run.part("questions", number), kept, QuestionAnswer)
        self.questions += rows[QuestionAnswer]
        self.verdicts += rows[Verdict]
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


def _verdicts(question: QuestionAnswer, random: Random) -> list[Verdict]:
    """As judges give them: the one who does not keep a question is the last."""
    found: list[Verdict] = []
    for stage in ("relevance", "support", "quality")[: 2 if question.type == "refusal" else 3]:
        outcome = random.choices(("kept", "dropped", "unscored"), (0.85, 0.1, 0.05))[0]
        one = Verdict(question.id, question.set_id, stage, outcome, "" if outcome == "kept" else "some_reason", HOSTILE)
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
            scores = [_score(*one, build) for one in zip(made, grades, strict=True)]
            write_records(self.run.part(f"scores/{model}", 0), scores, Score)
            self.predictions += made
            self.grades |= {one.prediction_id: one for one in grades}
        cells = [
            Cell(model, setting, "", "done") for model in ("large", "small") for setting in ("oracle", "full_label")
        ]
        write_records(self.run.file("cells.parquet"), cells, Cell)
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


def _score(said: Prediction, grade: Grade, build: ReviewedBuild) -> Score:
    asked = next(one for one in build.questions if one.id == said.question_id)
    return Score(
        said.id, said.question_id, said.set_id, said.model, said.setting, "", asked.type, asked.answer_kind,
        asked.category, "", False, 100, said.outcome, grade.outcome,
    )  # fmt: skip
