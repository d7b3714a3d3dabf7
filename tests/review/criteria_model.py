"""A finished run of invented labels, a review of it, and a model that judges and proposes as it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from fdarx_core.records import Label, Passage, QuestionAnswer
from fdarx_core.records.benchmark import Annotation, ReviewItem
from fdarx_core.review.agreement_metrics import AnnotatedItem, collect_votes
from fdarx_core.review.review_set import FORMAT, open_review
from fdarx_core.review.tasks import REVIEW_TASKS
from fdarx_core.storage import Location, RunDirectory, write_records
from tests.filters.judged import FACTUAL, LABEL, PASSAGES
from tests.llm.loopback_server import text_of

LABELS = 48
SCORED = "Is the {drug} tablet scored?"
DOSED = "What dose of {drug} is recommended for angina?"
COLORED = "What color is the {drug} tablet?"
KINDS = (SCORED, DOSED, COLORED)
NEW_RULE = "A question on a score line is relevant: a generic must be scored as its reference is."
REMARK = "The score line has to match the reference."
CHANGE = {"action": "add", "id": "scoring", "text": NEW_RULE, "applies_to": ["judge_relevance"], "why": "They said so."}


def proposal(*changes: Mapping[str, Any]) -> str:
    return json.dumps({"changes": list(changes)})


@dataclass
class Model:
    """Answers as a judge that finds score lines relevant where a criterion says so, but then likes colors too.

    `reply` is what it says to the proposer's prompt; `mute_on` a question that it does not judge. The others are the
    prompts of each task, in order.
    """

    reply: str = field(default_factory=lambda: proposal(CHANGE))
    mute_on: str = "nobody asks this"
    proposer: list[str] = field(default_factory=list)
    relevance: list[str] = field(default_factory=list)
    quality: list[str] = field(default_factory=list)

    def __call__(self, body: Mapping[str, Any]) -> str:
        """Matches `LoopbackServer.answer`."""
        system, asked = text_of(body["messages"][0]), text_of(body["messages"][-1])
        if "You keep the criteria" in system:
            self.proposer.append(asked)
            return self.reply
        if "You sort questions" in system:
            self.relevance.append(asked)
            mute = any(self.mute_on in text_of(message) for message in body["messages"])
            return "I would rather not say." if mute else self._relevance(system, asked)
        self.quality.append(asked)
        return json.dumps({"note": "", "flags": []})

    def _relevance(self, system: str, asked: str) -> str:
        liked = "dose" in asked or (NEW_RULE in system and "tablet" in asked)
        topic = "Dosage & Administration" if "dose" in asked else "Dosage Forms & Strengths & Formulation"
        return json.dumps({"reason": "", "category": topic, "relevance": "relevant" if liked else "somewhat"})


def make_run(folder: Path) -> RunDirectory:
    """A finished build of `LABELS` labels with a question each, in three kinds by turns."""
    run = RunDirectory.begin(str(folder / "run"), job="build_benchmark", config={"judge": "baseline"}, versions={})
    questions = [_question(number) for number in range(LABELS)]
    labels = [replace(LABEL, set_id=one.set_id, drug_name=one.drug_name) for one in questions]
    passages = [replace(passage, set_id=one.set_id) for one in questions for passage in PASSAGES]
    write_records(run.part("candidates", 0), questions, QuestionAnswer)
    write_records(run.part("labels", 0), labels, Label)
    write_records(run.part("passages", 0), passages, Passage)
    run.finish({})
    return run


def _question(number: int) -> QuestionAnswer:
    drug = f"Velorin{number:02d}"
    asked = KINDS[number % len(KINDS)].format(drug=drug)
    return replace(FACTUAL, id=f"q{number:02d}", set_id=f"set-{number:02d}", drug_name=drug, question=asked)


def make_review(folder: Path, run: RunDirectory) -> str:
    """Three annotators say: scored is relevant, colors are not, and every question is fit."""
    root = Location(folder / "review")
    items = [item for number in range(LABELS) for item in _items(_question(number))]
    write_records(root / "items.parquet", items, ReviewItem)
    votes = [vote for item in items for vote in _votes(item)]
    write_records(root / "annotations/all-1.parquet", votes, Annotation)
    about = {"format": FORMAT, "digest": "d1", "annotators": ["anna", "ben", "cara"], "tasks": ["relevance"]}
    (root / "review.json").write_text(json.dumps({**about, "run": str(run.root), "job": "build_benchmark"}))
    return str(root)


def _items(question: QuestionAnswer) -> list[ReviewItem]:
    dosed = "dose" in question.question
    topic = "Dosage & Administration" if dosed else "Dosage Forms & Strengths & Formulation"
    decided = {"relevance": "relevant" if dosed else "somewhat", "quality": "fit"}
    return [
        ReviewItem(
            id=f"{task[0]}-{question.id}",
            task=task,
            subject=question.id,
            set_id=question.set_id,
            drug=question.drug_name,
            type=question.type,
            category=topic,
            question=question.question,
            answer=question.answer,
            choices=list(REVIEW_TASKS[task].choices),
            decision=decision,
            because=f"{topic}: {decision}" if task == "relevance" else "",
        )
        for task, decision in decided.items()
    ]


def _votes(item: ReviewItem) -> list[Annotation]:
    scored = item.task == "relevance" and "scored" in item.question
    value = "relevant" if scored else item.decision
    remarks = (REMARK if scored else "", "", "")
    return [
        Annotation(item.id, name, item.task, value, remark)
        for name, remark in zip(("anna", "ben", "cara"), remarks, strict=True)
    ]


def voted_in(review: str) -> list[AnnotatedItem]:
    found = open_review(review)
    return collect_votes(found.items(), found.annotations())


def models_file(folder: Path, url: str) -> str:
    """A model named m at the server."""
    file = folder / "models.yaml"
    file.write_text(yaml.safe_dump([{"name": "m", "model": "tiny", "base_url": url, "max_tries": 2}]))
    return str(file)
